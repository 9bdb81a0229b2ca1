"""Which edits replace functions alone, and which have the file executed afresh, with the reason that is told."""

from __future__ import annotations

import textwrap

import pytest

from profile_neuron.core.replacement import Afresh, Replacement, check_other_module, compare

BASE = """\
\"\"\"About the module.\"\"\"
from __future__ import annotations
import functools
import torch
from dataclasses import dataclass
from profile_neuron import profile_neuron

EPSILON = 1e-6

def scale(x, factor=2):
    return x * factor

@profile_neuron(inputs=lambda: make(), warmup=1)
@torch.no_grad()
def rms_norm(x):
    def inner(y):
        return y + EPSILON
    return inner(x)

def make():
    return torch.ones(2)

@dataclass
class Block:
    size: int = 2

    def forward(self, x):
        return scale(x)

    @property
    def width(self):
        return self.size

    @width.setter
    def width(self, value):
        self.size = value

if EPSILON:
    def late(x):
        return x

if __name__ == "__main__":
    late(1)
    make()
"""


def compared(old: str, new: str, entered: tuple[int, ...] = ()) -> Replacement:
    return compare(textwrap.dedent(old), textwrap.dedent(new), ("profile_neuron",), "", entered)


def edited(*changes: tuple[str, str], entered: tuple[int, ...] = ()) -> Replacement:
    new = BASE
    for before, after in changes:
        assert before in new
        new = new.replace(before, after, 1)
    return compared(BASE, new, entered)


BODIES = {
    "rms_norm": ("return inner(x)", "return inner(x) * 2"),
    "scale": ("return x * factor", "y = x * factor\n    return y"),
    "make": ("torch.ones(2)", "torch.ones(3)"),
    "Block.forward": ("return scale(x)", "return scale(x) + 1"),
    "Block.width": ("return self.size", "return self.size + 1"),
    "late": ("        return x\n\nif", "        return x + 1\n\nif"),
}


@pytest.mark.parametrize("qualname", BODIES)
def test_another_body_replaces_its_function_alone(qualname: str) -> None:
    assert [item.qualname for item in edited(BODIES[qualname]).changed] == [qualname]


def test_an_accessor_of_a_property_is_told_from_the_others_by_its_line() -> None:
    (changed,) = edited(
        ("self.size = value", "self.size = value + 1"), ("EPSILON = 1e-6\n", "EPSILON = 1e-6\n\n")
    ).changed
    assert (changed.qualname, changed.old_line, changed.new_line) == ("Block.width", 34, 35)


def test_a_nested_function_changes_the_one_around_it() -> None:
    assert [item.qualname for item in edited(("return y + EPSILON", "return y - EPSILON")).changed] == ["rms_norm"]


def test_comments_and_formatting_change_nothing_but_lines() -> None:
    found = edited(("EPSILON = 1e-6", "# why\nEPSILON = (\n    1e-6)"), ("return inner(x)", "return inner( x )"))
    assert found.changed == ()
    assert found.lines[10] == 12, "def scale"
    assert found.lines[13] == 15, "the decorator of rms_norm"
    assert found.lines[17] == 19, "the body of a function that stayed"


def test_lines_of_a_changed_body_and_those_that_were_torn_apart_have_no_place() -> None:
    found = compared("a = 1; b = 2\ndef f():\n    return 1\n", "a = 1\nb = 2\ndef f():\n    return 2\n")
    assert found.lines == {2: 3}


AFRESH = {
    "a constant": (("EPSILON = 1e-6", "EPSILON = 1e-5"), "EPSILON changed"),
    "an import": (("import functools", "import functools, math"), "the imports changed"),
    "a future import": (("from __future__ import annotations\n", ""), "the imports changed"),
    "the module's docstring": (("About the module", "About"), "a text changed"),
    "a default": (("factor=2", "factor=3"), "the head of scale changed"),
    "an annotation": (("def scale(x,", "def scale(x: int,"), "the head of scale changed"),
    "a decorator": (("@torch.no_grad()\n", ""), "the head of rms_norm changed"),
    "an option of ours": (("warmup=1", "warmup=2"), "the head of rms_norm changed"),
    "a lambda": (("lambda: make()", "lambda: make(1)"), "the head of rms_norm changed"),
    "a field": (("size: int = 2", "size: int = 3"), "Block.size changed"),
    "a base": (("class Block:", "class Block(dict):"), "Block changed"),
    "a new function": (("def make", "def more(): ...\ndef make"), "more is new"),
    "a function less": (("def make():\n    return torch.ones(2)\n", ""), "make is gone"),
    "another name": (("def late", "def later"), "line 38 changed"),
    "async": (("def make", "async def make"), "the head of make changed"),
    "code that only a program runs": (("late(1)", "late(2)"), "line 42 changed"),
    "order": (
        ("def scale(x, factor=2):\n    return x * factor\n", ""),
        ("def make():", "def scale(x, factor=2):\n    return x * factor\n\ndef make():"),
        "the order of the code changed",
    ),
    "nesting": (
        ("    def forward(self, x):\n        return scale(x)\n", ""),
        ("if EPSILON:", "def forward(self, x):\n    return scale(x)\nif EPSILON:"),
        "the order of the code changed",
    ),
}


@pytest.mark.parametrize("kind", AFRESH)
def test_anything_else_is_executed_afresh_and_named(kind: str) -> None:
    *changes, reason = AFRESH[kind]
    with pytest.raises(Afresh) as caught:
        edited(*changes)  # type: ignore[arg-type]
    assert str(caught.value) == reason


HEAD = "import torch\nfrom torch import no_grad\nfrom profile_neuron import profile_neuron\n"
# A module in which only the body of f changed, with something that may have used that body, and what is told.
USED = {
    "a decorator of someone": ("@cached\ndef f(): return 1", "f changed, which @cached may have read"),
    "a decorator with a known name": (
        "def property(f): return f\nclass A:\n    @property\n    def f(self): return 1",
        "A.f changed, which @property may have read",
    ),
    "a module with a known name": (
        "import mine as torch\n@torch.no_grad()\ndef f(): return 1",
        "f changed, which @torch.no_grad() may have read",
    ),
    "a setter of something else": (
        "class A:\n    f = field()\n    @f.setter\n    def f(self, value): return 1",
        "A.f changed, which @f.setter may have read",
    ),
    "any name may be bound": (
        "from mine import *\n@no_grad()\ndef f(): return 1",
        "f changed, which @no_grad() may have read",
    ),
    "a decorator of the class": (
        "@register\nclass A:\n    def f(self): return 1",
        "A.f changed, in a class that @register may have read",
    ),
    "a registry": ("def f(): return 1\nALL = {'a': f}", "f changed, which line 5 mentions"),
    "its name": ("def f(): return 1\nALL = find('f')", "f changed, which line 5 mentions"),
    "an attribute": ("class A:\n    def f(self): return 1\nuse(A.f)", "A.f changed, which line 6 mentions"),
    "a default of another": ("def f(): return 1\ndef g(x=f): ...", "f changed, which line 5 mentions"),
    "a decorator's argument": (
        "def f(): return 1\n@profile_neuron(inputs=[f][0])\ndef g(): ...",
        "f changed, which line 5 mentions",
    ),
    "a reader of source": ("from inspect import getsource\ndef f(): return 1", "getsource may have read the code"),
    "scripting": ("def g(): ...\ntorch.jit.script(g)\ndef f(): return 1", "script may have read the code"),
    "all names": ("def f(): return 1\nuse(globals())", "globals may have read the code"),
    "a docstring under a decorator": (
        '@no_grad()\ndef f():\n    "Old."\n    return 1',
        "the docstring of f changed, which a decorator may have copied",
    ),
}


@pytest.mark.parametrize("kind", USED)
def test_a_changed_function_that_something_else_may_have_used_is_executed_afresh(kind: str) -> None:
    text, reason = USED[kind]
    old = HEAD + text
    with pytest.raises(Afresh) as caught:
        compared(old, old.replace("return 1", "return 2").replace("Old.", "New."))
    assert str(caught.value) == reason


KEPT = {
    "accessors": "class A:\n    @property\n    def x(self): ...\n    @x.setter\n    def x(self, value): return 1",
    "kinds of methods": "class A:\n    @staticmethod\n    @profile_neuron\n    def x(): return 1",
    "gradient modes": "@no_grad()\n@torch.inference_mode()\n@torch.enable_grad()\ndef x(): return 1",
    "compilation": "@torch.compile(backend='eager')\ndef x(): return 1",
    "a compiled one beside it": "def x(): return 1\nfast = torch.compile(x, dynamic=True)",
    "inputs": "def x(): return 1\n@profile_neuron(inputs=x, instance=lambda: x())\ndef g(): ...",
    "what is exported": "__all__ = ['x']\ndef x(): return 1",
    "what only a program runs": "def x(): return 1\nif __name__ == '__main__':\n    exec(x())",
    "another method of that name": "class A:\n    def x(self): return 1\nclass B:\n    def x(self): return 3",
    "what other functions do": "def x(): return 1\ndef g():\n    exec(x())",
    "its own docstring": "def x():\n    'Old.'\n    return 1",
}


@pytest.mark.parametrize("kind", KEPT)
def test_what_only_passes_a_function_on_does_not_stand_in_its_way(kind: str) -> None:
    old = HEAD + KEPT[kind]
    changed = compared(old, old.replace("return 1", "return 2").replace("Old.", "New.")).changed
    assert [item.qualname.rpartition(".")[2] for item in changed] == ["x"]


def test_a_function_that_ran_during_the_import_is_executed_afresh() -> None:
    assert edited(BODIES["make"], entered=(10,)).changed
    with pytest.raises(Afresh, match="make changed, which ran during the import"):
        edited(BODIES["make"], entered=(20,))


def test_what_ran_during_the_import_may_have_read_code() -> None:
    old = "def f():\n    return 1\ndef g():\n    return eval('1')\n"
    with pytest.raises(Afresh, match="eval may have read the code"):
        compared(old, old.replace("return 1", "return 2"), entered=(3,))


def test_another_module_may_have_used_what_changed() -> None:
    check_other_module("import model\ndef f():\n    return model.scale\n", ["scale"], "helper.py", ())
    with pytest.raises(Afresh, match=r"scale changed, which helper\.py mentions"):
        check_other_module("import model\nuse(model.scale)\n", ["scale"], "helper.py", ())
    with pytest.raises(Afresh, match=r"njit in helper\.py may have read the code"):
        check_other_module("from numba import njit\n", [], "helper.py", ())


def test_code_that_cannot_be_compared_is_executed_afresh() -> None:
    deep = f"x = {'(' * 80}1{')' * 80}\ny = {'-' * 3000}1\n"
    with pytest.raises(Exception, match="nested too deeply"):
        compared(deep, deep)
