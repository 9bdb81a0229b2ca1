"""Lines of a result in a later text; every row here costs a millisecond times the line it was measured on."""

from __future__ import annotations

import ast
import random
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.core.anchor import match, row_costs
from profile_neuron.core.keys import changes
from profile_neuron.core.model import FunctionCosts, LineCost, OperatorCalls, RowCost
from profile_neuron.core.outline import outline
from tests.unit.constructed import IMPORT, MADE_WITH, MS, costs_of, reformatted, result, shown

HEAD = f"{IMPORT}@profile_neuron\ndef f(x):\n"


def text_of(body: str) -> str:
    """A function whose body begins in line 4."""
    return HEAD + textwrap.indent(textwrap.dedent(body), "    ")


def moved(before: str, after: str) -> list[tuple[int, int] | tuple[int, int, tuple[int, ...]]]:
    """Line today and line it was measured on of each row, and the lines it is shared by, if so."""
    rows = shown(result(text_of(before)), text_of(after))
    return [
        (row.line, row.cost.total_ns // MS, row.shared) if row.shared else (row.line, row.cost.total_ns // MS)
        for row in rows
    ]


BODY = "a = x + 1\nb = g(\n    a,\n    1,\n)\nfor c in b:\n    d = c\n    e = d\nreturn e\n"
# Its rows are in lines 4, 5, 9, 10, 11, 12.
SAME = [(4, 4), (5, 5), (9, 9), (10, 10), (11, 11), (12, 12)]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(BODY, SAME, id="the same text"),
        pytest.param(f"# why\n\n{BODY}", [(line + 2, ms) for line, ms in SAME], id="comment at the start"),
        pytest.param(f"'''doc\nmore'''\n{BODY}", [(line + 2, ms) for line, ms in SAME], id="docstring"),
        pytest.param(
            BODY.replace("g(\n    a,\n    1,\n)", "g(a, 1)"),
            [(4, 4), (5, 5), (6, 9), (7, 10), (8, 11), (9, 12)],
            id="call on one line",
        ),
        pytest.param(
            BODY.replace("for c in b", "for c in (\n    b  # why\n)"),
            [(4, 4), (5, 5), (9, 9), (12, 10), (13, 11), (14, 12)],
            id="header on several lines",
        ),
        pytest.param(
            BODY.replace("d = c", "d = c + 1"), [(4, 4), (5, 5), (9, 9), (11, 11), (12, 12)], id="edited statement"
        ),
        pytest.param(
            BODY.replace("    1,\n", "    2,\n"),
            [(4, 4), (9, 9), (10, 10), (11, 11), (12, 12)],
            id="edited second line",
        ),
        pytest.param(
            BODY.replace("for c in b", "for c in a"), [(4, 4), (5, 5), (10, 10), (11, 11), (12, 12)], id="edited header"
        ),
        pytest.param(
            BODY.replace("    d = c", "    new = 1\n    d = c"),
            [(4, 4), (5, 5), (9, 9), (11, 10), (12, 11), (13, 12)],
            id="inserted statement",
        ),
        pytest.param(
            BODY.replace("    d = c\n", ""), [(4, 4), (5, 5), (9, 9), (10, 11), (11, 12)], id="deleted statement"
        ),
        pytest.param(
            BODY.replace("    d = c\n    e = d\n", "    e = d\n    d = c\n"),
            [(4, 4), (5, 5), (9, 9), (11, 10), (12, 12)],
            id="two that changed places, of which one keeps its row",
        ),
        pytest.param(
            BODY.replace("for c in b:", "if x:\n    for c in b:").replace(
                "    d = c\n    e = d", "        d = c\n        e = d"
            ),
            [(4, 4), (5, 5), (10, 9), (11, 10), (12, 11), (13, 12)],
            id="moved into a block",
        ),
        pytest.param("return 1\n", [], id="all others"),
        pytest.param("pass\n", [], id="nothing"),
    ],
)
def test_a_row_is_where_its_statement_is_now(after: str, expected: list[tuple[int, int]]) -> None:
    assert moved(BODY, after) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param("a\nb\nc\n", "a; b\nc\n", [(4, 9), (5, 6)], id="two joined"),
        pytest.param("a\nb\nc\n", "a; b; c\n", [(4, 15)], id="three joined"),
        pytest.param("a; b\nc\n", "a\nb\nc\n", [(4, 4, (4, 5)), (5, 4, (4, 5)), (6, 5)], id="parted"),
        pytest.param(
            "a; b; c\n", "a\nb\nc\n", [(4, 4, (4, 5, 6)), (5, 4, (4, 5, 6)), (6, 4, (4, 5, 6))], id="parted in three"
        ),
        pytest.param("a; b; c\n", "a; b\nc\n", [(4, 4, (4, 5)), (5, 4, (4, 5))], id="parted in two"),
        pytest.param("if a: b\n", "if a:\n    b\n", [(4, 4, (4, 5)), (5, 4, (4, 5))], id="body put on its own line"),
        pytest.param("if a:\n    b\n", "if a: b\n", [(4, 9)], id="body put on the line of the header"),
        pytest.param("a; b\nc\n", "a; d\nc\n", [(5, 5)], id="one of two edited"),
        pytest.param("a; b\nc\n", "a; b; d\nc\n", [(5, 5)], id="another one came to a line"),
        pytest.param("a; b\nc\n", "a\nc\n", [(5, 5)], id="one of two deleted"),
        pytest.param("a\nb\nc\n", "a; d\nb\nc\n", [(5, 5), (6, 6)], id="a new one on a line"),
        pytest.param("a\nb\nc\n", "d; b\nc\n", [(5, 6)], id="edited and joined"),
        pytest.param(
            "a; b\nc\n", "a; d\nb\nc\n", [(6, 5)], id="parted, with a new one on a line that the figure would stand on"
        ),
        pytest.param(
            "try: a\nfinally: b\n", "try:\n    a\nfinally:\n    b\n", [(4, 4, (4, 5)), (5, 4, (4, 5)), (7, 5)], id="try"
        ),
    ],
)
def test_statements_that_come_together_or_part_take_their_figures_along(
    before: str, after: str, expected: list[tuple[int, int]]
) -> None:
    assert moved(before, after) == expected


def test_a_line_that_two_parted_rows_share_has_one_figure() -> None:
    rows = moved("a; b\nc; d\n", "a\nb; c\nd\n")
    assert len({row[0] for row in rows}) == len(rows)


def test_a_figure_that_is_parted_and_one_that_comes_to_its_line_make_one() -> None:
    rows = moved("a; b\nc\n", "a\nb; c\n")
    assert [row[0] for row in rows] == [4, 5]
    # Neither 4 nor 5 ms is what line 5 took: the two lines took 9 ms together.
    assert [row[1:] for row in rows] == [(9, (4, 5)), (9, (4, 5))]


def test_the_line_of_def_is_its_own_row_and_moves_with_def() -> None:
    before = text_of("a\n")
    made = result(before, ns_by_line={3: 3 * MS, 4: 4 * MS})
    assert [(row.cost.start, row.cost.stop, row.cost.total_ns) for row in shown(made, before)] == [
        (-1, 0, 3 * MS),
        (0, 1, 4 * MS),
    ]
    after = before.replace("def f(x)", "\n# why\n@other\ndef f(\n    x\n)")
    assert [(row.line, row.cost.total_ns // MS) for row in shown(made, after)] == [(6, 3), (9, 4)]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param("def f(x): return a\n", [(3, 3)], id="the same"),
        pytest.param("def f(x):\n    return a\n", [(4, 3)], id="on two lines"),
        pytest.param("def f(x): return b\n", [], id="edited"),
    ],
)
def test_a_function_on_one_line_has_one_row(after: str, expected: list[tuple[int, int]]) -> None:
    before = f"{IMPORT}@profile_neuron\ndef f(x): return a\n"
    rows = shown(result(before), f"{IMPORT}@profile_neuron\n{after}")
    assert [(row.line, row.cost.total_ns // MS) for row in rows] == expected


def test_the_header_and_a_body_that_came_to_its_line_are_summed() -> None:
    made = result(text_of("return a\n"), ns_by_line={3: 3 * MS, 4: 4 * MS})
    (row,) = shown(made, f"{IMPORT}@profile_neuron\ndef f(x): return a\n")
    assert (row.line, row.cost.total_ns, row.cost.self_ns, row.cost.spread_ns) == (3, 7 * MS, 7 * MS, None)
    assert row.cost.operators == (OperatorCalls("aten::add", 2.0),)
    assert shown(made, f"{IMPORT}@profile_neuron\ndef f(x): return b\n") == ()


def test_a_nested_function_with_decorators_has_its_row_at_def() -> None:
    body = "@d(\n    1,\n)\ndef g(y):\n    return y\nreturn g(x)\n"
    made = result(text_of(body), ns_by_line={4: 1 * MS, 5: 2 * MS, 7: 4 * MS, 8: 8 * MS, 9: 16 * MS})
    assert [(row.line, row.cost.total_ns // MS) for row in shown(made, text_of(body))] == [(7, 7), (8, 8), (9, 16)]
    after = body.replace("@d(\n    1,\n)", "@d(1)")
    assert [(row.line, row.cost.total_ns // MS) for row in shown(made, text_of(after))] == [(5, 7), (6, 8), (7, 16)]


@pytest.mark.parametrize(
    ("body", "ns_by_line", "expected"),
    [
        pytest.param(
            "try:\n    a\nexcept E:\n    b\nelse:\n    c\nfinally:\n    d\n",
            {5: 5, 7: 7, 9: 9, 11: 11},
            [(5, 5), (7, 7), (9, 9), (11, 11)],
            id="try with all its blocks",
        ),
        pytest.param(
            "match x:\n    case g(y) if h(y):\n        a\n    case _:\n        b\n",
            {4: 1, 5: 2, 6: 4, 8: 8},
            [(4, 3), (6, 4), (8, 8)],
            id="patterns count to match",
        ),
        pytest.param(
            "while (a and\n       b):\n    c\nelse:\n    d\n",
            {4: 1, 5: 2, 6: 4, 8: 8},
            [(4, 3), (6, 4), (8, 8)],
            id="header",
        ),
        pytest.param("a = [\n    b(c)\n    for c in d\n]\n", {4: 1, 5: 2, 6: 4}, [(4, 7)], id="comprehension"),
        pytest.param("a = g(lambda: (\n    b,\n    c))\n", {4: 1, 5: 2, 6: 4}, [(4, 7)], id="lambda"),
        pytest.param(
            "if (a\n        and b()): c()\n", {4: 1, 5: 2}, [(4, 3)], id="body on the last line of its header"
        ),
    ],
)
def test_costs_of_lines_are_summed_per_row(
    body: str, ns_by_line: dict[int, int], expected: list[tuple[int, int]]
) -> None:
    text = text_of(body)
    rows = shown(result(text, ns_by_line=ns_by_line), text)
    assert [(row.line, row.cost.total_ns) for row in rows] == expected


def test_row_costs_add_up_to_the_lines_and_keep_what_only_one_line_has() -> None:
    text = text_of("a = (\n    b,\n)\nc\n")
    function = outline(text).functions[0]
    lines = (
        LineCost(4, 1, 10, 2, (OperatorCalls("add", 1.0),), 9, 3),
        LineCost(5, 2, 20, 3, (OperatorCalls("add", 0.5), OperatorCalls("mul", 2.0)), 17, 4),
        LineCost(7, 4, 40, 4, (), 38, 6),
    )
    costs: FunctionCosts = costs_of({}, lines=lines).functions[0]
    assert row_costs(costs, function) == (
        RowCost(0, 1, 3, 30, None, (OperatorCalls("add", 1.5), OperatorCalls("mul", 2.0)), 26, 7),
        RowCost(1, 2, 4, 40, 4, (), 38, 6),
    )


FUNCTION = text_of(
    """\
    '''What it does.'''
    with torch.no_grad(), g() as h:
        y = [
            k(v)
            for v in x
        ]
    if x and (y or
              h):
        z = 1; w = 2
    elif y:
        z = f'{x!r}'
    else:
        z = lambda q: q + \\
            1
    @decorated(1)
    def inner(
        a,
        *b,
    ):
        '''doc'''
        return a
    class Local(Base):
        attribute = 1
        def method(self): return self
    try:
        z = inner(*x)
    except (A, B) as error:
        raise C from error
    for i, (j, k) in enumerate(x): z += j
    while z:
        z -= 1
        continue
    else:
        del z
    match x:
        case [1, *rest] if rest:
            return rest
        case {'a': v, **more}:
            pass
    assert z, 'why'
    return x[1:2, ...]
    """
)


def statement_lines(text: str) -> list[int]:
    """The line of each statement of the decorated function by CPython's tree."""
    (node,) = (item for item in ast.parse(text).body if isinstance(item, ast.FunctionDef))
    found = [item for item in ast.walk(node) if isinstance(item, ast.stmt) and item is not node]
    found = [item for item in found if not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))]
    return [item.lineno for item in sorted(found, key=lambda item: (item.lineno, item.col_offset))]


@pytest.mark.parametrize("seed", range(8))
def test_after_reformatting_every_row_is_at_its_statement_and_nothing_is_remarked(seed: int) -> None:
    text = reformatted(FUNCTION, seed)
    made = result(FUNCTION)
    # Of several statements on a line the first one places the row.
    place = dict(reversed(list(zip(statement_lines(FUNCTION), statement_lines(text), strict=True))))
    expected = [(place[line], line) for line in sorted(set(statement_lines(FUNCTION)))]
    assert [(row.line, row.cost.total_ns // MS) for row in shown(made, text)] == expected
    found = outline(text)
    assert changes(made, found, found.functions[0], MADE_WITH, "", {}) == ()


def test_a_formatter_that_puts_each_statement_on_its_own_line_parts_the_rows_that_shared_one() -> None:
    text = IMPORT + ast.unparse(ast.parse(FUNCTION.removeprefix(IMPORT)))
    made = result(FUNCTION)
    rows = shown(made, text)
    whole = sum(row.total_ns for row in made.rows)
    counted_once = sum(row.cost.total_ns for row in rows if not row.shared or row.line == row.shared[0])
    assert counted_once == whole
    assert len({row.line for row in rows}) == len(rows)


@pytest.mark.parametrize("position", range(8))
def test_an_edited_statement_loses_its_row_and_only_it_does(position: int) -> None:
    lines = [f"v{number} = g({number})" for number in range(8)]
    before = "\n".join(lines) + "\n"
    lines[position] = f"v{position} = h({position})"
    assert moved(before, "\n".join(lines) + "\n") == [(4 + n, 4 + n) for n in range(8) if n != position]


def test_equal_statements_keep_their_order() -> None:
    assert moved("a\na\na\nb\na\n", "a\na\nb\na\n") == [(4, 4), (5, 5), (6, 7), (7, 8)]


SHORT_LISTS = st.lists(st.sampled_from("abcdef"), max_size=12)


def check_match(before: list[str], after: list[str]) -> dict[int, int]:
    pairs = match(before, after)
    assert all(before[one] == after[other] for one, other in pairs.items())
    assert all(0 <= one < len(before) and 0 <= other < len(after) for one, other in pairs.items())
    rising = [pairs[one] for one in sorted(pairs)]
    assert rising == sorted(set(rising))
    return pairs


@given(SHORT_LISTS, SHORT_LISTS)
def test_match_pairs_equal_items_in_their_order(before: list[str], after: list[str]) -> None:
    check_match(before, after)


@given(SHORT_LISTS, st.integers(0, 12), st.integers(0, 12), SHORT_LISTS)
def test_match_keeps_what_is_before_and_after_an_edit(
    before: list[str], start: int, stop: int, put_in: list[str]
) -> None:
    start, stop = min(start, len(before)), max(min(start, len(before)), min(stop, len(before)))
    pairs = check_match(before, [*before[:start], *put_in, *before[stop:]])
    assert len(pairs) >= start + len(before) - stop


def test_match_is_quick_for_long_texts_that_have_nothing_in_common() -> None:
    choose = random.Random(0)
    before = [str(choose.random()) for _ in range(20_000)]
    after = [*before[:50], *(str(choose.random()) for _ in range(20_000)), *before[-50:]]
    assert len(check_match(before, after)) == 100
