"""The decorated functions of a text, and what each of them depends on within its file."""

from __future__ import annotations

import textwrap

import pytest

from profile_neuron.core.discovery import discover
from profile_neuron.core.outline import FunctionOutline, Outline, outline
from profile_neuron.errors import SourceError
from tests.unit.constructed import IMPORT, program_texts
from tests.unit.test_pieces import marked

F = """
@profile_neuron
def f(x):
    return helper(x) * SCALE
"""


def made(text: str) -> Outline:
    return outline(IMPORT + textwrap.dedent(text))


def function(found: Outline, qualname: str = "f", occurrence: int = 0) -> FunctionOutline:
    wanted = found.function(qualname, occurrence)
    assert wanted is not None, [item.spec.qualname for item in found.functions]
    return wanted


def depends(text: str, qualname: str = "f", occurrence: int = 0, reached: tuple[str, ...] = ()) -> list[str]:
    """Names of the functions that a function of a text depends on."""
    found = made(text)
    return [item.name for item in found.dependencies(function(found, qualname, occurrence), reached)]


def test_functions_are_those_that_discovery_finds_in_programs() -> None:
    count = 0
    for name, text in program_texts(every=80, most_bytes=25_000):
        try:
            expected = discover(marked(text))
        except SourceError:
            continue
        assert tuple(item.spec for item in outline(marked(text)).functions) == expected, name
        count += len(expected)
    assert count > 400


def test_functions_of_one_name_are_told_apart_by_their_number() -> None:
    found = made("if a:\n    @profile_neuron\n    def f(): 1\nelse:\n    @profile_neuron\n    def f(): 2\n")
    assert [(item.spec.qualname, item.occurrence, item.spec.def_line) for item in found.functions] == [
        ("f", 0, 4),
        ("f", 1, 7),
    ]
    assert function(found, "f", 1).spec.def_line == 7
    assert found.function("f", 2) is None
    assert function(found, "f", 0).tree != function(found, "f", 1).tree


def test_an_error_names_the_line_of_the_whole_text() -> None:
    with pytest.raises(SourceError) as caught:
        made("def f():\n    pass\n\n\ndef g(:\n    pass\n")
    assert caught.value.line == 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("def helper(x): return x\n" + F, ["helper"], id="called"),
        pytest.param(F + "def helper(x): return x\n", ["helper"], id="defined later"),
        pytest.param(
            "def helper(x): return inner(x)\ndef inner(x): return x\n" + F, ["helper", "inner"], id="through another"
        ),
        pytest.param("def helper(x): return helper(x)\n" + F, ["helper"], id="recursive"),
        pytest.param("def other(x): return f(x)\n" + F, [], id="a caller of it"),
        pytest.param("def other(x): return x\n" + F, [], id="not mentioned"),
        pytest.param("def other(): pass\nTABLE = [other]\n" + F, ["other"], id="in a table of the module"),
        pytest.param(
            "def other(): pass\n@register\nclass A:\n    x = other()\n" + F, ["other"], id="in the body of a class"
        ),
        pytest.param(
            "def other(): pass\nif __name__ == '__main__':\n    other()\n" + F, [], id="where the file is the program"
        ),
        pytest.param(
            "def helper(x): return x\ndef helper(y): return y\n" + F, ["helper", "helper (2)"], id="defined twice"
        ),
        pytest.param(
            "try:\n    def helper(): 1\nexcept E:\n    def helper(): 2\n" + F,
            ["helper", "helper (2)"],
            id="in branches",
        ),
        pytest.param("class A:\n    def helper(self): pass\n" + F, ["A.helper"], id="a method of that name"),
        pytest.param(
            "class A:\n    def __init__(self): pass\n    def __call__(self): pass\n    def other(self): pass\n"
            "def helper(x): return A()(x)\n" + F,
            ["A.__call__", "A.__init__", "helper"],
            id="special methods of a class that is mentioned",
        ),
        pytest.param(
            "class B:\n    def __init__(self): pass\nclass A(B): pass\ndef helper(x): return A()\n" + F,
            ["B.__init__", "helper"],
            id="special methods of a base",
        ),
        pytest.param(
            "def outer():\n    def helper(x): pass\ndef helper2(x): pass\n" + F, [], id="local to another function"
        ),
        pytest.param(
            "def f_inputs(): return make()\ndef make(): pass\n" + F, ["f_inputs", "make"], id="inputs by name"
        ),
        pytest.param("def g_inputs(): pass\ndef f_instance(): pass\n" + F, [], id="inputs of another one"),
        pytest.param("async def helper(x): pass\n" + F, ["helper"], id="async"),
        pytest.param("import helper\n" + F, [], id="imported"),
    ],
)
def test_a_function_depends_on_what_it_may_reach(text: str, expected: list[str]) -> None:
    assert depends(text) == expected


@pytest.mark.parametrize(
    "decorator",
    ["@profile_neuron(inputs=make)", "@profile_neuron(inputs={'a': make})", "@profile_neuron(inputs=lambda: make(1))"],
)
def test_a_function_depends_on_what_its_decorator_names(decorator: str) -> None:
    assert depends(f"def make(): pass\n{decorator}\ndef f(x): pass\n") == ["make"]


METHOD = """
class Outer:
    class Inner:
        def __init__(self): pass
        @profile_neuron
        def f(self, x): return self.g(x)
        def g(self, x): return x
        def h(self, x): return x
"""


@pytest.mark.parametrize("name", ["Outer_Inner_f_inputs", "f_inputs", "Outer_Inner_instance", "Inner_instance"])
def test_a_method_depends_on_the_functions_that_a_worker_takes_inputs_and_objects_from(name: str) -> None:
    own = ["Outer.Inner.__init__", "Outer.Inner.g"]
    assert depends(METHOD, "Outer.Inner.f") == own
    assert depends(f"{METHOD}def {name}(): pass\n", "Outer.Inner.f") == sorted([*own, name])
    without = function(made(f"{METHOD}def {name}(): pass\n"), "Outer.Inner.f").interface
    assert function(made(f"{METHOD}def {name}(): return 1\n"), "Outer.Inner.f").interface != without


def test_what_a_run_reached_is_depended_on_and_what_that_mentions() -> None:
    text = (
        F.replace("helper", "TABLE['a']")
        + "def g(x): return h(x)\ndef h(x): return x\nclass A:\n    def m(self): pass\n"
    )
    assert depends(text) == []
    assert depends(text, reached=("g", "A.m")) == ["A.m", "g", "h"]
    assert depends(text, reached=("f", "g.<locals>.inner")) == ["g", "h"]
    assert depends(text, reached=("gone", "")) == []


def test_a_nested_function_depends_on_what_the_function_around_it_mentions() -> None:
    text = "def helper(): pass\ndef outer():\n    y = helper()\n    @profile_neuron\n    def f(x): return y\n    return f\n"
    assert depends(text, "outer.<locals>.f") == ["helper"]


def test_of_two_equal_definitions_each_depends_on_the_other_one_if_it_is_mentioned() -> None:
    text = "@profile_neuron\ndef f(x): return f(x)\n" * 2
    assert depends(text) == ["f (2)"]
    assert depends(text, occurrence=1) == ["f"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("A = 1\n", "A = 2\n", id="constant"),
        pytest.param("import a\n", "import b\n", id="import"),
        pytest.param("from a import b\n", "from a import b as c\n", id="name of an import"),
        pytest.param("class A:\n    x = 1\n", "class A:\n    x = 2\n", id="attribute of a class"),
        pytest.param("class A: pass\n", "class A(B): pass\n", id="base of a class"),
        pytest.param("@a\nclass A: pass\n", "@b\nclass A: pass\n", id="decorator of a class"),
        pytest.param("A = lambda: 1\n", "A = lambda: 2\n", id="lambda"),
        pytest.param("if a:\n    x = 1\n", "if b:\n    x = 1\n", id="condition"),
        pytest.param("if a:\n    x = 1\n", "if a:\n    pass\nx = 1\n", id="end of a block"),
        pytest.param("if a:\n    x = 1\nelse:\n    y = 2\n", "if a:\n    x = 1\ny = 2\n", id="else"),
        pytest.param("for a in b:\n    x\nelse:\n    y\n", "for a in b:\n    x\n    y\n", id="else of a loop"),
        pytest.param("try:\n    x\nexcept A:\n    y\n", "try:\n    x\nexcept B:\n    y\n", id="handler"),
        pytest.param(
            "try:\n    x\nexcept A:\n    y\n", "try:\n    x\n    y\nexcept A:\n    pass\n", id="body of a handler"
        ),
        pytest.param(
            "try:\n    x\nexcept A:\n    y\nelse:\n    z\n",
            "try:\n    x\nexcept A:\n    y\nfinally:\n    z\n",
            id="else to finally",
        ),
        pytest.param("match a:\n    case 1:\n        x\n", "match a:\n    case 2:\n        x\n", id="pattern"),
        pytest.param("match a:\n    case 1:\n        x\n", "match a:\n    case 1:\n        y\n", id="body of a case"),
        pytest.param("with a:\n    x\n", "with b:\n    x\n", id="manager"),
        pytest.param("a = 1\nb = 2\n", "b = 2\na = 1\n", id="order"),
        pytest.param(
            "if __name__ != '__main__':\n    x = 1\n",
            "if __name__ != '__main__':\n    x = 2\n",
            id="where it is imported",
        ),
        pytest.param(
            "if __name__ == '__main__':\n    pass\nelse:\n    x = 1\n",
            "if __name__ == '__main__':\n    pass\nelse:\n    x = 2\n",
            id="else of the program",
        ),
        pytest.param(
            "def SCALE(): pass\nSCALE = 1\n", "SCALE = 1\ndef SCALE(): pass\n", id="which binding of a name is last"
        ),
        pytest.param(
            "def SCALE(): pass\nfrom a import SCALE\n",
            "from a import SCALE\ndef SCALE(): pass\n",
            id="import over a function",
        ),
    ],
)
def test_the_code_that_an_import_runs_is_part_of_what_counts(before: str, after: str) -> None:
    one, other = made(before + F), made(after + F)
    assert one.digest != other.digest
    functions = [outlined.dependencies(function(outlined)) for outlined in (one, other)]
    assert (one.module_code, functions[0]) != (other.module_code, functions[1])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("def g(): return 1\n", "def g(): return 2\n", id="body of a function"),
        pytest.param(
            "class A:\n    def g(self): return 1\n", "class A:\n    def g(self): return 2\n", id="body of a method"
        ),
        pytest.param("A = 1\n", "'doc'\nA = 1  # c\n", id="docstring and comment"),
        pytest.param(
            "if __name__ == '__main__':\n    x = 1\n", "if __name__ == '__main__':\n    x = 2\n", id="program"
        ),
        pytest.param("", "def g(): pass\n", id="one more function"),
        pytest.param("A = 1\nB = 2\n", "A = 1\ndef g(): pass\nB = 2\n", id="one more function between statements"),
        pytest.param("A = 1\nB = 2\n", "A = 1\nasync def g(): pass\nB = 2\n", id="async function between statements"),
    ],
)
def test_what_an_import_does_not_run_is_no_code_of_the_module(before: str, after: str) -> None:
    assert made(before + F).module_code == made(after + F).module_code


CODE = "A = (a @ b)\n\n\ndef g(x):\n    return x\n\n\nasync def h(x):\n    return x\n" + F
BEGINNINGS = "\ndef a\ndef b\nclass c\ndef d\ndef e\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("", "# def a\n\n", id="comment"),
        pytest.param("", '"""doc"""\n', id="docstring of the module"),
        pytest.param("", '"""doc\n@author\n"""\n', id="docstring with a sign at the margin"),
        pytest.param("", f'"""{BEGINNINGS}"""\n', id="docstring with many beginnings"),
        pytest.param(
            "    return x\n\n\nasync",
            f'    """{BEGINNINGS}"""\n    return x\n\n\nasync',
            id="such a docstring in a function",
        ),
        pytest.param("(a @ b)", "(a\n@ b)", id="matrix product at the margin"),
        pytest.param("async def", "async  def", id="two spaces"),
        pytest.param("async def", "async \\\ndef", id="async on its own line"),
        pytest.param("def g", "def \\\n  g", id="name on its own line"),
        pytest.param("\n\n\ndef g", "\n\n\n\fdef g", id="form feed before a definition"),
        pytest.param("\n", "\r\n", id="CRLF"),
        pytest.param("", "\ufeff", id="byte order mark"),
    ],
)
def test_comments_docstrings_and_formatting_leave_all_digests_unchanged(before: str, after: str) -> None:
    text = IMPORT + CODE
    other = text.replace(before, after) if before else after + text
    assert other != text
    one, two = outline(text), outline(other)
    f, g = function(one), function(two)
    assert (f.tree, f.body, f.interface, one.module_code) == (g.tree, g.body, g.interface, two.module_code)
    assert one.dependencies(f) == two.dependencies(g)
    # The key of a result is made of it, and another key starts a run.
    assert one.digest == two.digest


@pytest.mark.parametrize(
    ("before", "after", "tree", "body", "interface"),
    [
        pytest.param("return helper", "return 1 + helper", False, False, True, id="statement"),
        pytest.param("def f", "def g", False, True, True, id="name"),
        pytest.param("(x)", "(x, y=1)", False, False, False, id="parameter and call"),
        pytest.param("f(x):", "f(x=1):", False, True, False, id="default"),
        pytest.param("f(x):", "f(x: int):", False, True, False, id="annotation"),
        pytest.param("f(x):", "f(x) -> int:", False, True, True, id="annotation of what it returns"),
        pytest.param("@profile_neuron\n", "@profile_neuron(repeats=2)\n", False, True, False, id="option"),
        pytest.param("@profile_neuron\n", "@profile_neuron\n@a\n", False, True, False, id="decorator"),
        pytest.param("def f", "async def f", False, True, False, id="async"),
    ],
)
def test_digests_of_a_function_tell_what_of_it_was_edited(
    before: str, after: str, tree: bool, body: bool, interface: bool
) -> None:
    one = function(made(F))
    other_outline = made(F.replace(before, after))
    (other,) = other_outline.functions
    assert (one.tree == other.tree, one.body == other.body) == (tree, body)
    assert (one.interface == other.interface) == interface


def test_parameters_are_those_that_a_call_must_give() -> None:
    (found,) = made("@profile_neuron\ndef f(a, /, b, c=1, *d, e, g=2, h, **i): pass\n").functions
    assert found.parameters == (("a", "b"), ("e", "h"))


def test_lines_of_statements_count_from_the_offset_of_their_piece() -> None:
    found = made("A = 1\ndef g():\n    pass\n@profile_neuron\ndef f(x):\n    a\n    b\n")
    f = function(found)
    assert [item.line + f.offset for item in f.statements] == [7, 8]
    assert [found.lines[item.line + f.offset - 1].strip() for item in f.statements] == ["a", "b"]


def test_a_long_chain_of_elif_is_no_problem_wherever_an_outline_can_be_made_of_it() -> None:
    made_of = 0
    # What finds the functions is itself as deep as the chain, and says so with a SourceError.
    for length in range(430, 510):
        chain = "".join(f"elif x == {number}:\n    pass\n" for number in range(length))
        try:
            found = made(f"if x:\n    pass\n{chain}{F}")
        except SourceError:
            break
        assert found.module_code
        made_of += 1
    assert made_of > 10
