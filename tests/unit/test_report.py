"""A function with all of its lines, as an editor draws it; the document of the same is in test_hover.py."""

from __future__ import annotations

from dataclasses import replace

from profile_neuron.core.hover import Now
from profile_neuron.core.model import OperatorRow, RemovedRow
from profile_neuron.core.report import ReportOperator, ReportRow, report
from tests.unit.constructed import beside, failure, row, view

MS = 1_000_000
NOW = Now(1_700_000_100.0)
SOURCE = [(2, "@profile_neuron"), (3, "def f(x):"), (4, ""), (5, "    y = x + 1"), (6, "    return y")]


def test_every_line_is_there_with_what_was_measured_of_it() -> None:
    shown = view(8 * MS, [row(5, 6 * MS, 3), row(6, 2 * MS)], finished_s=1_700_000_000.0)
    found = report(shown, SOURCE, NOW)
    assert (found.title, found.is_stale, found.measure) == ("f", False, "cpu")
    assert found.rows == (
        ReportRow(2, "@profile_neuron"),
        ReportRow(3, "def f(x):"),
        ReportRow(4, ""),
        ReportRow(5, "    y = x + 1", "6.00 ms", "75 %", 0.75, "aten::add ×3", ""),
        ReportRow(6, "    return y", "2.00 ms", "25 %", 0.25, "aten::add", ""),
    )
    assert found.summary == (
        "fresh · 22:13:20 · cpu (x) · inputs: none needed · 5 runs",
        "cpu 8.00 ms per call",
        "made up",
    )
    assert found.notes == ()


def test_times_of_a_device_say_so() -> None:
    assert report(view(8 * MS, [], device="neuron"), SOURCE, NOW).measure == "neuron"
    unknown = view(8 * MS, [], device="neuron", costs={"measure": "host", "device_ns": None})
    assert report(unknown, SOURCE, NOW).measure == "cpu"


def test_a_figure_that_lines_share_stands_at_each_and_counts_once() -> None:
    shown = view(8 * MS, [row(5, 6 * MS, 1, (5, 6)), row(6, 6 * MS, 1, (5, 6))])
    found = report(shown, SOURCE, NOW)
    assert [(one.time, one.share, one.part) for one in found.rows[3:]] == [("≈6.00 ms", "", 0.75)] * 2
    assert found.notes == ("lines 5, 6 were measured together, and count once",)


def test_what_is_of_no_line_is_noted_and_operators_of_the_whole_are_told() -> None:
    operators = (OperatorRow("aten::mm", 3.0, 5 * MS, None), OperatorRow("aten::*_", 1.0, 1 * MS, 2 * MS))
    costs = {"unattributed_ns": 2 * MS, "operators": operators, "warnings": ("a warning",)}
    shown = beside(
        view(8 * MS, [row(5, 6 * MS)], costs=costs), 4 * MS, {5: (2 * MS, 0.01)}, removed=[RemovedRow("z = 0", MS)]
    )
    found = report(shown, SOURCE, NOW)
    assert found.rows[3].delta == "▲200 %"
    assert found.notes == (
        "2.00 ms (25 %) belong to no line",
        "removed since: z = 0, 1.00 ms",
        "a warning",
    )
    assert found.operators == (
        ReportOperator("aten::mm", "3", "5.00 ms"),
        ReportOperator("aten::*_", "1", "1.00 ms", "2.00 ms"),
    )


def test_numbers_of_another_code_are_stale() -> None:
    assert report(view(8 * MS, [row(5, 6 * MS)], "stale", reasons=("f changed",)), SOURCE, NOW).is_stale


def test_without_a_result_there_are_the_lines_the_state_and_the_reason() -> None:
    found = report(view(None, [], "failed", failure=failure("ValueError: a*b")), SOURCE, NOW)
    assert found.summary == ("failed", "ValueError: a*b")
    assert found.rows == tuple(ReportRow(line, text) for line, text in SOURCE)
    assert (found.is_stale, found.notes) == (False, ())


def test_names_are_told_as_they_are() -> None:
    shown = view(8 * MS, [], costs={"name": "a*b`<c>_d"})
    assert report(shown, [], NOW).title == "a*b`<c>_d"


def test_a_line_without_a_whole_has_no_part() -> None:
    shown = view(0, [row(5, 0)])
    assert report(replace(shown), SOURCE, NOW).rows[3].part == 0.0
