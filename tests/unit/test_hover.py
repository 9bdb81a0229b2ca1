"""Views to hovers and reports: what they say, that names are text, and that they stay short."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.core.hover import Now, function_hover, line_hover, plain, report
from profile_neuron.core.model import FunctionView, OperatorCalls, OperatorRow, ShownRow
from tests.unit.constructed import failure, row, view

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
    for text in (line_hover(shown, one, NOW), function_hover(shown, NOW), report(shown, [], NOW)):
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
    lines = report(shown, source, NOW).split("\n")
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
    text = report(view(12 * MS, [*shared, row(6, 6 * MS)]), [(4, "    a"), (5, "    b"), (6, "    c")], NOW)
    lines = [line for line in text.split("\n") if "│" in line]
    # Three times 50 % would not add up.
    assert sum("50 %" in line and "≈" not in line for line in lines) == 1


@pytest.mark.parametrize("code", ["```", "    ````python", "~~~", "x = '`' * 3"])
def test_code_with_fences_does_not_end_the_report(code: str) -> None:
    lines = report(view(12 * MS), [(4, code), (5, "    after")], NOW).split("\n")
    fence = next(line for line in lines if line.endswith("python") and line.startswith("`"))[: -len("python")]
    inside = lines[lines.index(f"{fence}python") + 1 : lines.index(fence)]
    assert [line.split("│ ")[1] for line in inside] == [code, "    after"]
    assert all(not line.lstrip().startswith(fence) for line in inside)


def test_a_report_without_a_result_says_the_state_and_the_reason() -> None:
    text = report(view(None, state="failed", failure=failure("RuntimeError: x|y")), [(4, "a")], NOW)
    assert text == "# f\n\nfailed\n\nRuntimeError: x\\|y\n"


def test_what_a_function_was_called_with_is_in_its_hover_and_report_and_not_at_each_line() -> None:
    made = view(12 * MS, [row(5, 3 * MS)])
    assert made.result is not None
    made = replace(made, result=replace(made.result, signature="x: float32[8, 2], eps=1e-05"))
    assert r"called with x: float32\[8, 2\], eps=1e\-05" in function_hover(made, NOW).split("\n\n")
    assert r"called with x: float32\[8, 2\], eps=1e\-05" in report(made, [(5, "x")], NOW).split("\n\n")
    assert "called with" not in line_hover(made, made.rows[0], NOW)
