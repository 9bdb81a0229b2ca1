"""The decorator in the user's process: it changes nothing, costs nothing, and refuses mistakes."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import json
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, Any

import pytest

import profile_neuron as package
from profile_neuron import decorator, profile_neuron
from tests.conftest import ROOT, case

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

SERVER = ROOT / "server"


def load_case(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    folder = case(name)
    monkeypatch.setitem(sys.modules, "pn_api", package)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "deco", raising=False)
    spec = importlib.util.spec_from_file_location("input", folder / "input.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["S01", "S02", "S03", "S04", "S08", "S09"])
def test_decorated_code_behaves_as_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load_case(name, monkeypatch)
    for expression in json.loads((case(name) / "expected.json").read_text())["runtime"]:
        assert eval(expression, vars(module)), expression


def objects() -> dict[str, object]:
    def function() -> None: ...

    async def coroutine() -> None: ...

    def generator() -> Any:
        yield

    async def async_generator() -> Any:
        yield

    return {
        "function": function,
        "coroutine": coroutine,
        "generator": generator,
        "async generator": async_generator,
        "classmethod": classmethod(function),
        "staticmethod": staticmethod(function),
        "property": property(function),
        "cached_property": functools.cached_property(function),
        "partial": functools.partial(function),
        "partialmethod": functools.partialmethod(function),
        "builtin": len,
        "None from a registering decorator": None,
    }


@pytest.mark.parametrize("kind", objects())
def test_the_very_object_comes_back(kind: str) -> None:
    decorated = objects()[kind]
    assert profile_neuron(decorated) is decorated
    assert profile_neuron()(decorated) is decorated
    assert profile_neuron(warmup=0, repeats=1, fresh=True, grad=False, name="n", inputs=len)(decorated) is decorated


def test_kinds_of_functions_stay_what_they_are() -> None:
    kept = {kind: profile_neuron(value) for kind, value in objects().items()}
    assert inspect.iscoroutinefunction(kept["coroutine"])
    assert inspect.isgeneratorfunction(kept["generator"])
    assert inspect.isasyncgenfunction(kept["async generator"])


MISTAKES = {
    "unknown": (lambda: profile_neuron(wramup=3), "no option wramup=; did you mean warmup=?"),
    "far off": (lambda: profile_neuron(xyzzy=3), "no option xyzzy=; it takes fresh, grad, inputs, instance, name"),
    "inputs value": (lambda: profile_neuron(inputs=(1, 2)), "option inputs= takes a function"),
    "inputs empty": (lambda: profile_neuron(inputs={}), "option inputs= is an empty dict"),
    "inputs entry": (lambda: profile_neuron(inputs={"a": 1}), "option inputs= has the entry 'a'"),
    "instance": (lambda: profile_neuron(instance=3), "option instance= takes a function"),
    "warmup": (lambda: profile_neuron(warmup=-1), "option warmup= must be at least 0"),
    "warmup flag": (lambda: profile_neuron(warmup=True), "option warmup= takes a whole number"),
    "repeats": (lambda: profile_neuron(repeats=0), "option repeats= must be at least 1"),
    "repeats text": (lambda: profile_neuron(repeats="5"), "option repeats= takes a whole number, not '5'"),
    "fresh": (lambda: profile_neuron(fresh=1), "option fresh= takes True or False"),
    "grad": (lambda: profile_neuron(grad=None), "option grad= takes True or False"),
    "name": (lambda: profile_neuron(name=3), "option name= takes a text"),
    "name empty": (lambda: profile_neuron(name=" "), "option name= is empty"),
    "by position": (lambda: profile_neuron(3), "give options by name"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_an_option_is_an_error_that_names_the_option(mistake: str) -> None:
    make, sentence = MISTAKES[mistake]
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert sentence in str(caught.value)


def test_a_mistake_in_an_option_is_an_error_at_the_decorator_line(write: Callable[..., Any]) -> None:
    path = write(
        "model.py",
        """
        from profile_neuron import profile_neuron

        @profile_neuron(
            repeats=0)
        def f(): pass
        """,
    )
    with pytest.raises(ValueError, match="repeats=") as caught:
        exec(compile(path.read_text(), str(path), "exec"), {})
    lines = [frame.lineno for frame in traceback.extract_tb(caught.value.__traceback__) if frame.filename == str(path)]
    assert lines == [3]


def test_importing_it_loads_nothing_but_the_standard_library() -> None:
    script = (
        "import sys; before = set(sys.modules); sys.path.append(sys.argv[1]); "
        "from profile_neuron import profile_neuron; print(*sorted(set(sys.modules) - before))"
    )
    finished = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(SERVER)], capture_output=True, text=True, check=True
    )
    loaded = finished.stdout.split()
    ours = {name for name in loaded if name.startswith("profile_neuron")}
    assert ours == {"profile_neuron", "profile_neuron.decorator"}
    others = {name.partition(".")[0] for name in loaded} - {"profile_neuron"}
    assert others <= sys.stdlib_module_names
    assert not others & {"inspect", "asyncio", "dataclasses", "json", "logging", "ast"}, "an import that costs"


def test_it_works_where_no_dependency_is_installed(write: Callable[..., Any]) -> None:
    """As after pip install --no-deps: -S leaves site-packages out."""
    path = write(
        "app.py", "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(): return 7\nprint(f())\n"
    )
    script = f"import sys; sys.path.append({str(SERVER)!r}); exec(open({str(path)!r}).read())"
    finished = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert finished.stdout == "7\n"


def test_marking_is_recorded_only_where_someone_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    marks: list[tuple[object, int | None]] = []
    monkeypatch.setattr(
        decorator, "on_mark", lambda decorated, options, frame: marks.append((decorated, options.warmup))
    )

    @profile_neuron(warmup=7)
    def f() -> None: ...

    @profile_neuron
    def g() -> None: ...

    assert marks == [(f, 7), (g, None)]
