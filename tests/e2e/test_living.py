"""What a second run in the same worker does with the module of the first one, and what it says of it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from profile_neuron.wire.messages import RunDone
from tests.conftest import Profiler, case

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Run

pytestmark = pytest.mark.torch

HEAD = "import torch\nfrom profile_neuron import profile_neuron\n"
ONCE = "@profile_neuron(warmup=0, repeats=1)"
KEPT = "nothing was executed again"


@pytest.fixture
def model(write: Callable[..., Path]) -> Callable[..., Path]:
    """Write model.py with the usual imports on lines 1 and 2; the text starts on line 3."""
    return lambda text, name="model.py": write(name, HEAD + textwrap.dedent(text).lstrip("\n"))


def loading(run: Run) -> str:
    assert run.state == "fresh", run.reason
    return run.end.costs.loading  # type: ignore[union-attr]


def edit(path: Path, *changes: tuple[str, str]) -> Path:
    text = path.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path.write_text(text)
    return path


WEIGHTS = f"""
import os
print("import", id(os))
WEIGHTS = torch.ones(3)
LIMIT = 3
def helper(x):
    return x * WEIGHTS
{ONCE}
def f():
    print(WEIGHTS.data_ptr())
    return helper(torch.ones(3))
{ONCE}
def g():
    return torch.ones(2)
"""


def test_the_functions_of_one_file_share_one_import(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(WEIGHTS)
    runs = [profiler.run(path, name) for name in ("f", "g", "f")]
    assert [len(run.output) for run in runs] == [2, 0, 1]
    assert runs[0].output[1] == runs[2].output[0], "the same weights"
    assert [loading(run) for run in runs[1:]] == [KEPT, KEPT]
    assert runs[0].operators() == runs[2].operators()


def test_another_body_is_replaced_while_the_weights_stay(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(WEIGHTS)
    first = profiler.run(path, "f")
    second = profiler.run(edit(path, ("x * WEIGHTS", "(x - WEIGHTS).exp()")), "f")
    assert loading(second) == "only helper was replaced, the module stayed"
    assert second.output == first.output[1:], "no import, and the same weights"
    assert {item.qualname: list(item.lines) for item in second.end.costs.functions}.keys() == {"f", "helper"}  # type: ignore[union-attr]
    third = profiler.run(edit(path, (".exp()", ".neg()"), ("return torch.ones(2)", "return torch.zeros(2)")), "f")
    assert loading(third) == "only helper and g were replaced, the module stayed"


def test_numbers_right_after_an_edit_above_are_on_the_new_lines(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(WEIGHTS)
    before = profiler.run(path, "f")
    after = profiler.run(edit(path, ("LIMIT = 3", "# one\n# two\nLIMIT = 3")), "f")
    assert loading(after) == KEPT
    assert {line + 2: found for line, found in before.operators().items()} == after.operators()
    assert [line + 2 for line in before.end.costs.reached] == list(after.end.costs.reached)  # type: ignore[union-attr]
    failing = profiler.run(edit(path, ("    return torch.ones(2)", "\n    1 / 0")), "g")
    assert (failing.state, failing.frames) == ("failed", [("g", 18)])
    assert failing.costs.frames[0].text == "1 / 0"
    assert "only g was replaced" in failing.end.costs.loading  # type: ignore[union-attr]


EDITS = {
    "a constant": (("LIMIT = 3", "LIMIT = 4"), "LIMIT changed"),
    "an import": (("import os", "import os, re"), "the imports changed"),
    "a default": (("def helper(x)", "def helper(x, y=1)"), "the head of helper changed"),
    "another decorator": ((f"{ONCE}\ndef g", "@profile_neuron(warmup=1)\ndef g"), "the head of g changed"),
    "a new function": (("def helper", "def more(): ...\ndef helper"), "more is new"),
    "a new class": (("def helper", "class More: ...\ndef helper"), "More is new"),
}


@pytest.mark.parametrize("kind", EDITS)
def test_any_other_edit_executes_afresh_and_says_what_decided(
    kind: str, model: Callable[..., Path], profiler: Profiler
) -> None:
    change, reason = EDITS[kind]
    path = model(WEIGHTS)
    profiler.run(path, "f")
    run = profiler.run(edit(path, change), "f")
    assert loading(run) == f"executed afresh: {reason}"
    assert len(run.output) == 2
    assert loading(profiler.run(path, "f")) == KEPT


def test_another_project_module_executes_afresh(
    model: Callable[..., Path], write: Callable[..., Path], profiler: Profiler
) -> None:
    helper = write("helper.py", "X = 1\n")
    path = model(f"import helper\n{ONCE}\ndef f():\n    print(helper.X)\n")
    profiler.run(path)
    helper.write_text("X = 2\n")
    run = profiler.run(path)
    assert (loading(run), run.output) == ("executed afresh: helper.py changed", ("2",))
    helper.with_name("other.py").write_text("")
    assert loading(profiler.run(path)) == "executed afresh: other.py came or went"
    assert loading(profiler.run(path)) == KEPT
    other = model(f"{ONCE}\ndef f(): ...\n", "b.py")
    profiler.run(other)
    assert loading(profiler.run(other, cwd="/")) == "executed afresh: the working directory changed"
    assert loading(profiler.run(path)) == "executed afresh: the last run was of b.py"


def test_a_file_that_the_import_read_executes_afresh(write: Callable[..., Path], profiler: Profiler) -> None:
    for name in ("train.py", "conf.py"):
        write(name, (case("R12") / name).read_text())
    path = write(
        "train.py", (case("R12") / "train.py").read_text().replace("return LAYERS", "print(LAYERS)\n    return LAYERS")
    )
    first = profiler.run(path)
    assert set(first.output) == {"3"}
    assert loading(profiler.run(path)) == KEPT
    path.with_name("conf.py").write_text("LAYERS = 4\n")
    second = profiler.run(path)
    assert loading(second) == "executed afresh: conf.py changed, which the import read"
    assert set(second.output) == {"4"}


# A module, and what its run changes of it.
CHANGES = {
    "a counter": ("COUNT = 0", "global COUNT; COUNT += 1", "COUNT"),
    "a cache": ("CACHE = {}", "CACHE[1] = 2", "CACHE"),
    "a list inside": ("HELD = ([1], 2)", "HELD[0].append(2)", "HELD"),
    "an object": ("class A: ...\nHELD = A()", "HELD.value = 1", "HELD"),
    "slots": ("class A: __slots__ = ('x',)\nHELD = A()", "HELD.x = 1", "HELD"),
    "a class": ("class A: ...", "A.value = 1", "A"),
    "a function's attribute": ("def g(): ...", "g.value = 1", "g"),
    "a default": ("def g(x=[]): x.append(1)", "g()", "g"),
    "a closure": ("def make():\n    n = []\n    return lambda: n.append(1)\ng = make()", "g()", "g"),
    "an lru_cache": ("import functools\n@functools.lru_cache\ndef g(): ...", "g()", "g"),
    "a generator": ("G = iter((n for n in range(9)))", "next(G)", "G holds a generator, which cannot be compared"),
    "a statistic in place": ("BN = torch.nn.BatchNorm1d(2)", "BN(torch.ones(3, 2))", "BN"),
    "a tensor behind its version": ("W = torch.ones(2)", "W.data.mul_(2)", "W"),
    "a tensor by another": ("import numpy as np\nW = torch.ones(2)", "W.numpy()[0] = 2", "W"),
    "a gradient": ("W = torch.ones(2, requires_grad=True)", "(W * 2).sum().backward()", "W"),
    "a member of an enumeration": ("import enum\nclass E(enum.Enum): A = [1]", "E.A.value.append(2)", "E"),
    "memory that was taken away": ("W = torch.ones(2)", "W.untyped_storage().resize_(0)", "W"),
    "a mode": ("M = torch.nn.Linear(2, 2)", "M.eval()", "M"),
    "an array": ("import numpy as np\nA = np.ones(2)", "A[0] = 2", "A"),
    "a generator of numbers": ("R = __import__('random').Random(1)", "R.random()", "R"),
    "one of torch": ("R = torch.Generator()", "torch.rand(1, generator=R)", "R"),
    "another name": ("", "globals()['NEW'] = 1", "NEW"),
    "a name less": ("OLD = 1", "del globals()['OLD']", "OLD"),
    "a function": ("def g(): ...\ndef h(): ...", "globals()['g'] = h", "g"),
    "its code": ("def g(): ...\ndef h(): ...", "g.__code__ = h.__code__", "g"),
    "a module that it executed again": (
        "import importlib, late",
        "importlib.reload(late)",
        "the last run imported late.py",
    ),
    "a module that it imported": ("", "import late", "the last run imported late.py"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_a_run_changed_of_the_module_executes_afresh(
    kind: str, model: Callable[..., Path], write: Callable[..., Path], profiler: Profiler
) -> None:
    setup, change, name = CHANGES[kind]
    write("late.py", "")
    path = model(f"{setup}\n{ONCE}\ndef f():\n    {change}\n{ONCE}\ndef still(): ...\n")
    profiler.run(path, "still")
    assert loading(profiler.run(path, "f")) == (
        KEPT if " " not in name or "late" in name else f"executed afresh: {name}"
    )
    reason = name if " " in name else f"the last run changed {name}"
    assert loading(profiler.run(path, "still")) == f"executed afresh: {reason}"


STAYS = {
    "a model": "M = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())",
    "a compiled function": "@torch.compile(backend='eager')\ndef g(x): return x + 1",
    "a compiled function with a break": "@torch.compile(backend='eager')\ndef g(x):\n    x = x + 1\n    print(end='')\n    return x - 1",
    "a compiled module": "g = torch.compile(torch.nn.Linear(2, 2), backend='eager')",
    "decorators of torch": "class A:\n    @torch.no_grad()\n    def g(self): ...\n    @property\n    def h(self): ...",
    "an object that answers anything": "import unittest.mock\nM = unittest.mock.Mock()",
    "a logger": "import logging\nL = logging.getLogger(__name__)",
    "a dataclass": "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass C:\n    n: int = 1\nHELD = C()",
    "paths and patterns": "import re, pathlib, enum\nP = pathlib.Path('a')\nR = re.compile('a')\nE = enum.Enum('E', 'A B')",
    "an abstract class": "import abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def g(self): ...",
    "types": "from typing import *\nT = TypeVar('T')\nclass A(Generic[T]): ...\nD = Dict[str, int]",
    "arguments": "import argparse\nP = argparse.ArgumentParser()\nARGS = P.parse_args()",
    "an operator of its own": "@torch.library.custom_op('pn_living::twice', mutates_args=())\ndef twice(x: torch.Tensor) -> torch.Tensor: return x * 2",
}


@pytest.mark.parametrize("kind", STAYS)
def test_common_modules_serve_again(kind: str, model: Callable[..., Path], profiler: Profiler) -> None:
    use = "    g(torch.ones(2))\n" if "compiled" in kind else ""
    path = model(f"{STAYS[kind]}\n{ONCE}\ndef f():\n    print(1)\n{use}")
    profiler.run(path)
    assert loading(profiler.run(path)) == KEPT
    run = profiler.run(edit(path, ("print(1)", "print(2)")))
    assert (loading(run), run.output) == ("only f was replaced, the module stayed", ("2",))


# What an import sets in the process, and what shows it.
SETTINGS = {
    "environment": ("os.environ['PN_SET'] = '1'", "os.environ.get('PN_SET')", "1"),
    "path": ("sys.path.append('/pn')", "'/pn' in sys.path", "True"),
    "arguments": ("sys.argv.append('--pn')", "sys.argv[1:]", "['--pn']"),
    "folder": ("os.chdir('/')", "os.getcwd()", "/"),
    "recursion": ("sys.setrecursionlimit(900)", "sys.getrecursionlimit()", "900"),
    "warnings": (
        "warnings.simplefilter('error', BytesWarning)",
        "[f[0] for f in warnings.filters if f[2] is BytesWarning]",
        "['error']",
    ),
    "signals": ("signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "signal.getsignal(signal.SIGUSR1).name", "SIG_IGN"),
    "dtype": ("torch.set_default_dtype(torch.float64)", "torch.ones(1).dtype", "torch.float64"),
    "device": ("torch.set_default_device('meta')", "torch.ones(1).device", "meta"),
    "gradients": ("torch.set_grad_enabled(False)", "torch.is_grad_enabled()", "False"),
    "determinism": (
        "torch.use_deterministic_algorithms(True, warn_only=True)",
        "torch.is_deterministic_algorithms_warn_only_enabled()",
        "True",
    ),
    "precision": ("torch.set_float32_matmul_precision('medium')", "torch.get_float32_matmul_precision()", "medium"),
    "threads": ("torch.set_num_threads(3)", "torch.get_num_threads()", "3"),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_what_an_import_set_is_set_again_for_its_next_run_and_no_other(
    kind: str, model: Callable[..., Path], profiler: Profiler
) -> None:
    change, shows, value = SETTINGS[kind]
    text = f"import os, signal, sys, warnings\n{{}}\n{ONCE}\ndef f(): print({shows})\n"
    clean = profiler.run(model(text.format(""), "clean.py")).output
    path = model(text.format(change))
    runs = [profiler.run(path) for _ in range(2)]
    assert loading(runs[1]) == KEPT
    assert [run.output for run in runs] == [(value,), (value,)]
    after = profiler.run(model(text.format("# again"), "clean.py"))
    assert after.output == clean != (value,)


# What an import leaves that cannot be set again.
LEFT = {
    "a stream": ("sys.stdout = open(os.devnull, 'w')", "the import replaced a standard stream"),
    "a timer": ("signal.setitimer(signal.ITIMER_REAL, 300)", "the import left a timer on"),
    "a profile function": ("threading.setprofile(lambda *a: None)", "the import left a profile function on"),
    "a frozen collector": ("import gc; gc.freeze()", "the import froze the garbage collector"),
    "a lock of C": ("import queue; Q = queue.SimpleQueue()", "Q holds a SimpleQueue, which cannot be compared"),
}


@pytest.mark.parametrize("kind", LEFT)
def test_what_cannot_be_set_again_executes_afresh(kind: str, model: Callable[..., Path], profiler: Profiler) -> None:
    setup, reason = LEFT[kind]
    path = model(f"import os, signal, sys, threading\n{setup}\n{ONCE}\ndef f(): ...\n")
    profiler.run(path)
    assert loading(profiler.run(path)) == f"executed afresh: {reason}"


def test_random_numbers_go_on_where_the_import_left_them(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        f"""
        import random
        import numpy as np
        torch.manual_seed(1); random.seed(2); np.random.seed(3)
        {ONCE}
        def f(): print(torch.rand(1).item(), random.random(), np.random.rand())
        """
    )
    first, second = (profiler.run(path) for _ in range(2))
    assert loading(second) == KEPT
    afresh = profiler.run(edit(path, ("import random", "import random, re")))
    assert loading(afresh) == "executed afresh: the imports changed"
    assert first.output == second.output == afresh.output != ()


def test_every_kind_of_function_is_replaced_in_place(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        f"""
        class A(torch.nn.Module):
            {ONCE}
            @staticmethod
            def static(): return print(1)
            @classmethod
            {ONCE}
            def of_class(cls): return print(1)
            {ONCE}
            @property
            def width(self): return print(1)
            {ONCE}
            @torch.no_grad()
            def quiet(self): return print(1)
            {ONCE}
            def forward(self): return print(1) or super().extra_repr()
        def maker():
            {ONCE}
            def inner(): return print(1)
            return inner
        made = maker()
        {ONCE}
        @torch.compile(backend="eager")
        def fast(x=torch.ones(2)): return x + 1
        """
    )
    profiler.run(path, "A.static")
    edit(path, ("print(1) or", "print(2) or"), ("return print(1)\n    @", "return print(2)\n    @"), ("x + 1", "x - 1"))
    for name in ("static", "of_class", "width", "quiet", "forward"):
        run = profiler.run(path, f"A.{name}")
        assert "executed afresh" not in loading(run)
        assert run.output == ("2",), name
    assert profiler.run(path, "fast").state == "fresh"
    run = profiler.run(path, "maker.<locals>.inner")
    assert (loading(run), run.output) == (KEPT, ("1",))
    assert loading(
        profiler.run(edit(path, ("return print(1)\n    return inner", "return print(3)\n    return inner")), "fast")
    ) == ("executed afresh: maker changed, which ran during the import")


def test_a_replaced_compiled_function_is_compiled_anew(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        @profile_neuron(warmup=1, repeats=1, inputs=lambda: torch.ones(2))
        @torch.compile(backend="eager")
        def f(x): return x + 1
        """
    )
    first = profiler.run(path)
    second = profiler.run(edit(path, ("x + 1", "(x - 1).exp()")))
    assert loading(second) == "only f was replaced, the module stayed"
    assert first.costs.operators != second.costs.operators
    names = {item.name for item in second.costs.operators}
    assert "aten::exp" in names
    assert "aten::add" not in names


def test_of_compiled_code_what_it_inlines_counts_as_reached_and_nothing_else(
    model: Callable[..., Path], write: Callable[..., Path], profiler: Profiler
) -> None:
    helper = write("helper.py", "def used(x):\n    return x * 2\n\n\ndef unused(x):\n    return x * 3\n")
    path = model(
        """
        from helper import unused, used
        def inlined(x): return used(x) + 1
        def other(x): return unused(x) + 1
        @profile_neuron(warmup=1, repeats=1, inputs=lambda: torch.ones(2))
        @torch.compile(backend="eager")
        def f(x): return inlined(x)
        """
    )
    text = path.read_text().split("\n")
    lines = {
        part: next(number for number, line in enumerate(text, 1) if part in line)
        for part in ("def inlined", "def other")
    }
    # In a module that was just executed, and in one that lives on.
    for is_kept in (False, True):
        run = profiler.run(path)
        assert (loading(run) == KEPT) == is_kept
        assert isinstance(run.end, RunDone)
        (module,) = run.end.costs.modules
        assert (module.path, module.reached) == (str(helper), (1,))
        assert lines["def inlined"] in run.end.costs.reached
        assert lines["def other"] not in run.end.costs.reached


def test_a_file_that_can_be_executed_once_is_not_tried_in_vain(model: Callable[..., Path], profiler: Profiler) -> None:
    path = model(
        """
        print("import")
        LIMIT = 1
        LIBRARY = torch.library.Library("pn_once", "DEF")
        LIBRARY.define("double(Tensor x) -> Tensor")
        LIBRARY.impl("double", lambda x: x * 2, "CPU")
        @profile_neuron(inputs=lambda: torch.ones(2), warmup=0, repeats=1)
        def f(x): return torch.ops.pn_once.double(x)
        """
    )
    profiler.run(path)
    assert loading(profiler.run(path)) == KEPT
    new = "executed afresh in a new process: model.py cannot be executed twice in one"
    first = profiler.run(edit(path, ("LIMIT = 1", "LIMIT = 2")))
    assert (loading(first), first.output, first.phases.count("start")) == (new, ("import", "import"), 1)
    for number in (3, 4):
        run = profiler.run(edit(path, (f"LIMIT = {number - 1}", f"LIMIT = {number}")))
        assert (loading(run), run.output, run.phases.count("start")) == (new, ("import",), 1)
    run = profiler.run(edit(path, ("torch.ops.pn_once.double(x)", "torch.ops.pn_once.double(x + 1)")))
    assert (loading(run), run.output) == ("only f was replaced, the module stayed", ())
    assert run.operators()[9]["aten::mul"] == 1.0
