"""Views to hovers and reports: what they say, that names are text, and that they stay short."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.core.hover import Now, function_hover, line_hover, moment, plain
from profile_neuron.core.model import FunctionView, OperatorCalls, OperatorRow, RemovedRow, ShownRow
from profile_neuron.core.report import markdown_report
from tests.unit.constructed import beside, even_change, failure, row, view

MS = 1_000_000
NOW = Now(1000.0 + 200, 3600)
HOSTILE = "a`b|c[d](e)<f>*g*_h_\n# i\n\n![j](http://k)\n```\n$(l) \\m ~~n~~"
ENTITY = "a&lt;b&#35;c"
OPERATORS = tuple(OperatorRow(f"aten::op{number}", 2.0, 1000 * (9 - number), None) for number in range(8))


def test_the_hover_of_a_line_says_its_time_what_of_it_is_its_own_and_what_ran() -> None:
    shown = row(5, 3 * MS, 2, self_ns=1 * MS)
    assert line_hover(view(12 * MS, [shown], costs={"spread_ns": 120_000}), shown, NOW).split("\n\n") == [
        "**cpu 3.00 ms** · 25 % of f · 2 ops",
        "this line 1.00 ms, called functions 2.00 ms",
        "aten::add ×2",
        r"fresh · 01:16:40 · cpu \(x\) · inputs: none needed · 5 runs ±1.0 %",
    ]


def test_the_hover_of_a_figure_that_lines_share_names_the_lines() -> None:
    shown = row(5, 3 * MS, 1, (5, 6))
    assert "measured together for lines 5, 6, counted once" in line_hover(view(12 * MS, [shown]), shown, NOW)


def test_the_hover_of_old_numbers_says_that_they_are_old_and_why() -> None:
    shown = row(5, 3 * MS)
    text = line_hover(view(12 * MS, [shown], "stale", reasons=("edited since", "g changed")), shown, NOW)
    assert text.split("\n\n")[-1].startswith("stale · 01:16:40 · 3 min ago · edited since · g changed · ")


def test_the_hover_of_a_function_has_state_totals_top_operators_notes_and_provenance() -> None:
    shown = view(
        12 * MS,
        costs={
            "operators": OPERATORS,
            "unattributed_ns": 2 * MS,
            "warnings": ("one", "two", "three", "four"),
            "calls": 10,
        },
    )
    assert function_hover(shown, NOW).split("\n\n") == [
        r"fresh · 01:16:40 · cpu \(x\) · inputs: none needed · 5 runs",
        "**cpu 12.0 ms** per call · 2.00 ms unattributed · entered 10 times in 5 calls",
        "\n".join(
            [
                "| operator | calls | self | device |",
                "|:--|--:|--:|--:|",
                *(f"| aten::op{number} | 2 | {9 - number}.00 µs | – |" for number in range(5)),
            ]
        ),
        "note: one",
        "note: two",
        "note: three",
        "made up",
    ]


def test_the_hover_of_a_failure_says_the_reason() -> None:
    text = function_hover(view(None, state="failed", failure=failure("RuntimeError: no")), NOW)
    assert text.split("\n\n") == ["failed", "RuntimeError: no"]


def test_a_run_without_operators_shows_no_time() -> None:
    text = function_hover(view(0, costs={"warnings": ("no operators ran",)}), NOW)
    assert "no operators ran" in text
    assert "0 ns" not in text
    assert "no operators ran** per call" not in text


def hostile_view(lines: int = 30) -> tuple[FunctionView, ShownRow]:
    operators = tuple(replace(item, name=HOSTILE) for item in OPERATORS)
    base = row(5, 3 * MS, 1, tuple(range(5, 5 + lines)), self_ns=1)
    shown = replace(base, cost=replace(base.cost, operators=tuple(OperatorCalls(HOSTILE, 2.0) for _ in range(20))))
    made = view(
        12 * MS,
        [shown],
        "failed",
        failure=failure(HOSTILE),
        reasons=(HOSTILE,) * 5,
        costs={
            "operators": operators,
            "warnings": (HOSTILE,) * 30,
            "provenance": HOSTILE,
            "unattributed_ns": 1,
            "calls": 10,
            "name": HOSTILE,
        },
    )
    assert made.result is not None
    return replace(made, result=replace(made.result, inputs=HOSTILE, device_name=HOSTILE)), shown


# What of a text a reader of Markdown would take for more than text: not behind a backslash.
MARKUP = re.compile(r"(?<!\\)(?:\\\\)*[`*_\[\]<>#!~|]")


def test_hovers_are_short_whatever_the_names() -> None:
    shown, one = hostile_view()
    for text in (line_hover(shown, one, NOW), function_hover(shown, NOW)):
        assert len(text.split("\n")) < 25


def test_names_of_the_user_are_text_in_every_place() -> None:
    shown, one = hostile_view()
    escaped = r"a\`b\|c\[d\]\(e\)\<f\>\*g\*\_h\_ \# i \!\[j\]\(http://k\) \`\`\` $\(l\) \\m \~\~n\~\~"
    for text in (line_hover(shown, one, NOW), function_hover(shown, NOW), markdown_report(shown, [], NOW)):
        assert escaped in text
        # Without them nothing is left that could be markup but what we wrote.
        ours = text.replace(escaped, "").replace(" <1 %", "")
        left = [match.group() for match in MARKUP.finditer(ours)]
        assert set(left) <= {"*", "|", "#", "`"}, ours


def test_an_entity_in_a_name_is_not_decoded() -> None:
    shown = view(12 * MS, [row(5, 3 * MS)], costs={"name": ENTITY})
    text = line_hover(shown, shown.rows[0], NOW)
    assert re.search(r"(?<!\\)&(?!amp;)", text) is None, text
    assert "a&lt;b&#35;c" in plain(text)


def test_a_row_of_the_table_stays_one_row() -> None:
    shown, _ = hostile_view()
    rows = [line for line in function_hover(shown, NOW).split("\n") if line.startswith("|")]
    assert len(rows) == 7
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {5}


@given(st.text(max_size=40))
def test_plain_text_of_a_hover_has_the_name_as_it_is_but_for_white_space(name: str) -> None:
    shown = view(12 * MS, [row(5, 3 * MS)], costs={"name": name})
    text = plain(line_hover(shown, shown.rows[0], NOW))
    assert f"25 % of {' '.join(name.split()) or 'f'} · 1 op" in text or not name.split()


def test_a_report_has_the_source_with_its_times_and_the_rest() -> None:
    shown = view(
        12 * MS, [row(3, 1 * MS), row(5, 3 * MS)], costs={"unattributed_ns": 2 * MS, "operators": OPERATORS[:1]}
    )
    source = [(3, "def f(x):"), (4, "    # why"), (5, "    return x"), (6, "")]
    lines = markdown_report(shown, source, NOW).split("\n")
    start = lines.index("```python")
    assert lines[start + 1 : start + 7] == [
        "    3   1.00 ms   8 % │ def f(x):",
        "    4                 │     # why",
        "    5   3.00 ms  25 % │     return x",
        "    6                 │",
        "        2.00 ms  17 % │ unattributed",
        "```",
    ]
    assert lines[0] == "# f"


def test_a_report_marks_a_figure_that_lines_share_and_counts_it_once() -> None:
    shared = [row(4, 6 * MS, shared=(4, 5)), row(5, 6 * MS, shared=(4, 5))]
    text = markdown_report(view(12 * MS, [*shared, row(6, 6 * MS)]), [(4, "    a"), (5, "    b"), (6, "    c")], NOW)
    lines = [line for line in text.split("\n") if "│" in line]
    # Three times 50 % would not add up.
    assert sum("50 %" in line and "≈" not in line for line in lines) == 1


@pytest.mark.parametrize("code", ["```", "    ````python", "~~~", "x = '`' * 3"])
def test_code_with_fences_does_not_end_the_report(code: str) -> None:
    lines = markdown_report(view(12 * MS), [(4, code), (5, "    after")], NOW).split("\n")
    fence = next(line for line in lines if line.endswith("python") and line.startswith("`"))[: -len("python")]
    inside = lines[lines.index(f"{fence}python") + 1 : lines.index(fence)]
    assert [line.split("│ ")[1] for line in inside] == [code, "    after"]
    assert all(not line.lstrip().startswith(fence) for line in inside)


def test_a_report_without_a_result_says_the_state_and_the_reason() -> None:
    text = markdown_report(view(None, state="failed", failure=failure("RuntimeError: x|y")), [(4, "a")], NOW)
    assert text == "# f\n\nfailed\n\nRuntimeError: x\\|y\n"


def test_a_hover_says_what_a_time_was_when_and_how_much_of_the_difference_is_noise() -> None:
    shown = beside(view(12 * MS, [row(5, 3 * MS)]), 13 * MS, {5: (2 * MS, 0.021)}, noise=0.04)
    line = line_hover(shown, shown.rows[0], NOW)
    assert plain(line).split("\n\n")[2] == "previous 2.00 ms at 01:15:00, ▲50 % (noise ±2.1 %)"
    assert "at 01:15:00, ▲50 %" in line
    function = plain(function_hover(shown, NOW)).split("\n\n")
    assert function[2] == "previous 13.0 ms at 01:15:00, ▼8 % (noise ±4.0 %)"


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        pytest.param((2_950_000, 0.01), "pinned 2.95 ms at 01:15:00, within noise ±3.0 %", id="too little"),
        pytest.param((2 * MS, 0.6), "pinned 2.00 ms at 01:15:00, within noise ±60 %", id="noise"),
        pytest.param(
            (2 * MS, None),
            "pinned 2.00 ms at 01:15:00, noise unknown without several calls that all ran it",
            id="one call",
        ),
        pytest.param((0, None), "pinned ran no operator at 01:15:00", id="no operator"),
        pytest.param(None, "new since the pinned result at 01:15:00", id="new"),
    ],
)
def test_the_hover_of_a_line_says_why_it_has_no_delta(then: tuple[int, float | None] | None, expected: str) -> None:
    shown = beside(view(12 * MS, [row(5, 3 * MS)]), 13 * MS, {5: then}, "pinned")
    assert plain(line_hover(shown, shown.rows[0], NOW)).split("\n\n")[2] == expected


@pytest.mark.parametrize(
    ("fastest", "expected"),
    [
        pytest.param((1_900_000, 2_850_000), "▲50 % (noise ±10 %)", id="the averages say the same"),
        pytest.param((2_000_000, 2_500_000), "▲25 % by the fastest calls (noise ±10 %)", id="they say more"),
        pytest.param((2_000_000, 1_000_000), "▼50 % by the fastest calls (noise ±10 %)", id="they say the opposite"),
        pytest.param((2_000_000, 2_010_000), "within noise ±10 % by the fastest calls", id="they alone say something"),
    ],
)
def test_a_hover_says_where_the_fastest_calls_say_something_else_than_the_averages(
    fastest: tuple[int, int], expected: str
) -> None:
    shown = beside(view(12 * MS, [row(5, 3 * MS)]), 13 * MS, {5: (2 * MS, 0.1)})
    assert shown.comparison is not None
    change = replace(even_change(2 * MS, 3 * MS, 0.1), previous_fastest_ns=fastest[0], fastest_ns=fastest[1])
    (only,) = shown.comparison.rows
    shown = replace(shown, comparison=replace(shown.comparison, rows=(replace(only, change=change),)))
    assert plain(line_hover(shown, shown.rows[0], NOW)).split("\n\n")[2] == f"previous 2.00 ms at 01:15:00, {expected}"


def test_a_short_time_is_within_noise_by_5_microseconds() -> None:
    shown = beside(view(12 * MS, [row(5, 14_000)]), 13 * MS, {5: (10_000, 0.0)})
    assert "previous 10.0 µs at 01:15:00, within noise ±50 %" in plain(line_hover(shown, shown.rows[0], NOW))


def test_the_hover_of_an_edited_line_says_what_it_was() -> None:
    shown = beside(view(12 * MS, [row(5, 3 * MS)]), 13 * MS, {5: (2 * MS, 0.0)}, was={5: "y = x * *2"})
    assert plain(line_hover(shown, shown.rows[0], NOW)).split("\n\n")[3] == "was: y = x * *2"


def test_without_a_baseline_both_hovers_say_so() -> None:
    shown = beside(view(12 * MS, [row(5, 3 * MS)]), None)
    assert "\n\nno earlier result of other code\n\n" in line_hover(shown, shown.rows[0], NOW)
    assert "\n\nno earlier result of other code\n\n" in function_hover(shown, NOW)


def test_the_date_is_said_where_it_is_not_todays() -> None:
    today = 1_795_900_000.0
    assert moment(today, Now(today, 0)) == "at 21:06:40"
    assert moment(today, Now(today + 86_400, 0)) == "on 2026-11-28 at 21:06:40"
    assert moment(today, Now(today + 3600 * 3, 3600 * 3)) == "at 00:06:40", "in the person's own zone"


def test_a_report_has_deltas_the_total_and_what_was_removed() -> None:
    shown = view(12 * MS, [row(3, 1 * MS), row(5, 3 * MS)], costs={"unattributed_ns": 2 * MS})
    compared = beside(
        shown, 13 * MS, {3: (1 * MS, 0.0), 5: (2 * MS, 0.0)}, removed=[RemovedRow("y = x | 2", 4 * MS)], noise=0.0
    )
    lines = markdown_report(compared, [(3, "def f(x):"), (4, "    # why"), (5, "    return x")], NOW).split("\n")
    start = lines.index("```python")
    assert lines[start + 1 : start + 5] == [
        "    3   1.00 ms   8 %         │ def f(x):",
        "    4                         │     # why",
        "    5   3.00 ms  25 %   ▲50 % │     return x",
        "        2.00 ms  17 %         │ unattributed",
    ]
    start = lines.index("## Comparison")
    assert lines[start + 2] == r"previous 13.0 ms at 01:15:00, ▼8 % \(noise ±0.0 %\)"
    assert lines[start + 4 : start + 8] == ["| removed line | time |", "|:--|--:|", r"| y = x \| 2 | 4.00 ms |", ""]


def test_what_a_function_was_called_with_is_in_its_hover_and_report_and_not_at_each_line() -> None:
    made = view(12 * MS, [row(5, 3 * MS)])
    assert made.result is not None
    made = replace(made, result=replace(made.result, signature="x: float32[8, 2], eps=1e-05"))
    assert r"called with x: float32\[8, 2\], eps=1e\-05" in function_hover(made, NOW).split("\n\n")
    assert r"called with x: float32\[8, 2\], eps=1e\-05" in markdown_report(made, [(5, "x")], NOW).split("\n\n")
    assert "called with" not in line_hover(made, made.rows[0], NOW)


def test_how_the_worker_came_to_the_module_is_in_hover_and_report() -> None:
    made = view(12 * MS, [row(5, 3 * MS)])
    assert made.result is not None
    made = replace(made, result=replace(made.result, loading="only f was replaced, the module stayed"))
    assert function_hover(made, NOW).split("\n\n")[-1] == "only f was replaced, the module stayed"
    assert "- only f was replaced, the module stayed" in markdown_report(made, [(5, "x")], NOW).split("\n")
    assert "replaced" not in line_hover(made, made.rows[0], NOW)
