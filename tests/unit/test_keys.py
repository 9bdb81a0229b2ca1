"""What a result depends on: what asks for a run, and what only for a remark."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

import pytest

from profile_neuron.core.keys import changes, circumstances, result_key, text_key
from profile_neuron.core.model import ExecutedFile, Result, Toolchain
from profile_neuron.core.modules import Module, dependency, module_code
from profile_neuron.core.outline import outline
from tests.unit.constructed import IMPORT, MADE_WITH, TOOLCHAIN, reformatted, result

TEXT = IMPORT + textwrap.dedent(
    """
    import torch
    from ops import scaled

    SCALE = 2
    TABLE = {}

    def helper(x):
        return deeper(x) * SCALE

    def deeper(x):
        return x + 1

    def unrelated(x):
        return x - 1

    def f_inputs():
        return (sample(),)

    def sample():
        return torch.ones(8)

    class Layer:
        factor = 3

        def __init__(self, size):
            self.size = size

        def __call__(self, x):
            return x * self.factor

        def forward(self, x):
            return x

    @profile_neuron(repeats=3)
    def f(x):
        y = helper(x)
        layer = Layer(4)
        for _ in range(3):
            y = layer(y)
        return TABLE["g"](y)

    def reached(x):
        return x / 2

    TABLE["g"] = globals()["reached"]
    """
)
OPS = """
import math

LIMIT = 3

def scaled(x, by=2):
    return x * by

def norm(x):
    def inner(y):
        return y
    return inner(x)

class Table:
    rows = 1

    def look(self):
        return 2
"""
OPS_CODE = module_code(OPS)
OPS_FILE = ExecutedFile("/p/ops.py", "00")
# Of the one module a function was reached, in its inner one; the other is known by its bytes alone.
MODULES = (dependency(OPS_FILE, [11], OPS_CODE), dependency(ExecutedFile("/p/more/ops.py", "11"), [1], None))
NOW = {"/p/ops.py": Module("00"), "/p/more/ops.py": Module("11"), "/p/other.py": Module("22")}


def made(text: str = TEXT, **changes: Any) -> Result:
    return result(text, reached=("helper", "reached"), modules=MODULES, **changes)


def remarks(
    text: str,
    before: Result | None = None,
    made_with: str = MADE_WITH,
    choice: str = "",
    modules: dict[str, Module] = NOW,
) -> tuple[str, ...]:
    """What of a result is another in a text."""
    found = outline(text)
    function = found.function("f", 0)
    assert function is not None
    return changes(before or made(), found, function, made_with, choice, modules)


def key(text: str, qualname: str = "f", occurrence: int = 0) -> str:
    found = outline(text)
    function = found.function(qualname, occurrence)
    assert function is not None
    return text_key(found, function)


def edited(before: str, after: str) -> str:
    assert TEXT.count(before) == 1, before
    return TEXT.replace(before, after)


def test_a_result_of_the_same_text_has_no_remarks() -> None:
    assert remarks(TEXT) == ()


@pytest.mark.parametrize("seed", range(5))
def test_comments_blank_lines_and_formatting_change_nothing(seed: int) -> None:
    text = reformatted(TEXT, seed)
    assert text != TEXT
    assert remarks(text) == ()
    assert key(text) == key(TEXT)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param("y = helper(x)", "y = helper(x + 1)", ("edited since",), id="statement"),
        pytest.param("def f(x):", "def f(x) -> int:", ("edited since",), id="what it returns"),
        pytest.param(
            "def f(x):", "def f(x=1):", ("edited since", "signature, decorator or inputs changed"), id="default"
        ),
        pytest.param(
            "repeats=3", "repeats=4", ("edited since", "signature, decorator or inputs changed"), id="decorator"
        ),
        pytest.param("SCALE = 2", "SCALE = 3", ("code outside of functions changed",), id="constant"),
        pytest.param("import torch", "import torch as torch_", ("code outside of functions changed",), id="import"),
        pytest.param("factor = 3", "factor = 4", ("code outside of functions changed",), id="attribute of a class"),
        pytest.param("* SCALE", "/ SCALE", ("helper changed",), id="helper"),
        pytest.param("return x + 1", "return x + 2", ("deeper changed",), id="helper of a helper"),
        pytest.param("return x / 2", "return x / 3", ("reached changed",), id="what was only reached"),
        pytest.param("return x * self.factor", "return x", ("Layer.__call__ changed",), id="special method"),
        pytest.param("self.size = size", "self.size = 1", ("Layer.__init__ changed",), id="constructor"),
        pytest.param(
            "return (sample(),)",
            "return (sample() + 1,)",
            ("signature, decorator or inputs changed", "f_inputs changed"),
            id="inputs function",
        ),
        pytest.param("torch.ones(8)", "torch.ones(9)", ("sample changed",), id="helper of an inputs function"),
        pytest.param("return x - 1", "return x - 2", (), id="unrelated function"),
        pytest.param("self, x):\n        return x\n", "self, x):\n        return x + 1\n", (), id="unrelated method"),
        pytest.param("def unrelated(x):", "def another():\n    pass\n\ndef unrelated(x):", (), id="one function more"),
        pytest.param("def unrelated(x):\n    return x - 1\n", "", (), id="unrelated function taken out"),
        pytest.param(
            "TABLE = {}", "\ndef another():\n    pass\n\nTABLE = {}", (), id="one function more between constants"
        ),
        pytest.param(
            "def unrelated(x):", "def deeper(x):", ("deeper (2) changed",), id="second definition of a helper"
        ),
        pytest.param("def deeper(x):", "def deeper_(x):", ("deeper changed",), id="a helper that is gone"),
        pytest.param(
            "def unrelated(x):", "def range(x):", ("range changed",), id="a function that takes the place of a builtin"
        ),
    ],
)
def test_each_change_that_can_matter_gets_its_remark(before: str, after: str, expected: tuple[str, ...]) -> None:
    text = edited(before, after)
    assert remarks(text) == expected
    # What only a run can tell is not in the text's own key.
    assert (key(text) != key(TEXT)) == bool(expected and expected != ("reached changed",))
    # Two results have equal keys where nothing that either depends on differs.
    assert (made(text).key != made().key) == bool(expected)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("y = helper(x)", "y = helper(x)  # why", id="comment"),
        pytest.param("y = helper(x)", "'doc'\n    y = helper(x)", id="docstring"),
        pytest.param("return x + 1", "'''doc'''\n    return x + 1", id="docstring of a helper"),
        pytest.param("import torch", "'doc'\nimport torch", id="docstring of the module"),
        pytest.param('TABLE["g"](y)', "(TABLE[\n        'g']\n    (y))", id="formatting"),
        pytest.param("factor = 3", "factor = 3\n    'what it is'", id="docstring of an attribute"),
        pytest.param(
            "import torch",
            '"""How to call:\n\n@profile_neuron\ndef f(x): ...\n"""\nimport torch',
            id="code in a docstring",
        ),
    ],
)
def test_what_changes_no_code_changes_neither_key_nor_numbers(before: str, after: str) -> None:
    text = edited(before, after)
    assert remarks(text) == ()
    assert key(text) == key(TEXT)


def test_several_changes_get_several_remarks_in_a_fixed_order() -> None:
    text = TEXT.replace("SCALE = 2", "SCALE = 3").replace("y = helper(x)", "y = 1").replace("return x + 1", "return x")
    # What the function no longer mentions is still known to have been run by it.
    assert remarks(text, made_with="other") == (
        "edited since",
        "code outside of functions changed",
        "deeper changed",
        "measured with another interpreter, torch, device or other settings",
    )


def ops(before: str, after: str) -> dict[str, Module]:
    """The modules with another text of the first one."""
    assert OPS.count(before) == 1, before
    return {**NOW, "/p/ops.py": Module("01", module_code(OPS.replace(before, after)))}


@pytest.mark.parametrize(
    ("modules", "expected"),
    [
        pytest.param(NOW, (), id="all equal"),
        pytest.param({**NOW, "/p/ops.py": Module("01")}, ("ops.py changed",), id="one that does not parse"),
        pytest.param({**NOW, "/p/more/ops.py": Module("12", OPS_CODE)}, ("ops.py changed",), id="known by its bytes"),
        pytest.param({**NOW, "/p/ops.py": Module("01", OPS_CODE)}, (), id="a comment"),
        pytest.param(ops("return y", "return y + 1"), ("norm in ops.py changed",), id="what was reached"),
        pytest.param(ops("def norm(x):", "def norm_(x):"), ("norm in ops.py changed",), id="what was reached is gone"),
        pytest.param(ops("return x * by", "return x / by"), (), id="what was not reached"),
        pytest.param(ops("return 2", "return 3"), (), id="method that was not reached"),
        pytest.param(ops("by=2", "by=3"), ("ops.py changed",), id="default"),
        pytest.param(ops("class Table:", "def more(y):\n    return y\n\nclass Table:"), (), id="one function more"),
        pytest.param(
            ops("class Table:", "def more(y=1):\n    return y\n\nclass Table:"),
            ("ops.py changed",),
            id="one with a default",
        ),
        pytest.param(ops("def scaled", "@cached\ndef scaled"), ("ops.py changed",), id="decorator"),
        pytest.param(ops("LIMIT = 3", "LIMIT = 4"), ("ops.py changed",), id="constant"),
        pytest.param(ops("rows = 1", "rows = 2"), ("ops.py changed",), id="attribute of a class"),
        pytest.param(ops("import math", "import math, os"), ("ops.py changed",), id="import"),
        pytest.param({"/p/more/ops.py": Module("11")}, ("ops.py changed",), id="gone"),
        pytest.param({}, ("ops.py changed", "ops.py changed"), id="all gone"),
        pytest.param({**NOW, "/p/other.py": Module("23")}, (), id="one that it did not import"),
    ],
)
def test_other_modules_count_by_what_the_run_executed_of_them(
    modules: dict[str, Module], expected: tuple[str, ...]
) -> None:
    assert remarks(TEXT, modules=modules) == expected


def test_other_circumstances_and_other_inputs_get_their_remark() -> None:
    other = "measured with another interpreter, torch, device or other settings"
    assert remarks(TEXT, made_with="") == (other,)
    assert remarks(TEXT, choice="b8") == ("measured with other inputs",)
    assert remarks(TEXT, made(choice="b8"), choice="b8") == ()
    keys = {item.key for item in (made(), replaced(circumstances="x"), replaced(choice="b8"), replaced(modules=()))}
    assert len(keys) == 4


def replaced(**changes: Any) -> Result:
    again = replace(made(), **changes)
    return replace(again, key=result_key(again))


def test_keys_tell_functions_of_a_text_apart() -> None:
    text = IMPORT + "@profile_neuron\ndef f(): pass\n@profile_neuron\ndef f(): pass\n@profile_neuron\ndef g(): pass\n"
    assert len({key(text, "f", 0), key(text, "f", 1), key(text, "g", 0)}) == 3


BASE = (TOOLCHAIN, ("A=1", "repeats 5"), ("/p", "/q"))


@pytest.mark.parametrize(
    ("toolchain", "settings", "folders"),
    [
        pytest.param(replace(TOOLCHAIN, executable="/other/python"), *BASE[1:], id="interpreter"),
        pytest.param(replace(TOOLCHAIN, python="3.12.1"), *BASE[1:], id="Python"),
        pytest.param(replace(TOOLCHAIN, torch="2.14.0"), *BASE[1:], id="torch"),
        pytest.param(replace(TOOLCHAIN, packages=("torch-neuronx 2.13",)), *BASE[1:], id="package of Neuron"),
        pytest.param(replace(TOOLCHAIN, device_kind="neuron"), *BASE[1:], id="kind of device"),
        pytest.param(replace(TOOLCHAIN, device_name="cpu (y)"), *BASE[1:], id="device"),
        pytest.param(TOOLCHAIN, ("A=1", "repeats 6"), BASE[2], id="setting"),
        pytest.param(TOOLCHAIN, ("A=1",), BASE[2], id="one setting fewer"),
        pytest.param(TOOLCHAIN, BASE[1], ("/q", "/p"), id="order of folders"),
        pytest.param(TOOLCHAIN, BASE[1], ("/p",), id="one folder fewer"),
    ],
)
def test_circumstances_tell_apart_what_a_run_is_made_with(
    toolchain: Toolchain, settings: tuple[str, ...], folders: tuple[str, ...]
) -> None:
    assert circumstances(toolchain, settings, folders) != circumstances(*BASE)


MOVED = IMPORT + textwrap.dedent(
    """
    class A:
        scale = 2
        def other(self): pass
        {a}

    class B:
        scale = 3
        def other(self): pass
        {b}
    """
)
METHOD = "@profile_neuron\n    def f(self): return self.scale"


def test_a_method_that_was_moved_to_another_class_is_not_shown_as_fresh() -> None:
    before, after = MOVED.format(a=METHOD, b=""), MOVED.format(a="", b=METHOD)
    found = outline(after)
    function = found.function("B.f", 0)
    assert function is not None
    assert changes(result(before, "A.f"), found, function, MADE_WITH, "", {}) != ()


def test_a_second_definition_of_the_function_itself_gets_a_remark_where_it_calls_itself() -> None:
    text = IMPORT + "@profile_neuron\ndef f(x):\n    return f(x - 1)\n"
    found = outline(text + "def f(x):\n    return x\n")
    (function,) = found.functions
    assert changes(result(text), found, function, MADE_WITH, "", {}) == ("f (2) changed",)


@pytest.mark.parametrize(
    ("text", "qualname", "occurrence"),
    [
        pytest.param("@profile_neuron\ndef f(): 1\n@profile_neuron\ndef f(): 2\n", "f", 0, id="first of two"),
        pytest.param("@profile_neuron\ndef f(): 1\n@profile_neuron\ndef f(): 2\n", "f", 1, id="second of two"),
        pytest.param("@overload\ndef f(x: int): ...\n@profile_neuron\ndef f(x): 2\n", "f", 0, id="overload"),
        pytest.param(
            "class A:\n    @property\n    @profile_neuron\n    def f(self): 1\n    @f.setter\n    def f(self, x): 2\n",
            "A.f",
            0,
            id="property with a setter",
        ),
        pytest.param("@profile_neuron\ndef f(): f()\ndef f(): 2\ndef f(): 3\n", "f", 0, id="first of three"),
    ],
)
def test_a_new_result_of_one_of_several_definitions_of_a_name_has_no_remarks(
    text: str, qualname: str, occurrence: int
) -> None:
    found = outline(IMPORT + text)
    function = found.function(qualname, occurrence)
    assert function is not None
    made = result(IMPORT + text, qualname, occurrence, ns_by_line={function.spec.def_line: 1})
    assert changes(made, found, function, MADE_WITH, "", {}) == ()
