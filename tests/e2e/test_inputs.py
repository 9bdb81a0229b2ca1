"""Inputs in real runs: which named ones are used, what is noted of them, and where a mistake in them is shown."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.wire.messages import Limits, RunDone, RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Finished, Profiler, Run

pytestmark = pytest.mark.torch

HEAD = "import torch\nfrom profile_neuron import profile_neuron\n"


@pytest.fixture
def model(write: Callable[..., Path]) -> Callable[..., Path]:
    """Write model.py with the usual imports on lines 1 and 2; the text starts on line 3."""
    return lambda text, name="model.py": write(name, HEAD + textwrap.dedent(text).lstrip("\n"))


def used(run: Run) -> tuple[str, str]:
    """Where the inputs came from, and what they were."""
    assert isinstance(run.end, RunDone), run.end
    return run.end.costs.inputs, run.end.costs.signature


NAMED = """
@profile_neuron(
    inputs={"b8": lambda: torch.ones(8, 2), "b1": lambda: torch.ones(1, 2)},
)
def f(x, eps=1e-05):
    return x + eps
"""


def test_the_first_of_the_named_inputs_is_used_unless_another_is_chosen(
    model: Callable[..., Path], profiler: Profiler
) -> None:
    path = model(NAMED)
    assert used(profiler.run(path)) == ('inputs= "b8"', "x: float32[8, 2]")
    assert used(profiler.run(path, input_set="b1")) == ('inputs= "b1"', "x: float32[1, 2]")


def test_inputs_that_nobody_named_are_an_error_at_the_decorator_with_the_known_ones(
    model: Callable[..., Path], profiler: Profiler
) -> None:
    run = profiler.run(model(NAMED), input_set="b9")
    assert (run.state, run.reason) == ("failed", 'f has no inputs "b9"; it has b8, b1')
    assert run.frames == [("", 3)]
    run = profiler.run(model("@profile_neuron\ndef f(): ...\n"), input_set="b9")
    assert run.reason == 'f has no inputs "b9", since its decorator names none; write inputs={"b9": ...}'
    assert run.frames == [("", 3)]


def test_the_command_line_chooses_and_shows_what_was_given(
    model: Callable[..., Path], command: Callable[..., Finished]
) -> None:
    finished = command("run", f"{model(NAMED)}::f", "--inputs", "b1")
    assert finished.code == 0, finished.err
    assert "5 calls · x: float32[1, 2]\n" in finished.out


def test_names_of_arguments_are_those_of_the_function_also_through_a_wrapper(
    model: Callable[..., Path], profiler: Profiler
) -> None:
    path = model(
        """
        import functools
        def wrapped(fn):
            @functools.wraps(fn)
            def inner(*args, **kwargs): return fn(*args, **kwargs)
            return inner
        class A:
            @wrapped
            @profile_neuron(inputs=lambda: (torch.ones(2), {"k": [1]}))
            def m(self, x, options): return x + 1
        """
    )
    assert used(profiler.run(path))[1] == "x: float32[2], options={'k': [1]}"


# What the factory is, the sentence, and the line that is blamed; that of the decorator is 7.
FACTORIES: dict[str, tuple[str, str, tuple[str, int]]] = {
    "nothing": ("def make():\n    torch.ones(2)", "make_inputs returned None; return the inputs of f(x, y, *, scale, z=…) as a tuple", ("make", 3)),
    "a generator": ("def make():\n    yield torch.ones(2)", "make_inputs is a generator; return the inputs", ("make", 3)),
    "a coroutine": ("async def make():\n    return 1", "make_inputs is a coroutine function, which is not awaited here; return", ("make", 3)),
    "a key that is no name": ("def make():\n    return {3: 1}", "make_inputs gave a dict with the key 3, which is no name of a parameter", ("make", 3)),
    "one tensor for two": ("def make():\n    return torch.ones(2)", "the inputs do not fit f(x, y, *, scale, z=…): make_inputs gave 1 value: float32[2] (missing a required argument: 'y'); return a tuple", ("make", 3)),
    "too many": ("def make():\n    return 1, 2, 3", "the inputs do not fit f(x, y, *, scale, z=…): make_inputs gave 3 values: 1, 2, 3 (too many positional arguments)", ("make", 3)),
    "keyword-only missing": ("def make():\n    return 1, 2", "the inputs do not fit f(x, y, *, scale, z=…): make_inputs gave 2 values: 1, 2 (missing a required", ("make", 3)),
    "unknown name": ("def make():\n    return dict(x=1, y=2, scale=3, w=4)", "the inputs do not fit f(x, y, *, scale, z=…): make_inputs gave the names x, y, scale, w (got an unexpected keyword argument 'w')", ("make", 3)),
    "decorated": ("@functools.cache\ndef make():\n    return 1, 2, 3", "the inputs do not fit", ("make", 4)),
    "lambda": ("make = lambda: (\n    1, 2, 3)", "the inputs do not fit", ("<lambda>", 3)),
    "partial": ("def other(n):\n    return n\nmake = functools.partial(other, None)", "make_inputs returned None", ("other", 3)),
    "object": ("class Make:\n    def __call__(self): return None\nmake = Make()", "make_inputs returned None", ("__call__", 4)),
    "not of the project": ("make = functools.partial(dict, k=1)", "the inputs do not fit", ("", 0)),
    "raises": ("def make():\n    return 1 / 0", "ZeroDivisionError: division by zero", ("make", 4)),
    "lambda that raises": ("make = lambda: (\n    1 / 0)", "ZeroDivisionError: division by zero", ("<lambda>", 4)),
    "leaves": ("def make():\n    raise SystemExit(3)", "SystemExit: 3", ("make", 4)),
}  # fmt: skip


@pytest.mark.parametrize("kind", FACTORIES)
@pytest.mark.parametrize("given", ["by name", "by the decorator"])
def test_inputs_that_are_wrong_are_an_error_at_the_line_of_their_factory(
    given: str, kind: str, profiler: Profiler, model: Callable[..., Path]
) -> None:
    factory, reason, (function, line) = FACTORIES[kind]
    if given == "by name":
        factory = f"{factory}\nf_inputs = make"
        reason = reason.replace("make_inputs", "f_inputs")
    else:
        reason = reason.replace("make_inputs", "inputs= of the decorator")
    mark = "@profile_neuron" if given == "by name" else "@profile_neuron(inputs=make)"
    path = model(f"{factory}\n{mark}\ndef f(x, y, *, scale, z=torch.ones(1000)):\n    print('ran')\n")
    path.write_text("import functools, torch\n" + path.read_text().split("\n", 1)[1])
    line = line or path.read_text()[: path.read_text().index(mark)].count("\n") + 1
    run = profiler.run(path)
    assert (run.state, run.output) == ("failed", ())
    assert (run.reason or "").startswith(reason), run.reason
    assert run.frames[-1] == (function, line)


def test_a_factory_of_another_project_file_is_blamed_in_its_own_file(
    model: Callable[..., Path], write: Callable[..., Path], profiler: Profiler
) -> None:
    other = write("other.py", "def make():\n    return 1, 2\ndef broken():\n    return 1 / 0\n")
    path = model("import other\n@profile_neuron(inputs={'a': other.make, 'b': other.broken})\ndef f(x): ...\n")
    run = profiler.run(path)
    failure: Any = run.end
    frame = failure.failure.frames[-1]
    assert (frame.path, frame.line, frame.text) == (str(other), 1, "def make():")
    assert profiler.run(path, input_set="b").frames == [("broken", 4)]


INSTANCES = {
    "nothing": ("def A_instance():\n    A(1)", "A_instance returned None; return an object of class A", ("A_instance", 7)),
    "a generator": ("def A_instance():\n    yield A(1)", "A_instance is a generator; return an object of class A", ("A_instance", 7)),
    "raises": ("def A_instance():\n    return A()", "TypeError: A.__init__() missing 1 required positional", ("A_instance", 8)),
}  # fmt: skip


@pytest.mark.parametrize("kind", INSTANCES)
def test_an_instance_that_cannot_be_built_is_an_error_at_the_line_of_its_factory(
    kind: str, profiler: Profiler, model: Callable[..., Path]
) -> None:
    factory, reason, frame = INSTANCES[kind]
    path = model(
        "class A:\n    def __init__(self, n): ...\n    @profile_neuron\n    def m(self): print('ran')\n"
        + factory
        + "\n"
    )
    run = profiler.run(path)
    assert (run.state, run.output) == ("failed", ())
    assert (run.reason or "").startswith(reason)
    assert run.frames[-1] == frame


def test_inputs_that_take_too_long_are_shown_at_the_line_that_they_are_in(
    model: Callable[..., Path], profiler: Profiler
) -> None:
    path = model(
        """
        import time

        def f_inputs():
            time.sleep(600)

        @profile_neuron
        def f(x):
            return x
        """
    )
    run = profiler.run(path, limits=Limits(60.0, 1.0))
    assert isinstance(run.end, RunFailed)
    assert run.end.failure.reason.startswith(
        "timeout: building the inputs took longer than 1 s, at model.py:6 (f_inputs)"
    )
    assert [(frame.path, frame.line) for frame in run.end.failure.frames] == [(str(path), 6)]
