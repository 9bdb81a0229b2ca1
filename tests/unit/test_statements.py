"""Statements of functions: which there are, where they begin, and which of them share a line."""

from __future__ import annotations

import ast
import sys
import textwrap

import pytest

from profile_neuron.core.discovery import parse
from profile_neuron.core.fingerprint import is_idle
from profile_neuron.core.statements import Statement, by_line, first_line, rows, statements
from profile_neuron.errors import SourceError
from tests.unit.constructed import program_texts


def of(body: str) -> tuple[Statement, ...]:
    return statements(parse(textwrap.dedent(body)).body)


def placed(body: str) -> list[tuple[int, int, int, str]]:
    """Line, last line of the header, depth and block of each statement."""
    return [(item.line, item.header_end, item.depth, item.block) for item in of(body)]


def grouped(body: str) -> list[tuple[int, list[int]]]:
    return [(row.line, list(row)) for row in rows(of(body))]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("a\nb\n", [(1, 1, 0, "body"), (2, 2, 0, "body")], id="two lines"),
        pytest.param("a; b\n", [(1, 1, 0, "body"), (1, 1, 0, "body")], id="one line"),
        pytest.param("a = (\n  1,\n)\nb\n", [(1, 3, 0, "body"), (4, 4, 0, "body")], id="several lines"),
        pytest.param("'doc'\na\n'note'\nb\n", [(2, 2, 0, "body"), (4, 4, 0, "body")], id="bare texts"),
        pytest.param(
            "if a:\n    b\nelif c:\n    d\nelse:\n    e\n",
            [(1, 1, 0, "body"), (2, 2, 1, "body"), (3, 3, 1, "orelse"), (4, 4, 2, "body"), (6, 6, 2, "orelse")],
            id="if, elif, else",
        ),
        pytest.param(
            "for a in (\n    b,\n):\n\n    # why\n    c\nelse:\n    d\n",
            [(1, 3, 0, "body"), (6, 6, 1, "body"), (8, 8, 1, "orelse")],
            id="long header of a loop",
        ),
        pytest.param(
            "with a as b, \\\n    c:\n    d\n", [(1, 2, 0, "body"), (3, 3, 1, "body")], id="header with continuation"
        ),
        pytest.param(
            "match a:\n    case 1:\n        b\n    case C(d) if e:\n        f\n",
            [(1, 1, 0, "body"), (3, 3, 1, "part 0"), (5, 5, 1, "part 1")],
            id="match",
        ),
        pytest.param(
            "try:\n    a\nexcept E:\n    b\nexcept F as f:\n    c\n",
            [(1, 1, 0, "body"), (2, 2, 1, "body"), (4, 4, 1, "part 0"), (6, 6, 1, "part 1")],
            id="try, except",
        ),
        pytest.param(
            "try:\n    a\nfinally:\n    b\n",
            [(1, 1, 0, "body"), (2, 2, 1, "body"), (4, 4, 1, "finalbody")],
            id="try, finally",
        ),
        pytest.param(
            "try:\n    a\nexcept E:\n    b\nelse:\n    c\nfinally:\n    d\n",
            [
                (1, 1, 0, "body"),
                (2, 2, 1, "body"),
                (4, 4, 1, "part 0"),
                (6, 6, 1, "orelse"),
                (8, 8, 1, "finalbody"),
            ],
            id="try, except, else, finally",
        ),
        pytest.param(
            "@a(\n    1,\n)\n@b\ndef g(\n    x=1,\n) -> c:\n    return x\n",
            [(5, 7, 0, "body"), (8, 8, 1, "body")],
            id="decorated definition",
        ),
        pytest.param(
            "class A(\n    B\n):\n    x = 1\n    def f(self): pass\n",
            [(1, 2, 0, "body"), (4, 4, 1, "body"), (5, 5, 1, "body"), (5, 5, 2, "body")],
            id="class",
        ),
        pytest.param("if a: b\n", [(1, 1, 0, "body"), (1, 1, 1, "body")], id="one-line if"),
        pytest.param("def g(): 'doc'\n", [(1, 1, 0, "body")], id="definition of nothing but a docstring"),
    ],
)
def test_statements_stand_in_source_order_at_their_lines(body: str, expected: list[tuple[int, int, int, str]]) -> None:
    assert placed(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("a; b; c\nd\n", [(1, [0, 1, 2]), (2, [3])], id="several on a line"),
        pytest.param("a = (\n1,\n); b\nc\n", [(1, [0, 1]), (4, [2])], id="after the end of a long one"),
        pytest.param("if a: b; c\nd\n", [(1, [0, 1, 2]), (2, [3])], id="one-line if"),
        pytest.param("if a: b\nelse: c\n", [(1, [0, 1]), (2, [2])], id="one-line else"),
        pytest.param("if (\n    a\n): b\n", [(1, [0]), (3, [1])], id="body after the end of a bracket only"),
        pytest.param("if (a\n    and c): b\n", [(1, [0, 1])], id="body on the last line of the condition"),
        pytest.param("for a in (b,\n    c): d\ne\n", [(1, [0, 1]), (3, [2])], id="body on the last line of the loop's"),
        pytest.param("def g(a,\n    b=c()): return a\n", [(1, [0, 1])], id="body on the last line of parameters"),
        pytest.param("try: a\nexcept E: b\nelse: c\n", [(1, [0, 1]), (2, [2]), (3, [3])], id="one-line try"),
        pytest.param(
            "try:\n    a\nexcept E:\n    b\nelse:\n    c\nfinally:\n    d\n",
            [(1, [0]), (2, [1]), (4, [2]), (6, [3]), (8, [4])],
            id="handlers before else and finally",
        ),
        pytest.param(
            "try:\n    a\nexcept E:\n    b\nfinally:\n    c\nd\n",
            [(1, [0]), (2, [1]), (4, [2]), (6, [3]), (7, [4])],
            id="what follows finally",
        ),
        pytest.param("@a\ndef g(): return b\n", [(2, [0, 1])], id="one-line definition with a decorator"),
        pytest.param("x = lambda: (\n  a,\n)\n", [(1, [0])], id="lambda"),
    ],
)
def test_statements_that_cannot_be_told_apart_by_line_share_a_row(
    body: str, expected: list[tuple[int, list[int]]]
) -> None:
    assert grouped(body) == expected


@pytest.mark.skipif(sys.version_info < (3, 11), reason="except star is newer")
def test_handlers_of_an_exception_group_are_as_any_others() -> None:
    text = "try:\n    a\nexcept{} E:\n    b\nelse:\n    c\n"
    assert placed(text.format("*")) == placed(text.format(""))
    assert [item.digest for item in of(text.format("*"))] != [item.digest for item in of(text.format(""))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(1, 0, id="header"),
        pytest.param(2, 0, id="second line of the header"),
        pytest.param(3, 1, id="body"),
        pytest.param(4, 0, id="else"),
        pytest.param(5, 2, id="body of else"),
        pytest.param(6, 3, id="decorator"),
        pytest.param(7, 3, id="second line of a decorator"),
        pytest.param(9, 3, id="def"),
        pytest.param(10, 4, id="body of a definition"),
        pytest.param(11, 4, id="second line of a statement"),
        pytest.param(12, None, id="after the end"),
    ],
)
def test_a_line_belongs_to_the_innermost_statement_around_it(line: int, expected: int | None) -> None:
    found = of(
        """\
        for a in (
                b):
            c
        else:
            d
        @e(
            f
        )
        def g():
            return (h
                , i)
        """
    )
    assert by_line(found).get(line) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param("if a:\n    b\n", "if a:\n    c\n", [True, False], id="an inner one is no part of the outer one"),
        pytest.param("if a:\n    b\n", "if c:\n    b\n", [False, True], id="nor the other way round"),
        pytest.param("if a:\n    b\n", "while a:\n    b\n", [False, True], id="kind"),
        pytest.param("with a:\n    b\n", "with a as c:\n    b\n", [False, True], id="header"),
        pytest.param("def g(x):\n    b\n", "def g(y):\n    b\n", [False, True], id="parameters"),
        pytest.param("@c\ndef g(x):\n    b\n", "@d\ndef g(x):\n    b\n", [False, True], id="decorator"),
        pytest.param("try:\n    a\nexcept E: b\n", "try:\n    a\nexcept F: b\n", [False, True, True], id="handler"),
        pytest.param("match a:\n case 1: b\n", "match a:\n case 2: b\n", [False, True], id="pattern"),
        pytest.param("match a:\n case 1: b\n", "match a:\n case 1 if c: b\n", [False, True], id="guard"),
        pytest.param("a\n", "a # c\n", [True], id="comment"),
        pytest.param("def g():\n    'a'\n    b\n", "def g():\n    b\n", [True, True], id="docstring"),
    ],
)
def test_a_digest_is_of_what_is_the_statements_own(before: str, after: str, expected: list[bool]) -> None:
    assert [one.digest == other.digest for one, other in zip(of(before), of(after), strict=True)] == expected


def test_a_chain_of_elif_is_no_problem_wherever_it_parses() -> None:
    chain = "".join(f"elif x == {number}:\n    y = {number}\n" for number in range(1200))
    found = of(f"if x:\n    pass\n{chain}")
    assert [item.line for item in found] == list(range(1, 2 * 1201 + 1))


def functions_of_programs() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    found = []
    for name, text in program_texts(every=40, most_bytes=40_000):
        try:
            tree = parse(text)
        except SourceError:
            continue
        found += [
            (f"{name}:{node.lineno}", node)
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]
    return found


FUNCTIONS = functions_of_programs()


def test_the_statements_of_programs_are_those_of_their_trees_in_source_order() -> None:
    assert len(FUNCTIONS) > 1000
    for name, node in FUNCTIONS:
        own = [item for item in ast.walk(node) if isinstance(item, ast.stmt) and item is not node and not is_idle(item)]
        # Outer before inner: what begins at the same place ends later.
        own.sort(key=lambda item: (item.lineno, item.col_offset, -(item.end_lineno or 0)))
        expected = [(item.lineno, first_line(item), item.end_lineno) for item in own]
        assert [(item.line, item.first_line, item.last_line) for item in statements(node.body)] == expected, name


def test_the_rows_of_programs_are_a_partition_with_lines_that_rise() -> None:
    for name, node in FUNCTIONS:
        found = statements(node.body)
        made = rows(found)
        assert [index for row in made for index in row] == list(range(len(found))), name
        lines = [row.line for row in made]
        assert lines == sorted(set(lines)), name
        assert lines == [found[row.start].line for row in made], name


def test_every_line_of_code_of_a_program_belongs_to_the_innermost_statement() -> None:
    for name, node in FUNCTIONS[::5]:
        found = statements(node.body)
        inner = [
            item for item in ast.walk(node) if isinstance(item, ast.stmt) and item is not node and not is_idle(item)
        ]
        for line in range(node.lineno, (node.end_lineno or 0) + 1):
            around = [item for item in inner if first_line(item) <= line <= (item.end_lineno or 0)]
            index = by_line(found).get(line)
            assert (index is None) == (not around), name
            if index is not None:
                innermost = max(around, key=lambda item: (first_line(item), -(item.end_lineno or 0), item.lineno))
                assert found[index].first_line == first_line(innermost), (name, line)
