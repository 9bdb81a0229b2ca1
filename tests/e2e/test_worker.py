"""Real runs through agent, worker and report: how inputs and targets are found, and what comes out."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import itertools
import json
import os
import platform
import re
import signal
import stat
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.folders import cache_folder
from profile_neuron.wire.messages import Limits, RunFailed
from tests.conftest import Profiler, case, operators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.torch

HEAD = "import torch\nfrom profile_neuron import profile_neuron\n"


@pytest.fixture
def model(write: Callable[..., Path]) -> Callable[[str], Path]:
    """Write model.py with the usual imports on lines 1 and 2; the text starts on line 3."""
    return lambda text, name="model.py": write(name, HEAD + textwrap.dedent(text).lstrip("\n"))


INPUTS = {
    "tuple": ("inputs=lambda: (torch.ones(2), torch.ones(2))", "x, y", {"aten::add": 1}),
    "dict of arguments": ("inputs=lambda: {'y': torch.ones(2), 'x': torch.ones(2)}", "x, y", {"aten::add": 1}),
    "one value": ("inputs=lambda: torch.ones(2)", "x, y=1", {"aten::add": 1}),
    "a list is one value": ("inputs=lambda: [1, 2]", "x, y=torch.ones(2)", {"aten::add": 1}),
    "named sets, the first": (
        "inputs={'a': lambda: (torch.ones(2), torch.ones(2)), 'b': lambda: 1 / 0}",
        "x, y",
        {"aten::add": 1},
    ),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_inputs_of_the_decorator_become_arguments(kind: str, model: Callable[..., Path], profiler: Profiler) -> None:
    option, parameters, expected = INPUTS[kind]
    body = "torch.add(torch.ones(2), 1)" if kind == "a list is one value" else "x + y"
    path = model(f"@profile_neuron({option})\ndef f({parameters}):\n    one = 1\n    return {body}\n")
    found = profiler.run(path).operators()[6]
    assert expected.items() <= found.items()


def test_inputs_are_found_by_the_whole_name_before_the_last_part(
    model: Callable[..., Path], profiler: Profiler
) -> None:
    path = model(
        """
        class Block:
            @profile_neuron
            def forward(self, x):
                return x * 2
        def Block_forward_inputs(): return torch.ones(2)
        def forward_inputs(): raise ValueError("not this one")
        """
    )
    assert profiler.run(path).operators() == {6: {"aten::mul": 1.0}}


def test_a_function_that_needs_no_arguments_runs_without_inputs(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model("@profile_neuron\ndef f(n=3):\n    return torch.ones(n)\n")
    assert profiler.run(path).operators() == {5: {"aten::ones": 1.0}}


def test_without_inputs_nothing_runs_and_the_sentence_names_the_function_to_add(
    model: Callable[..., Path], profiler: Profiler
) -> None:
    path = model("@profile_neuron\ndef f(x, w):\n    print('ran')\n")
    run = profiler.run(path)
    assert (run.state, run.output) == ("noInputs", ())
    assert run.reason is not None
    assert "needs the arguments x and w" in run.reason
    assert "f_inputs()" in run.reason


def test_an_instance_is_needed_where_the_class_takes_arguments(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        class Block:
            def __init__(self, size): self.size = size
            @profile_neuron
            def forward(self): return torch.ones(self.size)
        """
    )
    run = profiler.run(path)
    assert run.state == "noInputs"
    assert "Block takes the argument size; add a function Block_instance()" in (run.reason or "")
    path.write_text(path.read_text() + "def Block_instance(): return Block(2)\n")
    assert profiler.run(path).operators() == {6: {"aten::ones": 1.0}}


def test_every_kind_of_member_is_called_as_its_class_has_it(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        import functools
        class A:
            @profile_neuron
            @classmethod
            def outer_class(cls): return torch.ones(2).neg()
            @classmethod
            @profile_neuron
            def inner_class(cls): return torch.ones(2).neg()
            @profile_neuron
            @staticmethod
            def outer_static(): return torch.ones(2).neg()
            @staticmethod
            @profile_neuron
            def inner_static(): return torch.ones(2).neg()
            @profile_neuron
            @property
            def outer_property(self): return torch.ones(2).neg()
            @property
            @profile_neuron
            def inner_property(self): return torch.ones(2).neg()
            @inner_property.setter
            @profile_neuron(inputs=lambda: 3)
            def inner_property(self, value): self.value = torch.ones(value).exp()
            @profile_neuron
            @functools.cached_property
            def cached(self): return torch.ones(2).neg()
            @profile_neuron(instance=lambda: A())
            def __private(self): return torch.ones(2).neg()
        """
    )
    for qualname, line in [
        ("A.outer_class", 7),
        ("A.inner_class", 10),
        ("A.outer_static", 13),
        ("A.inner_static", 16),
        ("A.outer_property", 19),
        ("A.inner_property", 22),
        ("A.cached", 28),
        ("A.__private", 30),
    ]:
        run = profiler.run(path, qualname)
        assert run.operators() == {line: {"aten::ones": 1.0, "aten::neg": 1.0}}, qualname
        assert run.costs.calls == 5, qualname
    setter = profiler.run(path, "A.inner_property", def_line=25)
    assert setter.operators() == {25: {"aten::ones": 1.0, "aten::exp": 1.0}}


def test_coroutines_are_awaited_and_generators_exhausted(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        import asyncio
        @profile_neuron
        async def step():
            x = torch.ones(2)
            await asyncio.sleep(0)
            return x * 2
        @profile_neuron
        def chunks():
            for i in range(3):
                yield torch.ones(2) + i
        @profile_neuron
        async def stream():
            for i in range(2):
                await asyncio.sleep(0)
                yield torch.ones(2) - i
        """
    )
    assert profiler.run(path, "step").operators() == {6: {"aten::ones": 1.0}, 8: {"aten::mul": 1.0}}
    assert profiler.run(path, "chunks").operators() == {12: {"aten::ones": 3.0, "aten::add": 3.0}}
    assert profiler.run(path, "stream").operators() == {17: {"aten::ones": 2.0, "aten::sub": 2.0}}
    assert profiler.run(path, "chunks").costs.calls == 5


def test_work_of_gathered_tasks_is_not_lost(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        import asyncio
        async def part(n):
            x = torch.ones(2)
            await asyncio.sleep(0)
            return x * n
        @profile_neuron
        async def whole():
            a, b = await asyncio.gather(part(2), part(3))
            return a + b
        """
    )
    run = profiler.run(path)
    assert run.operators() == {11: {"aten::add": 1.0}}
    assert any("work in tasks" in warning for warning in run.costs.warnings)
    part = run.function("part")
    assert operators(part) == {5: {"aten::ones": 2.0}, 7: {"aten::mul": 2.0}}
    assert abs((run.costs.unattributed_ns or 0) - (part.host_ns or 0)) <= 2


def test_suspended_time_is_not_counted_as_own_time(profiler: Profiler, write: Callable[..., Path]) -> None:
    source = (case("S04") / "input.py").read_text() + "\ndef step_inputs(): return 1\n"
    run = profiler.run(write("input.py", source), "step")
    assert run.state == "fresh"
    assert (run.costs.host_ns or 0) < 20_000_000
    assert run.costs.warnings == ("no operators ran",)


def test_inputs_are_built_once_per_run_or_fresh_for_every_call(model: Callable[..., Path], profiler: Profiler) -> None:
    text = """
        @profile_neuron({option}warmup=2, repeats=3, inputs=lambda: [print("built"), [torch.ones(2)]][1:][0])
        def f(seen):
            seen.append(seen[-1] + 1)
            print(len(seen))
        """
    run = profiler.run(model(text.format(option="")))
    assert run.output == ("built", "2", "3", "4", "5", "6")
    run = profiler.run(model(text.format(option="fresh=True, ")))
    assert run.output == ("built", "2") * 5


def test_calls_are_counted_and_averaged_over_the_repeats(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        COUNT = []
        @profile_neuron(warmup=0, repeats=3)
        def f():
            COUNT.append(1)
            if len(COUNT) == 2:
                torch.ones(2)
            return torch.zeros(2)
        """
    )
    run = profiler.run(path)
    assert run.operators() == {8: {"aten::ones": pytest.approx(1 / 3)}, 9: {"aten::zeros": 1.0}}
    assert run.costs.calls == 3


def test_recursion_counts_each_entry_and_each_operator_once(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        @profile_neuron(inputs=lambda: 2)
        def f(n):
            x = torch.ones(2)
            return f(n - 1) if n else x
        """
    )
    run = profiler.run(path)
    assert run.operators() == {5: {"aten::ones": 3.0}}
    assert run.costs.calls == 15


def test_a_function_that_raises_shows_its_lines_up_to_there(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        def check(x):
            raise ValueError("too\\n\\nlong")
        @profile_neuron
        def f():
            x = torch.ones(2)
            check(x)
            return x + 1
        """
    )
    run = profiler.run(path)
    assert (run.state, run.reason) == ("failed", "ValueError: too")
    assert run.frames == [("f", 8), ("check", 4)]
    assert run.operators() == {7: {"aten::ones": 1.0}}


def test_gradient_mode_is_the_functions_own_unless_switched_off(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        W = torch.ones(2, requires_grad=True)
        @profile_neuron
        def train(): print((W * 2).requires_grad)
        @profile_neuron(grad=False)
        def infer(): print((W * 2).requires_grad)
        @profile_neuron
        @torch.inference_mode()
        def own(): print((W * 2).requires_grad, torch.is_inference_mode_enabled())
        """
    )
    assert set(profiler.run(path, "train").output) == {"True"}
    assert set(profiler.run(path, "infer").output) == {"False"}
    assert set(profiler.run(path, "own").output) == {"False True"}


def test_a_backward_pass_is_unattributed_and_said_so(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        from torch.utils.checkpoint import checkpoint
        def helper(x): return x.exp()
        @profile_neuron
        def f():
            w = torch.ones(2, requires_grad=True)
            y = checkpoint(helper, w, use_reentrant=False)
            y.sum().backward()
        """
    )
    run = profiler.run(path)
    listed = run.operators()
    assert listed[7] == {"aten::ones": 1.0}
    assert listed[8]["aten::exp"] == 1.0, "once in the forward pass; the recomputation is not listed"
    assert listed[9]["aten::sum"] == 1.0
    assert (run.costs.unattributed_ns or 0) > 0
    assert any("backward pass" in warning for warning in run.costs.warnings)
    assert operators(run.function("helper")) == {4: {"aten::exp": 1.0}}
    for item in run.end.costs.functions:  # type: ignore[union-attr]
        assert sum(line.total_ns for line in item.lines) + (item.unattributed_ns or 0) == item.host_ns


def test_a_compiled_call_is_one_region_on_its_calling_line(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        def helper(x): return x * 2
        @torch.compile(backend="eager")
        def fast(x):
            return helper(x + 1)
        @profile_neuron
        def f():
            x = torch.ones(2)
            y = fast(x)
            return helper(y)
        """
    )
    run = profiler.run(path)
    assert run.operators() == {9: {"aten::ones": 1.0}, 10: {"Torch-Compiled Region": 1.0}, 11: {"aten::mul": 1.0}}
    assert [item.qualname for item in run.end.costs.functions] == ["f", "helper"]  # type: ignore[union-attr]
    assert operators(run.function("helper")) == {3: {"aten::mul": 1.0}}


@pytest.mark.parametrize("order", ["above", "below"])
def test_a_function_compiled_itself_has_its_region_on_the_def_line(
    order: str, model: Callable[..., Path], profiler: Profiler
) -> None:
    marks = ["@profile_neuron", '@torch.compile(backend="eager")']
    if order == "above":
        marks.reverse()
    path = model("\n".join([*marks, "def f():", "    x = torch.ones(2)", "    print('break')", "    return x * 2"]))
    run = profiler.run(path)
    assert run.operators() == {5: {"Torch-Compiled Region": 1.0}}, "regions behind a graph break lie inside the first"
    assert [line.line for line in run.costs.lines] == [5]


def test_wrappers_above_the_decorator_run_and_their_own_operators_are_not_the_functions(
    write: Callable[..., Path], model: Callable[..., Path], profiler: Profiler
) -> None:
    write(
        "deco.py",
        """
        import torch
        def bare(fn):
            def wrapper(*a, **k):
                torch.zeros(2)
                return fn(*a, **k)
            return wrapper
        """,
    )
    path = model(
        """
        from deco import bare
        @bare
        @profile_neuron
        def below(): return torch.ones(2)
        @profile_neuron
        @bare
        def above(): return torch.ones(2)
        """
    )
    for qualname, line in (("below", 6), ("above", 9)):
        run = profiler.run(path, qualname)
        assert run.operators() == {line: {"aten::ones": 1.0}}
        assert run.costs.line == line
        assert operators(run.function("bare.<locals>.wrapper"))[4] == {"aten::zeros": 1.0}


def test_definitions_that_were_not_reached_or_replaced_do_not_run(profiler: Profiler) -> None:
    path = case("S08") / "input.py"
    bound = json.loads((case("S08") / "expected.json").read_text())["afterRun"]["bound"]
    for def_line in (9, 13, 20, 25, 30):
        run = profiler.run(path, def_line=def_line)
        reached = not (run.reason or "").startswith("not-runnable:")
        assert reached == (def_line - 1 in bound), run.reason
        assert run.state in ("failed", "noInputs")


def test_a_replaced_definition_that_something_still_holds_is_runnable(
    model: Callable[..., Path], profiler: Profiler
) -> None:
    path = model(
        """
        import functools
        @functools.singledispatch
        def show(x): ...
        @show.register
        @profile_neuron(inputs=lambda: 1)
        def _(x: int): return torch.ones(2)
        @show.register
        @profile_neuron(inputs=lambda: "a")
        def _(x: str): return torch.zeros(2)
        """
    )
    assert profiler.run(path, def_line=8).operators() == {8: {"aten::ones": 1.0}}
    assert profiler.run(path, def_line=11).operators() == {11: {"aten::zeros": 1.0}}


def test_of_several_closures_of_one_definition_the_last_is_run(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        def make(scale):
            @profile_neuron
            def inner():
                print(scale)
                return torch.ones(scale)
            return inner
        two, three = make(2), make(3)
        def later():
            @profile_neuron
            def unreached(): ...
        def local():
            class A:
                @profile_neuron
                def method(self): return torch.ones(2)
            return A
        KEPT = local()
        """
    )
    run = profiler.run(path, "make.<locals>.inner")
    assert set(run.output) == {"3"}
    assert run.operators() == {7: {"aten::ones": 1.0}}
    unreached = profiler.run(path, "later.<locals>.unreached")
    assert unreached.state == "failed"
    assert (unreached.reason or "").startswith("not-runnable: importing the file did not execute this definition")
    assert profiler.run(path, "local.<locals>.A.method").operators() == {16: {"aten::ones": 1.0}}


def test_each_run_executes_the_saved_bytes_afresh(model: Callable[..., Path], profiler: Profiler) -> None:
    """Same size, same second: a stale bytecode file would not notice, neither for the file nor for a helper."""
    path = model(
        "import helper\nSTATE = []\n@profile_neuron\ndef f():\n    STATE.append(1)\n    print(len(STATE), helper.X, 1)\n"
    )
    helper = path.with_name("helper.py")
    helper.write_text("X = 1\n")
    first = profiler.run(path)
    stamp = (helper.stat().st_atime, helper.stat().st_mtime)
    helper.write_text("X = 2\n")
    os.utime(helper, stamp)
    path.write_text(path.read_text().replace("helper.X, 1)", "helper.X, 2)"))
    second = profiler.run(path)
    assert first.output == tuple(f"{n} 1 1" for n in range(1, 9))
    assert second.output == tuple(f"{n} 2 2" for n in range(1, 9))
    assert not list(path.parent.rglob("*.pyc")), "nothing of ours in the user's tree"


def test_a_result_names_the_project_modules_by_the_bytes_that_were_executed(
    write: Callable[..., Path], model: Callable[..., Path], profiler: Profiler
) -> None:
    early = write("early.py", "from pathlib import Path\nX = 1\nPath(__file__).write_text('X = 2\\n')\n")
    late = write("late.py", "Y = 1\n")
    write("unused.py", "Z = 1\n")
    hashes = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in (early, late)}
    path = model(
        """
        import colorsys
        import early
        @profile_neuron
        def f():
            import late
            return torch.ones(late.Y)
        """
    )
    costs = profiler.run(path).end.costs  # type: ignore[union-attr]
    assert early.read_text() == "X = 2\n", "the file on disk is another one by now"
    assert [(item.path, item.sha256) for item in costs.modules] == sorted(hashes.items())
    late.write_text("Y = 2\n")
    path.write_text(path.read_text().replace("import early\n", ""))
    (module,) = profiler.run(path).end.costs.modules  # type: ignore[union-attr]
    assert (module.path, module.sha256) == (str(late), hashlib.sha256(b"Y = 2\n").hexdigest()), "of this run alone"


REACHES = {"the same path": "b", "another spelling": "c/../b", "a link": "link", "other files of these names": "other"}


@pytest.mark.parametrize("reach", REACHES)
def test_what_another_projects_run_imported_is_not_found_by_this_ones(
    reach: str, write: Callable[..., Path], profiler: Profiler
) -> None:
    """The first folder reaches into the second: a module, a package, and a package that both have a part of."""
    names = ("helper.py", "kit/__init__.py", "kit/tool.py", "shared/there.py")
    helpers = [write(f"b/{name}", "X = 1\n") for name in names]
    for name in ("a/shared/here.py", "c/unused.py", *(f"other/{name}" for name in names)):
        write(name, "X = 1\n")
    top = helpers[0].parents[1]
    (top / "link").symlink_to(top / "b")
    text = f"""
        import sys
        sys.path.append("{top / REACHES[reach]}")
        import helper, kit.tool
        from shared import there
        @profile_neuron(warmup=0, repeats=1)
        def f(): print(helper.X, kit.tool.X, there.X)
        """
    a, b = (write(f"{name}/model.py", HEAD + textwrap.dedent(text)) for name in ("a", "b"))
    b.write_text(b.read_text().replace("sys.path.append", "str"))
    assert profiler.run(a, project_roots=(str(top / "a"),)).output == ("1 1 1",)
    for helper in helpers:
        helper.write_text("X = 2\n")
    run = profiler.run(b, project_roots=(str(top / "b"),))
    assert run.output == ("2 2 2",)
    modules = {item.path: item.sha256 for item in run.end.costs.modules}  # type: ignore[union-attr]
    assert modules == {str(path): hashlib.sha256(b"X = 2\n").hexdigest() for path in helpers}


def test_what_was_loaded_before_the_first_run_is_not_executed_again_for_another_project(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torch loads an extension that is being developed, whose registrations work once."""
    write("b/sitecustomize.py", "import extension\n")
    write("b/extension.py", "import sys\nassert not hasattr(sys, 'registered')\nsys.registered = 1\n")
    text = HEAD + "import extension\n@profile_neuron\ndef f(): return torch.ones(2)\n"
    a, b = write("a/model.py", text.replace("import extension\n", "")), write("b/model.py", text)
    monkeypatch.setenv("PYTHONPATH", str(b.parent))
    session = Profiler()
    try:
        assert [session.run(path).state for path in (a, b)] == ["fresh", "fresh"]
    finally:
        session.close()


def test_a_result_says_with_what_it_was_made(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model("@profile_neuron(inputs=lambda: 2, warmup=1, repeats=2)\ndef f(n):\n    return torch.ones(n)\n")
    costs = profiler.run(path).end.costs  # type: ignore[union-attr]
    assert (costs.inputs, costs.warmup, costs.repeats) == ("inputs= of the decorator", 1, 2)
    assert costs.toolchain.executable == sys.executable
    assert costs.toolchain.python == platform.python_version()
    assert costs.toolchain.site_packages == sysconfig.get_path("purelib")
    assert costs.toolchain.torch == importlib.metadata.version("torch")
    assert costs.toolchain.has_decorator is True
    assert (costs.toolchain.device_kind, costs.toolchain.device_name) == (costs.device_kind, costs.device_name)
    assert costs.modules == ()


def test_the_last_runs_module_is_released_before_the_next_one_loads(
    model: Callable[..., Path], profiler: Profiler
) -> None:
    path = model(
        """
        import gc
        class Big: pass
        WEIGHT = Big()
        print(sum(type(item).__name__ == "Big" for item in gc.get_objects()))
        @profile_neuron
        def f(): return torch.ones(2)
        """
    )
    profiler.run(path)
    path.write_text(path.read_text().replace("class Big: pass", "class Big: ..."))
    assert profiler.run(path).output == ("1",)


def test_a_file_in_a_package_gets_its_right_name(profiler: Profiler, write: Callable[..., Path]) -> None:
    block = case("R06") / "src" / "acme" / "nn" / "block.py"
    write("pyproject.toml", "[project]\nname = 'acme'\n")
    for name in ("acme/__init__.py", "acme/nn/__init__.py", "acme/nn/ops.py"):
        write(f"src/{name}", (case("R06") / "src" / name).read_text())
    path = write("src/acme/nn/block.py", block.read_text().replace("    return", "    print(") + ")")
    run = profiler.run(path, project_roots=(str(path.parents[3]),))
    assert set(run.output) == {"20 acme acme.nn.block acme.nn"}


def test_a_file_named_like_a_standard_module_does_not_take_its_place(profiler: Profiler) -> None:
    run = profiler.run(case("R06") / "flat" / "random.py")
    assert run.state == "fresh"
    assert profiler.run(case("R06") / "flat" / "random.py").state == "fresh", "the worker still works"


def test_a_missing_import_root_is_named(profiler: Profiler) -> None:
    path = case("R06") / "tools" / "bench" / "run.py"
    run = profiler.run(path, project_roots=(str(case("R06")),))
    assert run.state == "failed"
    assert (run.reason or "").endswith(f"--root {case('R06') / 'tools'}, in an editor projectRoots")
    assert profiler.run(path, project_roots=(str(case("R06")), str(case("R06") / "tools"))).state == "fresh"


def test_the_working_directory_is_the_one_asked_for_and_changing_it_does_no_harm(profiler: Profiler) -> None:
    project = case("R07") / "proj"
    before = sorted(project.rglob("*"))
    assert profiler.run(project / "sub" / "load.py", cwd=str(project)).state == "fresh"
    assert profiler.run(project / "sub" / "chdir.py", cwd=str(project)).state == "fresh"
    assert profiler.run(project / "sub" / "load.py", cwd=str(project)).state == "fresh"
    assert sorted(project.rglob("*")) == before


def test_the_modules_arguments_are_just_the_file(profiler: Profiler) -> None:
    assert profiler.run(case("R12") / "argv.py").state == "fresh"
    assert profiler.run(case("R12") / "train.py").state == "fresh"
    run = profiler.run(case("R12") / "needs.py")
    assert (run.state, run.reason) == ("failed", "SystemExit: 2")
    assert any("--model" in line for line in run.output)


def test_output_from_anywhere_is_passed_on_and_never_becomes_a_message(profiler: Profiler) -> None:
    run = profiler.run(case("R01") / "input.py")
    assert run.state == "fresh"
    expected = json.loads((case("R01") / "expected.json").read_text())["expect"]["outputChannelContains"]
    assert set(expected) - {"bye"} <= set(run.output), "bye is printed when the worker ends"
    assert "Content-Length: 5" in run.output


@pytest.mark.parametrize("function", ["ask", "slurp", "stop"])
def test_standard_input_is_empty(function: str, profiler: Profiler) -> None:
    run = profiler.run(case("R04") / "input.py", function)
    expected = json.loads((case("R04") / "expected.json").read_text())["expect"][function]["status"]
    wanted = {"ok": "fresh", "user-error": "failed"}
    allowed = {wanted[item] for item in ([expected] if isinstance(expected, str) else expected)}
    assert run.state in allowed
    if function == "ask":
        assert (run.reason or "").startswith("EOFError")


@pytest.mark.parametrize("file", ["os_exit.py", "sys_exit.py", "kill9.py", "segv.py", "abort.py", "recursion.py"])
def test_the_cause_is_named_however_user_code_ends_the_process(file: str, profiler: Profiler) -> None:
    run = profiler.run(case("R02") / file)
    expected: dict[str, Any] = json.loads((case("R02") / "expected.json").read_text())["expect"][file]
    assert run.state == "failed"
    assert expected["detail"] in (run.reason or "")
    assert (run.reason or "").startswith("crashed:") == (expected["status"] == "crashed")
    assert profiler.run(case("R12") / "argv.py").state == "fresh", "the next run of a good file works"


def test_import_and_run_have_limits_of_their_own(profiler: Profiler, model: Callable[..., Path]) -> None:
    run = profiler.run(case("R12") / "slow_import.py", limits=Limits(5.0, 60.0))
    assert run.state == "failed"
    assert (run.reason or "").startswith("timeout: importing the file took longer than 5 s")
    path = model("import time\n@profile_neuron\ndef f():\n    time.sleep(600)\n")
    run = profiler.run(path, limits=Limits(60.0, 3.0))
    assert (run.reason or "").startswith("timeout: the warm-up calls took longer than 3 s")
    assert "warm-up" in run.phases


# What user code may be in when its time is over, from line 4 on; the line that is to be named.
STUCK = {
    "a sleep": ("import time\n@profile_neuron\ndef f():\n    time.sleep(600)\n", 6),
    "C code that holds the lock": ("import re\n@profile_neuron\ndef f():\n    re.match('(a+)+$', 'a' * 40 + 'b')\n", 6),
    "every signal ignored": (
        "import signal\n@profile_neuron\ndef f():\n    for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n    while True: pass\n",
        7,
    ),
    "a name that is not ASCII": (
        "@profile_neuron\ndef f():\n    größe_日本()\ndef größe_日本():\n    while True: pass\n",
        7,
    ),
}


@pytest.mark.parametrize("kind", STUCK)
def test_a_limit_names_the_line_that_was_running(kind: str, profiler: Profiler, model: Callable[..., Path]) -> None:
    text, line = STUCK[kind]
    path = model(text, "größe_日本.py")
    run = profiler.run(path, "f", limits=Limits(60.0, 2.0))
    function = "größe_日本" if "ASCII" in kind else "f"
    assert (run.reason or "").startswith(
        f"timeout: the warm-up calls took longer than 2 s, at größe_日本.py:{line} ({function}); raise the limit"
    )
    assert run.frames[-1] == (function, line)
    assert isinstance(run.end, RunFailed)
    frame = run.end.failure.frames[-1]
    assert (frame.path, frame.text) == (str(path), path.read_text().split("\n")[line - 1].strip())


def test_the_limit_of_an_import_names_the_line_of_the_module(profiler: Profiler, write: Callable[..., Path]) -> None:
    write("slow_part.py", "import time\n\n\ntime.sleep(600)\n")
    path = write(
        "model.py", "import slow_part\nfrom profile_neuron import profile_neuron\n@profile_neuron\ndef f(): ...\n"
    )
    run = profiler.run(path, limits=Limits(2.0, 60.0))
    assert (run.reason or "").startswith(
        "timeout: importing the file took longer than 2 s, at slow_part.py:4 (<module>)"
    )
    assert run.frames == [("<module>", 1), ("<module>", 4)]


def test_a_path_too_long_for_a_stack_is_known_again(profiler: Profiler, write: Callable[..., Path]) -> None:
    name = "/".join(["d" * 200] * 3) + "/model.py"
    path = write(name, f"{HEAD}import ctypes\n@profile_neuron\ndef f():\n    ctypes.string_at(0)\n")
    assert profiler.run(path).frames == [("f", 6)]


CRASHES = {
    "SIGSEGV": "ctypes.string_at(0)",
    "SIGABRT": "os.abort()",
    "SIGBUS": "os.kill(os.getpid(), signal.SIGBUS)",
    "SIGFPE": "os.kill(os.getpid(), signal.SIGFPE)",
}


@pytest.mark.parametrize("name", CRASHES)
def test_a_crash_names_the_line_that_was_running(name: str, profiler: Profiler, model: Callable[..., Path]) -> None:
    path = model(
        f"import ctypes, os, signal\n@profile_neuron\ndef f():\n    g()\ndef g():\n    {CRASHES[name]}\n",
    )
    run = profiler.run(path)
    number = int(getattr(signal, name))
    assert run.reason == (
        f"crashed: the worker ended with signal {number} ({name}) during the warm-up calls, at model.py:8 (g)"
    )
    assert run.frames == [("f", 6), ("g", 8)]
    assert run.output == (), "the stack is not the user's output"


# Each takes away what the line is found with; the run still ends for its own reason.
HIDING = {
    "faulthandler is the user's": "faulthandler.enable(); ctypes.string_at(0)",
    "faulthandler is off": "faulthandler.disable(); ctypes.string_at(0)",
    "all descriptors closed": "os.closerange(3, 100_000); ctypes.string_at(0)",
}


@pytest.mark.parametrize("kind", HIDING)
def test_user_code_that_takes_the_stack_file_away_loses_the_line_and_nothing_else(
    kind: str, profiler: Profiler, model: Callable[..., Path]
) -> None:
    path = model(f"import ctypes, faulthandler, os\n@profile_neuron\ndef f():\n    {HIDING[kind]}\n")
    run = profiler.run(path)
    assert (run.reason or "").startswith("crashed: the worker ended with signal 11 (SIGSEGV) during the warm-up calls")
    assert profiler.run(model("@profile_neuron\ndef f(): ...\n")).state == "fresh"


def test_a_forked_child_that_crashes_is_not_taken_for_the_worker(
    profiler: Profiler, model: Callable[..., Path]
) -> None:
    path = model(
        """
        import ctypes, os, time
        @profile_neuron
        def f():
            child = os.fork()
            if not child: ctypes.string_at(0)
            os.waitpid(child, 0)
            time.sleep(600)
        """
    )
    run = profiler.run(path, limits=Limits(60.0, 2.0))
    assert run.frames == [("f", 9)]


def test_a_wire_that_user_code_closed_is_named_with_the_line(profiler: Profiler, model: Callable[..., Path]) -> None:
    path = model(
        """
        import os, stat, time
        def is_pipe(number): return os.path.exists(f"/proc/self/fd/{number}") and stat.S_ISFIFO(os.fstat(number).st_mode)
        @profile_neuron
        def f():
            [os.close(number) for number in range(3, 4096) if is_pipe(number)]
            time.sleep(600)
        """
    )
    run = profiler.run(path)
    assert (run.reason or "").startswith(
        "crashed: the wire to the worker was closed during the warm-up calls, at model.py:8 (f); close only"
    )


def test_a_killed_worker_is_not_said_to_have_used_too_much_memory(profiler: Profiler) -> None:
    reason = profiler.run(case("R02") / "kill9.py").reason or ""
    assert reason.startswith("crashed: the worker ended with signal 9 (SIGKILL) during the warm-up calls")


MEMORY = {
    "the worker": "x = bytearray(1) * 700_000_000",
    "a child in another session": (
        "subprocess.Popen([sys.executable, '-c', 'import time; x = bytearray(1) * 700_000_000; time.sleep(600)'], "
        "start_new_session=True)"
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="memory is found in /proc")
@pytest.mark.parametrize("kind", MEMORY)
def test_a_run_that_uses_more_memory_than_it_may_is_ended_at_its_line(
    kind: str, profiler: Profiler, model: Callable[..., Path]
) -> None:
    body = f"import subprocess, sys, time\n@profile_neuron\ndef f():\n    {MEMORY[kind]}\n    time.sleep(600)\n"
    run = profiler.run(model(body), limits=Limits(60.0, 60.0, memory_bytes=700_000_000))
    # The worker may be found to be too large while it still allocates.
    line = run.frames[-1][1]
    assert line in (6, 7)
    assert run.reason == (
        f"out of memory: the run used more than 700.0 MB (run.memoryLimit), at model.py:{line} (f); use smaller inputs, "
        "or raise the limit with --memory-limit"
    )
    assert profiler.run(model("@profile_neuron\ndef f(): ...\n")).state == "fresh"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is found in /proc")
def test_pages_that_forked_children_share_count_once(profiler: Profiler, model: Callable[..., Path]) -> None:
    path = model(
        """
        import os, time
        @profile_neuron(warmup=0, repeats=1)
        def f():
            x = bytearray(1) * 200_000_000
            for _ in range(4):
                if os.fork() == 0:
                    time.sleep(1.5)
                    os._exit(0)
            time.sleep(1.5)
        """
    )
    run = profiler.run(path, limits=Limits(60.0, 60.0, memory_bytes=1_000_000_000))
    assert run.state == "fresh", run.reason


# Calls the compiler as torch_neuronx does: by its name, with its output captured or not.
COMPILES = """
import subprocess
@profile_neuron(warmup=0, repeats=1)
def f():
    x = torch.ones(2)
    subprocess.run(["neuronx-cc", "compile", "x.hlo"], check=True{options})
    return x * 2
"""


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Profiler]]:
    """An agent that finds a stand-in for the compiler on its PATH; what the stand-in does is a script of the shell."""
    program = tmp_path / "bin" / "neuronx-cc"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    sessions = []

    def start(script: str) -> Profiler:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        sessions.append(Profiler())
        return sessions[-1]

    yield start
    for session in sessions:
        session.close()


@pytest.mark.skipif(sys.platform != "linux", reason="compilers are found in /proc")
def test_the_time_of_a_compiler_counts_for_no_other_limit(
    compiler: Callable[[str], Profiler], model: Callable[..., Path]
) -> None:
    session = compiler("sleep 8")
    path = model(COMPILES.format(options="").replace("    return", "    __import__('time').sleep(1.0)\n    return"))
    run = session.run(path, limits=Limits(60.0, 6.0, compile_s=60.0))
    assert run.state == "fresh", run.reason
    assert run.operators() == {6: {"aten::ones": 1.0}, 9: {"aten::mul": 1.0}}
    phases = [phase for phase, _ in itertools.groupby(run.phases)]
    assert phases[phases.index("capture") :] == ["capture", "compile", "capture", "read", "attribute"]


@pytest.mark.skipif(sys.platform != "linux", reason="compilers are found in /proc")
def test_a_compiler_has_a_limit_of_its_own(compiler: Callable[[str], Profiler], model: Callable[..., Path]) -> None:
    session = compiler("sleep 600")
    run = session.run(model(COMPILES.format(options="")), limits=Limits(60.0, 60.0, compile_s=2.0))
    assert run.reason == (
        "compile-failed: timeout: neuronx-cc ran longer than 2 s, at model.py:7 (f); raise the limit with "
        "--compile-timeout, in an editor run.compileTimeout"
    )
    assert run.frames == [("f", 7)]


COMPILER_ENDS = {
    "exit status": (
        "echo starting >&2; echo 'Diagnostic logs stored in /tmp/w/log-neuron-cc.txt' >&2; echo 'ERROR: [NCC_X1] no' >&2; exit 70",
        "compile-failed: neuronx-cc ended with exit status 70: ERROR: [NCC_X1] no; its log is /tmp/w/log-neuron-cc.txt",
    ),
    "killed": (
        "kill -9 $$",
        "compile-failed: neuronx-cc was killed by signal 9, as the system does when memory runs out",
    ),
}


@pytest.mark.parametrize("end", COMPILER_ENDS)
def test_a_compiler_that_fails_is_named_with_its_end(
    end: str, compiler: Callable[[str], Profiler], model: Callable[..., Path]
) -> None:
    script, reason = COMPILER_ENDS[end]
    run = compiler(script).run(model(COMPILES.format(options=", capture_output=True")))
    assert (run.state, run.reason, run.frames) == ("failed", reason, [("f", 7)])


def test_much_output_of_a_compiler_goes_to_a_file(
    compiler: Callable[[str], Profiler], model: Callable[..., Path]
) -> None:
    session = compiler("yes 'a warning of the compiler' | head -c 200000000 >&2; exit 70")
    run = session.run(model(COMPILES.format(options="")))
    assert (run.reason or "").startswith("compile-failed: neuronx-cc ended with exit status 70")
    assert len(run.output) == 2_001
    found = re.fullmatch(r"… and (\d+) more lines, of which the first 64.0 MB are in (/.*\.log)", run.output[-1])
    assert found is not None, run.output[-1]
    assert Path(found[2]).stat().st_size == 64_000_000


@pytest.mark.parametrize("end", json.loads((case("N01") / "expected.json").read_text())["exit"], ids=str)
def test_a_runtime_that_has_no_core_is_tried_again_and_not_blamed_on_user_code(
    end: dict[str, Any], compiler: Callable[[str], Profiler], model: Callable[..., Path], tmp_path: Path
) -> None:
    expected = json.loads((case("N01") / "expected.json").read_text())["expect"]
    foreign = subprocess.Popen(["sleep", "600"])
    try:
        told = [{"nc_count": 1, "neuroncore_ids": [0], "neuron_processes": []}]
        program = tmp_path / "bin" / "neuron-ls"
        program.write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
        program.chmod(0o755)
        leave = f"os._exit({end['code']})" if "code" in end else "os.abort()"
        path = model(
            f"""
            import os
            from pathlib import Path
            @profile_neuron
            def f():
                with open({str(tmp_path / "tries")!r}, "a") as file: file.write("x")
                os.write(2, Path({str(case("N01") / "stderr.txt")!r}).read_bytes())
                {leave}
            """
        )
        run = compiler("").run(path)
        assert run.state == "busy"
        assert run.reason == (
            "device-busy: the Neuron runtime found no free NeuronCore in 3 attempts; end what holds them, which neuron-ls "
            "names, or wait"
        )
        assert run.frames == []
        assert (tmp_path / "tries").read_text() == "x" * (1 + expected["maxRetries"])
        assert foreign.poll() is None, "nobody else was ended"
    finally:
        foreign.kill()
        foreign.wait()


def test_code_that_does_without_the_runtime_is_not_busy(profiler: Profiler, model: Callable[..., Path]) -> None:
    path = model(
        """
        import os
        @profile_neuron(warmup=0, repeats=1)
        def f():
            os.write(2, b"ERROR NRT:nrt_allocate_neuron_cores NeuronCore(s) not available\\n")
            return torch.ones(2)
        """
    )
    assert profiler.run(path).state == "fresh"
    path.write_text(path.read_text().replace("return torch.ones(2)", "raise ValueError('mine')"))
    assert profiler.run(path).reason == "ValueError: mine"


def processes_with(marker: str) -> list[int]:
    """Processes that were started with a variable in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if marker.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_an_endless_loop_with_grandchildren_is_ended_with_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = json.loads((case("R03") / "expected.json").read_text())
    monkeypatch.setenv("PN_TEST_MARKER", "R03-1234")
    monkeypatch.setenv("PYTHONPATH", str(case("R03").parent.parent / "support"))
    session = Profiler()
    try:
        run = session.run(case("R03") / "input.py", limits=Limits(60.0, expected["limitSeconds"]))
        assert (run.reason or "").startswith(
            (
                "timeout: the warm-up calls took longer than 5 s, at input.py:14 (f); raise",
                "timeout: the warm-up calls took longer than 5 s, at input.py:15 (f); raise",
            )
        )
        assert run.frames in ([("f", 14)], [("f", 15)])
        assert session.run(case("R12") / "argv.py").state == "fresh", "the agent is alive"
    finally:
        session.close()
    own = os.getpid()
    assert [pid for pid in processes_with("PN_TEST_MARKER=R03-1234") if pid != own] == []


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_a_pool_without_the_main_guard_ends_and_leaves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = json.loads((case("R05") / "expected.json").read_text())["expect"]
    monkeypatch.setenv("PN_TEST_MARKER", "R05-1234")
    monkeypatch.setenv("PYTHONPATH", str(case("R05").parent.parent / "support"))
    session = Profiler()
    try:
        run = session.run(case("R05") / "noguard.py", limits=Limits(20.0, 5.0))
        assert run.state in ("failed", "fresh"), expected["noguard.py"]["status"]
        run = session.run(case("R05") / "guarded.py")
        assert run.state == "fresh"
        assert not (case("R05") / expected["guarded.py"]["fileMustNotExist"]).exists()
    finally:
        session.close()
    own = os.getpid()
    assert [pid for pid in processes_with("PN_TEST_MARKER=R05-1234") if pid != own] == []


def test_a_file_that_changed_since_the_request_is_not_run(profiler: Profiler, model: Callable[..., Path]) -> None:
    path = model("print('ran')\n@profile_neuron\ndef f(): ...\n")
    run = profiler.run(path, sha256="0" * 64)
    assert (run.state, run.output) == ("failed", ())
    assert "changed since the run was asked for" in (run.reason or "")


CONFLICTS = {
    "torch.profiler": ("with torch.profiler.profile():\n        torch.ones(2)", "conflict: torch.profiler was started"),
    "sys.settrace": ("__import__('sys').settrace(print)", "conflict: sys.settrace was called"),
    "a gap": ("sys = __import__('sys'); sys.settrace(None); torch.ones(2)", "conflict: sys.settrace was called"),
}


@pytest.mark.parametrize("kind", CONFLICTS)
def test_code_that_profiles_or_traces_itself_is_refused_and_the_next_run_is_clean(
    kind: str, profiler: Profiler, model: Callable[..., Path]
) -> None:
    if kind != "torch.profiler" and sys.version_info >= (3, 12):
        pytest.skip("sys.monitoring is not disturbed by sys.settrace")
    body, reason = CONFLICTS[kind]
    run = profiler.run(model(f"@profile_neuron\ndef f():\n    x = torch.ones(3)\n    {body}\n"))
    assert run.state == "failed"
    assert (run.reason or "").startswith(reason)
    assert run.frames[-1] == ("f", 6)
    assert run.operators() == {5: {"aten::ones": 1.0}}, "its lines up to there"
    run = profiler.run(model("@profile_neuron\ndef f():\n    return torch.ones(2)\n"))
    assert run.operators() == {5: {"aten::ones": 1.0}}


FAULTS = {
    "module fails on import": ("import torch\nfrom profile_neuron import profile_neuron\n\nx = 1 / 0\n", "ZeroDivisionError: division by zero", [("<module>", 4)]),
    "helper does not parse": ("import broken\nfrom profile_neuron import profile_neuron\n", "SyntaxError: expected ':'", [("<module>", 1), ("", 2)]),
    "option mistake": ("from profile_neuron import profile_neuron\n@profile_neuron(repeats=0)\ndef g(): ...\n", "ValueError: profile_neuron option repeats= must be at least 1, not 0", [("<module>", 2)]),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_import_is_shown_at_the_users_line(
    fault: str, profiler: Profiler, write: Callable[..., Path]
) -> None:
    text, reason, frames = FAULTS[fault]
    write("broken.py", "x = 1\nif x\n")
    path = write("model.py", text + "@profile_neuron\ndef f(): ...\n")
    run = profiler.run(path, "f")
    assert (run.state, run.reason, run.frames) == ("failed", reason, frames)


WRONG_INPUTS = {
    "too few": ("lambda: 1", "the inputs do not fit f(x, y): inputs= of the decorator gave 1 value: 1"),
    "unknown name": ("lambda: {'z': 1}", "the inputs do not fit f(x, y): inputs= of the decorator gave the name z"),
    "raises": ("lambda: 1 / 0", "ZeroDivisionError: division by zero"),
}


@pytest.mark.parametrize("kind", WRONG_INPUTS)
def test_inputs_that_fail_or_do_not_fit_are_one_sentence(
    kind: str, profiler: Profiler, model: Callable[..., Path]
) -> None:
    factory, reason = WRONG_INPUTS[kind]
    run = profiler.run(model(f"@profile_neuron(inputs={factory})\ndef f(x, y):\n    print('ran')\n"))
    assert (run.state, run.output) == ("failed", ())
    assert (run.reason or "").startswith(reason)


def test_phases_are_reported_in_order(profiler: Profiler, model: Callable[..., Path]) -> None:
    run = profiler.run(model("@profile_neuron\ndef f():\n    return torch.ones(2)\n"))
    assert tuple(dict.fromkeys(run.phases)) == ("import", "inputs", "warm-up", "capture", "read", "attribute")
    assert run.phases.count("warm-up") == 3
    assert run.phases.count("capture") == 5


def test_a_wrapper_that_takes_other_arguments_than_the_function_is_called_with_its_own(
    model: Callable[..., Path], profiler: Profiler
) -> None:
    path = model(
        """
        import functools
        def inject(fn):
            @functools.wraps(fn)
            def wrapper(x):
                return fn(x, torch.ones(3))
            return wrapper
        @profile_neuron(inputs=lambda: torch.ones(3))
        @inject
        def f(x, extra):
            return x + extra
        """
    )
    assert profiler.run(path).operators() == {12: {"aten::add": 1.0}}


def test_a_context_manager_is_entered_and_left(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        import contextlib
        @contextlib.contextmanager
        @profile_neuron
        def around():
            x = torch.ones(2)
            yield
            x + 1
        @profile_neuron
        @contextlib.asynccontextmanager
        async def async_around():
            yield torch.ones(2)
        """
    )
    assert profiler.run(path, "around").operators() == {7: {"aten::ones": 1.0}, 9: {"aten::add": 1.0}}
    assert profiler.run(path, "async_around").operators() == {13: {"aten::ones": 1.0}}


def test_a_compiled_module_as_instance_is_called_compiled(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        class M(torch.nn.Module):
            @profile_neuron(inputs=lambda: torch.ones(2), instance=lambda: torch.compile(M(), backend="eager"))
            def forward(self, x):
                return x * 2
        """
    )
    assert profiler.run(path).operators() == {5: {"Torch-Compiled Region": 1.0}}


def test_code_that_runs_without_python_frames_is_unattributed_and_said_so(
    model: Callable[..., Path], profiler: Profiler
) -> None:
    path = model(
        """
        def traced(x): return x @ x + 1
        @profile_neuron(inputs=lambda: torch.ones(2, 2))
        @torch.fx.symbolic_trace
        def f(x):
            return x @ x + 1
        """
    )
    run = profiler.run(path)
    assert run.costs.lines == ()
    assert run.costs.host_ns == run.costs.unattributed_ns != 0
    assert any("without Python frames" in warning for warning in run.costs.warnings)
    assert "no operators ran" not in run.costs.warnings


def test_a_cache_that_answers_for_the_function_is_said(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model("import functools\n@profile_neuron\n@functools.lru_cache\ndef f():\n    return torch.ones(2)\n")
    run = profiler.run(path)
    assert (run.costs.calls, run.costs.lines) == (0, ())
    assert any("was not entered" in warning for warning in run.costs.warnings)


def test_threads_from_before_the_function_are_left_out_and_said(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        from concurrent.futures import ThreadPoolExecutor
        EARLIER = ThreadPoolExecutor(1)
        EARLIER.submit(torch.ones, 2).result()
        OWN = []
        @profile_neuron
        def f():
            if not OWN:
                OWN.append(ThreadPoolExecutor(1))
            OWN[0].submit(torch.zeros, 2).result()
            EARLIER.submit(torch.ones, 2).result()
        """
    )
    run = profiler.run(path)
    assert run.operators() == {}
    assert any("operators of threads that ran before the function was called" in item for item in run.costs.warnings)
    assert any("work in threads" in warning for warning in run.costs.warnings), "its own pool has no line of it"


def test_an_abstract_class_is_no_instance(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        import abc
        class Base(abc.ABC):
            @abc.abstractmethod
            def g(self): ...
            @profile_neuron
            def f(self): return torch.ones(2)
        """
    )
    run = profiler.run(path)
    assert run.state == "noInputs"
    assert "Base is abstract; add a function Base_instance()" in (run.reason or "")


def test_a_relative_reexport_marks_functions_also_where_they_are_called(
    write: Callable[..., Path], profiler: Profiler
) -> None:
    write("pk/__init__.py", "")
    write("pk/marks.py", "from profile_neuron import profile_neuron\n")
    path = write(
        "pk/m.py",
        """
        import torch
        from .marks import profile_neuron
        @profile_neuron
        def a(): return b()
        @profile_neuron
        def b(): return torch.ones(2)
        """,
    )
    from profile_neuron.core.discovery import discover

    spec = discover(path.read_text(), ("pk.marks",), "pk")[0]
    run = profiler.run_spec(path, spec, decorator_modules=("pk.marks",), project_roots=(str(path.parents[1]),))
    assert [(item.qualname, item.decorated) for item in run.end.costs.functions] == [("a", True), ("b", True)]  # type: ignore[union-attr]


CLEAN = "import gc, os, signal, sys, threading, warnings, json\n@profile_neuron\ndef f():\n    x = torch.ones(2)\n"

# What a function changes, and the value that shows it.
LEAKS = {
    "default dtype": ("torch.set_default_dtype(torch.float64)", "torch.ones(1).dtype"),
    "default device": ("torch.set_default_device('meta')", "torch.ones(1).device"),
    "device mode": ("torch.set_default_device('cpu')", "torch._C._len_torch_function_stack()"),
    "gradient mode": ("torch.set_grad_enabled(False)", "torch.is_grad_enabled()"),
    "inference mode": ("torch.inference_mode().__enter__()", "torch.is_inference_mode_enabled()"),
    "autocast": ("torch.autocast('cpu').__enter__()", "torch.is_autocast_enabled('cpu')"),
    "dispatch mode": (
        "from torch._subclasses.fake_tensor import FakeTensorMode; FakeTensorMode().__enter__()",
        "type(torch.ones(1)).__name__",
    ),
    "module hooks": (
        "torch.nn.modules.module.register_module_forward_hook(print)",
        "len(torch.nn.modules.module._global_forward_hooks)",
    ),
    "threads": ("torch.set_num_threads(torch.get_num_threads() + 1)", "torch.get_num_threads()"),
    "precision": ("torch.set_float32_matmul_precision('medium')", "torch.get_float32_matmul_precision()"),
    "anomaly mode": ("torch.set_anomaly_enabled(True)", "torch.is_anomaly_enabled()"),
    "determinism": ("torch.use_deterministic_algorithms(True)", "torch.are_deterministic_algorithms_enabled()"),
    "recursion limit": ("sys.setrecursionlimit(500)", "sys.getrecursionlimit()"),
    "replaced streams": ("sys.stdout = sys.stderr = None", "sys.stdout.fileno(), sys.stderr.fileno()"),
    "closed streams": ("sys.stdout.close(); sys.stderr.close()", "sys.stdout.closed, sys.stderr.closed"),
    "detached streams": ("sys.stdout.detach(); sys.stdin.detach()", "sys.stdout.fileno(), sys.stdin.read()"),
    "closed descriptors": (
        "os.close(0); os.close(1); os.close(2)",
        "os.read(0, 1), os.fstat(1).st_ino == os.fstat(2).st_ino",
    ),
    "redirected descriptors": (
        "os.dup2(os.open(os.devnull, os.O_WRONLY), 1)",
        "os.fstat(1).st_ino == os.fstat(2).st_ino",
    ),
    "environment": ("os.environ.clear()", "'PATH' in os.environ"),
    "path": ("sys.path.insert(0, '/planted')", "'/planted' in sys.path"),
    "collector": ("gc.disable()", "gc.isenabled()"),
    "profile function": ("sys.setprofile(lambda *a: None)", "sys.getprofile()"),
    "thread hooks": ("threading.setprofile(lambda *a: None)", "threading._profile_hook"),
    "warnings": (
        "warnings.simplefilter('error', BytesWarning)",
        "[f for f in warnings.filters if f[2] is BytesWarning]",
    ),
    "signals": ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", "signal.getsignal(signal.SIGTERM)"),
    "timers": ("signal.setitimer(signal.ITIMER_REAL, 300)", "signal.getitimer(signal.ITIMER_REAL)"),
    "module of ours": ("json.dumps = None", "json.dumps is None"),
    "fork that returns": ("os.fork()", "os.getppid() != 1"),
    "fork that raises": ("1 / (os.fork() and 1)", "os.getppid() != 1"),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_what_a_function_leaves_changed_does_not_reach_the_next_run(
    leak: str, profiler: Profiler, model: Callable[..., Path]
) -> None:
    change, value = LEAKS[leak]
    clean = model(f"{CLEAN}    print({value})\n")
    before = profiler.run(clean)
    changed = CLEAN.replace("@profile_neuron", "@profile_neuron(repeats=1, warmup=0)")
    first = profiler.run(model(f"{changed}    {change}\n"))
    assert first.state in ("fresh", "failed"), first.reason
    after = profiler.run(model(f"{CLEAN}    print({value})\n"))
    assert (before.state, after.state) == ("fresh", "fresh"), after.reason
    assert after.output == before.output != ()
    assert after.operators()[6]["aten::ones"] == 1.0


def test_a_fault_of_our_own_is_an_answer_and_the_worker_is_replaced(
    profiler: Profiler, model: Callable[..., Path]
) -> None:
    run = profiler.run(model("import json\njson.dumps = None\n@profile_neuron\ndef f(): ...\n"))
    assert run.state == "failed"
    assert (run.reason or "").startswith("the worker failed (TypeError")
    assert profiler.run(model(CLEAN)).state == "fresh"


FLOODS = {
    "Python": "for i in range(300_000): print(i)",
    "a child": "subprocess.run(['sh', '-c', 'yes | head -c 50000000'])",
    "one line": "[os.write(1, b'x' * 1_000_000) for _ in range(20)]; print()",
}


@pytest.mark.parametrize("flood", FLOODS)
def test_of_a_flood_of_output_the_start_is_passed_on_and_the_rest_is_in_a_file(
    flood: str, profiler: Profiler, model: Callable[..., Path]
) -> None:
    path = model(f"import os, subprocess\n@profile_neuron(warmup=0, repeats=1)\ndef f():\n    {FLOODS[flood]}\n")
    run = profiler.run(path)
    *printed, last = run.output
    assert run.state == "fresh"
    assert len(printed) <= 2_000
    assert sum(map(len, printed)) <= 1_000_000
    found = re.fullmatch(r"… and (\d+) more lines, in (/.*\.log)", last)
    assert found is not None, last
    log = Path(found[2])
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    rest = log.read_text()
    assert rest.count("\n") == int(found[1])
    if flood == "Python":
        assert [*printed, *rest.split()] == [str(number) for number in range(300_000)]
    elif flood == "one line":
        assert "".join(printed) + rest == "x" * 20_000_000 + "\n"
    else:
        assert (len(printed), int(found[1])) == (2_000, 25_000_000 - 2_000)


def test_a_flood_that_never_ends_is_ended_by_the_limit(profiler: Profiler, model: Callable[..., Path]) -> None:
    path = model("@profile_neuron(warmup=0)\ndef f():\n    while True:\n        print('y' * 1000)\n")
    run = profiler.run(path, limits=Limits(60.0, 3.0))
    assert (run.reason or "").startswith("timeout: the profiled calls took longer than 3 s, at model.py:6 (f); ")
    assert run.frames == [("f", 6)]
    assert re.match(r"… and \d+ more lines", run.output[-1])


def test_little_output_leaves_no_file(profiler: Profiler, model: Callable[..., Path]) -> None:
    for log in cache_folder("logs").iterdir():
        log.unlink()
    run = profiler.run(model("@profile_neuron(warmup=0, repeats=1)\ndef f():\n    print('one')\n"))
    assert run.output == ("one",)
    assert list(cache_folder("logs").iterdir()) == []


def test_a_file_that_can_be_executed_only_once_per_process_is_run_in_a_new_one(
    profiler: Profiler, model: Callable[..., Path]
) -> None:
    path = model(
        """
        import os
        print(os.getpid())
        LIBRARY = torch.library.Library("profile_neuron_test", "DEF")
        LIBRARY.define("double(Tensor x) -> Tensor")
        LIBRARY.impl("double", lambda x: x * 2, "CPU")
        @profile_neuron(inputs=lambda: torch.ones(2))
        def f(x): return torch.ops.profile_neuron_test.double(x)
        """
    )
    other = model("@profile_neuron\ndef f(): ...\n", "other.py")
    runs = [profiler.run(item) for item in (path, other, path)][::2]
    assert [run.state for run in runs] == ["fresh", "fresh"], runs[1].reason
    assert runs[0].operators() == runs[1].operators() == {9: {"aten::mul": 1.0}}
    assert runs[0].output[0] not in runs[1].output[1:], "in a process of its own"
    assert runs[1].phases.count("start") == 1


def test_a_module_that_can_be_executed_only_once_per_process_serves_two_files(
    profiler: Profiler, write: Callable[..., Path]
) -> None:
    write(
        "ops.py",
        """
        import torch
        LIBRARY = torch.library.Library("profile_neuron_shared", "DEF")
        LIBRARY.define("double(Tensor x) -> Tensor")
        LIBRARY.impl("double", lambda x: x * 2, "CPU")
        """,
    )
    text = """
        import ops, torch
        from profile_neuron import profile_neuron
        @profile_neuron(inputs=lambda: torch.ones(2))
        def {name}(x): return torch.ops.profile_neuron_shared.double(x)
        """
    runs = [profiler.run(write(f"{name}.py", text.format(name=name))) for name in ("f", "g")]
    assert [run.state for run in runs] == ["fresh", "fresh"], runs[1].reason
    assert runs[1].phases.count("start") == 1, "in a process of its own"


def test_a_file_that_fails_for_its_own_reasons_is_not_tried_twice(
    profiler: Profiler, model: Callable[..., Path]
) -> None:
    assert profiler.run(model("@profile_neuron\ndef f(): ...\n")).state == "fresh"
    run = profiler.run(model("print('once')\n1 / 0\n@profile_neuron\ndef f(): ...\n"))
    assert (run.state, run.output) == ("failed", ("once",))


def test_inputs_that_fail_at_a_later_call_are_the_users_error_too(
    model: Callable[..., Path], profiler: Profiler
) -> None:
    path = model(
        """
        LEFT = [1, 2]
        def f_inputs(): return LEFT.pop()
        @profile_neuron(fresh=True)
        def f(x): ...
        """
    )
    run = profiler.run(path)
    assert (run.state, run.reason) == ("failed", "IndexError: pop from empty list")
    assert run.frames == [("f_inputs", 4)]


REACHED = {
    "all parts of a run": (
        """
        import helper
        def at_import(): return 3
        SIZE = at_import()
        def make(): return torch.ones(SIZE)
        FILLED = []
        def fill(): FILLED.append(helper.used())
        def unused(): ...
        @profile_neuron(warmup=1, inputs=make)
        def f(x):
            if not FILLED: fill()
            return g(x)
        def g(x): return x * 2
        class A:
            def unused(self): ...
        """,
        (4, 6, 8, 10, 14),
        (1,),
    ),
    "what takes our place leaves it unknown": (
        """
        import sys, helper
        sys.settrace(lambda *a: None); sys.settrace(None)
        if sys.version_info >= (3, 12): [sys.monitoring.free_tool_id(i) for i in range(6) if sys.monitoring.get_tool(i)]
        @profile_neuron
        def f(): ...
        def g(): return lambda: 1
        """,
        (4, 6, 8),
        (1, 3),
    ),
    "what is compiled counts with what it inlines": (
        """
        import helper
        def g(x): return x * 2
        @profile_neuron(inputs=lambda: torch.ones(2))
        @torch.compile(backend="eager")
        def f(x): return g(x)
        def unused(): ...
        """,
        (4, 5),
        (),
    ),
    "what is scripted is read and not entered": (
        """
        import helper
        @torch.jit.script
        def g(x): return x * 2
        @profile_neuron(inputs=lambda: torch.ones(2))
        def f(x): return g(x)
        """,
        (4, 6),
        (1, 3),
    ),
}


@pytest.mark.parametrize("kind", REACHED)
def test_a_result_names_the_functions_that_were_entered_in_any_part(
    kind: str, model: Callable[..., Path], profiler: Profiler
) -> None:
    text, own, helpers = REACHED[kind]
    path = model(text)
    path.with_name("helper.py").write_text("def used():\n    return 1\ndef unused(): ...\n")
    costs = profiler.run(path).end.costs  # type: ignore[union-attr]
    assert costs.reached == own
    assert [module.reached for module in costs.modules] == [helpers]
