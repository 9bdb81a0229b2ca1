"""Views to hints and lenses: the texts of a person's editor, with their lines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.core.model import (
    NO_OPERATORS,
    Activity,
    Failure,
    FunctionView,
    Holder,
    OperatorCalls,
    OperatorRemark,
    ShownRow,
)
from profile_neuron.core.render import (
    HintSettings,
    age,
    failure_title,
    hints,
    lenses,
    operator_count,
    row_text,
    total_text,
)
from tests.unit.constructed import SPEC, beside, failure, row, view

if TYPE_CHECKING:
    from profile_neuron.core.model import BaselineChoice

US, MS, S, HOUR = 1_000, 1_000_000, 1_000_000_000, 3_600_000_000_000
ALL = HintSettings(0.0, 0)


@pytest.mark.parametrize(
    ("device", "shown", "whole_ns", "expected"),
    [
        pytest.param("neuron", row(5, 1_160_000, 3), 2_360_000, "1.16 ms · 49 % · 3 ops", id="normal"),
        pytest.param("neuron", row(5, 420_000, 1), 2_360_000, "420 µs · 18 % · 1 op", id="one operator"),
        pytest.param("cpu", row(5, 12_000, 1), 38_700, "cpu 12.0 µs · 31 % · 1 op", id="cpu"),
        pytest.param("neuron", row(5, 9_400_000, 256), 11_750_000, "9.40 ms · 80 % · 256 ops", id="loop body"),
        pytest.param("neuron", row(5, 800_000, 2, (5, 6)), 2_360_000, "≈800 µs · 34 % · shared", id="shared"),
        pytest.param(
            "cpu", row(5, 800_000, 2, (5, 6)), 2_360_000, "≈cpu 800 µs · 34 % · shared", id="shared on the cpu"
        ),
        pytest.param("cpu", row(5, 1 * US, 1), 1 * S, "cpu 1.00 µs · <1 % · 1 op", id="less than a percent"),
        pytest.param("cpu", row(5, 2 * MS, 2 / 3), 2 * MS, "cpu 2.00 ms · 100 % · 0.67 ops", id="not in every call"),
        pytest.param("cpu", row(5, 2 * MS, 0), 2 * MS, "cpu 2.00 ms · 100 %", id="no listed operator"),
        pytest.param("neuron", row(5, 2_355_000, 2), 2_355_000, "2.36 ms · 100 % · 2 ops", id="half up"),
        pytest.param("neuron", row(5, 999_500, 2), 2_000_000, "1.00 ms · 50 % · 2 ops", id="next unit"),
        pytest.param("neuron", row(5, 5, 2), 1000, "5 ns · 1 % · 2 ops", id="half a percent is one"),
        pytest.param("neuron", row(5, 5, 2), 1001, "5 ns · <1 % · 2 ops", id="less than half a percent"),
    ],
)
def test_a_hint_has_time_share_and_operators(device: str, shown: ShownRow, whole_ns: int, expected: str) -> None:
    (hint,) = hints([view(whole_ns, [shown], device=device)], ALL)
    assert (hint.line, hint.text, hint.row) == (5, expected, shown)


FALLBACK = OperatorRemark("cpu-fallback", "aten::cummin", 1.0, 5_200_000, ("from device", "to device"))


@pytest.mark.parametrize(
    ("costs", "state", "cost", "expected"),
    [
        ({}, "fresh", {"remarks": (FALLBACK,)}, "cpu fallback · 5.20 ms"),
        ({}, "stale", {"remarks": (FALLBACK,)}, "~cpu fallback · 5.20 ms"),
        ({}, "fresh", {"total_ns": 0, "host_ns": 2_100_000}, "host 2.10 ms"),
        ({}, "stale", {"total_ns": 0, "host_ns": 2_100_000}, "~host 2.10 ms"),
        ({"is_lower_bound": True}, "fresh", {"host_ns": 1}, "≥1.16 ms · 49 % · 3 ops"),
        ({"measure": "host", "device_ns": None}, "fresh", {}, "host 1.16 ms · 49 % · 3 ops"),
        ({"measure": "host", "device_ns": None}, "stale", {}, "~host 1.16 ms"),
    ],
)
def test_a_hint_of_a_run_on_neuron_says_what_is_not_device_time(
    costs: dict[str, object], state: str, cost: dict[str, Any], expected: str
) -> None:
    base = row(5, 1_160_000, 3)
    shown = replace(base, cost=replace(base.cost, **cost))
    made = view(2_360_000, [shown], device="neuron", state=state, costs=costs)
    assert [hint.text for hint in hints([made], ALL)] == [expected]


def test_a_line_of_the_host_is_shown_only_where_that_is_worth_a_look() -> None:
    def shown(host_ns: int) -> list[str]:
        base = row(5, 0, 1)
        slow = replace(base, cost=replace(base.cost, host_ns=host_ns))
        return [hint.text for hint in hints([view(2_360_000, [slow], device="neuron")], HintSettings())]

    assert shown(99_999) == []
    assert shown(100_000) == ["host 100 µs"]


def test_a_fallback_is_shown_however_little_it_costs_the_device() -> None:
    base = row(5, 40, 1)
    shown = replace(base, cost=replace(base.cost, remarks=(FALLBACK,)))
    (hint,) = hints([view(2_360_000, [shown], device="neuron")], HintSettings())
    assert hint.text == "cpu fallback · 5.20 ms"


@pytest.mark.parametrize(
    ("device", "shared", "expected"),
    [("neuron", (), "~1.16 ms"), ("cpu", (), "~cpu 1.16 ms"), ("cpu", (5, 6), "~cpu 1.16 ms")],
)
@pytest.mark.parametrize("state", ["stale", "failed", "cancelled"])
def test_a_number_that_is_not_of_todays_code_is_marked_and_has_no_share(
    device: str, shared: tuple[int, ...], expected: str, state: str
) -> None:
    marked = view(2_360_000, [row(5, 1_160_000, 3, shared)], state, device)
    assert [(hint.line, hint.text) for hint in hints([marked], ALL)] == [(5, expected)]
    assert hints([marked], replace(ALL, show_stale=False)) == ()


@pytest.mark.parametrize("device", ["cpu", "neuron"])
@pytest.mark.parametrize("whole_ns", [1, 999, 999_499, 999_500, 59 * S, 99 * HOUR, 999 * HOUR])
@pytest.mark.parametrize("calls", [0.0, 1 / 3, 1.0, 999_999.0, 123_456_789.67])
@pytest.mark.parametrize("shared", [(), (5, 6)])
@pytest.mark.parametrize("state", ["fresh", "stale"])
def test_a_hint_is_never_longer_than_forty_characters(
    device: str, whole_ns: int, calls: float, shared: tuple[int, ...], state: str
) -> None:
    shown = row(5, whole_ns, calls, shared)
    text = row_text(view(whole_ns, [shown], state, device), shown)
    assert 0 < len(text) <= 40


@given(st.integers(1, 10**16), st.integers(1, 10**16), st.integers(0, 10**6))
def test_a_hint_of_any_times_is_short_and_has_one_unit(ns: int, rest: int, calls: int) -> None:
    shown = row(5, ns, float(calls))
    text = row_text(view(ns + rest, [shown]), shown)
    assert len(text) <= 40
    assert sum(f" {unit} " in f"{text} " for unit in ("ns", "µs", "ms", "s")) == 1
    assert " 0 %" not in text


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([1.0], "1 op"),
        ([2.0], "2 ops"),
        ([0.5, 0.5], "1 op"),
        ([0.2] * 5, "1 op"),
        ([0.1] * 10, "1 op"),
        ([0.7, 0.1, 0.2], "1 op"),
        ([1.1, 2.2, 3.3, 0.4], "7 ops"),
        ([2 / 3], "0.67 ops"),
        ([], ""),
    ],
)
def test_averages_of_calls_are_whole_where_they_add_up_to_a_whole(calls: list[float], expected: str) -> None:
    cost = replace(row(5, 1).cost, operators=tuple(OperatorCalls(f"op{n}", count) for n, count in enumerate(calls)))
    assert operator_count(ShownRow(5, cost)) == expected


@pytest.mark.parametrize(
    ("ns", "settings", "is_shown"),
    [
        pytest.param(10_000, HintSettings(), True, id="one percent"),
        pytest.param(9_999, HintSettings(), False, id="just less than one percent"),
        pytest.param(9_999, HintSettings(min_share=0.5), True, id="half a percent is enough"),
        pytest.param(10_000, HintSettings(min_time_ns=10_000), True, id="least time"),
        pytest.param(10_000, HintSettings(min_time_ns=10_001), False, id="just less than the least time"),
        pytest.param(0, ALL, True, id="nothing is too little"),
    ],
)
def test_lines_below_a_threshold_have_no_hint(ns: int, settings: HintSettings, is_shown: bool) -> None:
    assert bool(hints([view(1_000_000, [row(5, ns)])], settings)) == is_shown


def test_of_too_many_lines_the_largest_are_shown_in_the_order_of_lines() -> None:
    rows = [row(line, (line * 7 % 11 + 1) * MS) for line in range(4, 15)]
    found = hints([view(100 * MS, rows)], replace(ALL, max_per_function=3))
    largest = sorted(rows, key=lambda item: -item.cost.total_ns)[:3]
    assert [hint.row for hint in found] == sorted(largest, key=lambda item: item.line)
    assert [hint.line for hint in found] == [6, 9, 14]
    assert [hint.text.split(" · ")[0] for hint in found] == ["cpu 10.0 ms", "cpu 9.00 ms", "cpu 11.0 ms"]


def test_each_function_has_its_own_maximum() -> None:
    first = view(100 * MS, [row(line, MS) for line in range(4, 9)])
    second = replace(
        first,
        spec=replace(SPEC, qualname="g", first_line=12, decorator_line=12, def_line=13, last_line=19),
        rows=tuple(row(line, MS) for line in range(14, 19)),
    )
    found = hints([first, second], replace(ALL, max_per_function=2))
    assert [(hint.line, hint.view) for hint in found] == [(4, first), (5, first), (14, second), (15, second)]


OUTER = view(100 * MS, [row(4, 10 * MS), row(6, 20 * MS), row(7, 30 * MS), row(8, 40 * MS)])
INNER_SPEC = replace(SPEC, qualname="f.<locals>.g", first_line=5, decorator_line=5, def_line=6, last_line=7)
INNER = replace(view(3 * MS, [row(6, 1 * MS), row(7, 2 * MS)]), spec=INNER_SPEC)


def test_a_line_of_two_decorated_functions_has_the_hint_of_the_inner_one_only() -> None:
    found = hints([OUTER, INNER], ALL)
    assert [(hint.line, hint.text, hint.view) for hint in found] == [
        (4, "cpu 10.0 ms · 10 % · 1 op", OUTER),
        (6, "cpu 1.00 ms · 33 % · 1 op", INNER),
        (7, "cpu 2.00 ms · 67 % · 1 op", INNER),
        (8, "cpu 40.0 ms · 40 % · 1 op", OUTER),
    ]


@pytest.mark.parametrize(
    "inner",
    [
        pytest.param(replace(INNER, result=None, rows=(), state="none"), id="no result"),
        pytest.param(
            replace(INNER, inputs_changed=True, rows=(), is_current=False, state="stale"), id="inputs changed"
        ),
    ],
)
def test_lines_of_an_inner_function_without_numbers_have_those_of_the_outer_one(inner: FunctionView) -> None:
    found = hints([OUTER, inner], ALL)
    assert [(hint.line, hint.view) for hint in found] == [(line, OUTER) for line in (4, 6, 7, 8)]


def test_where_old_numbers_are_hidden_those_of_an_inner_function_hide_no_fresh_ones() -> None:
    inner = replace(INNER, state="failed", is_current=False)
    found = hints([OUTER, inner], replace(ALL, show_stale=False))
    assert [(hint.line, hint.view) for hint in found] == [(line, OUTER) for line in (4, 6, 7, 8)]


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(view(None, state="none"), id="no result"),
        pytest.param(view(MS, state="stale", inputs_changed=True), id="inputs changed"),
        pytest.param(view(0, costs={"warnings": (NO_OPERATORS,)}), id="no operators"),
    ],
)
def test_a_function_without_numbers_has_no_hints(shown: FunctionView) -> None:
    assert hints([shown], ALL) == ()


NOW = 1000.0 + 200


def titles(shown: FunctionView, now_s: float = NOW) -> list[tuple[str, str]]:
    found = lenses([shown], now_s)
    assert all((lens.line, lens.qualname, lens.occurrence) == (2, "f", 0) for lens in found)
    return [(lens.title, lens.verb) for lens in found]


AGAIN = ("Profile again", "profileFunction")
OPEN = ("Open in Neuron Explorer", "openInExplorer")


def opened(shown: FunctionView) -> FunctionView:
    """The same view of a result whose run folder is there."""
    assert shown.result is not None
    return replace(shown, result=replace(shown.result, run_folder="/runs/1"))


TIME = 2_355_000


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param(view(None, state="none"), [("Profile on the CPU", "profileFunction")], id="none"),
        pytest.param(
            view(None, state="queued", activity=Activity("", 2)),
            [("Queued (2 ahead)", "showLog"), ("Cancel", "cancel")],
            id="queued",
        ),
        pytest.param(
            view(TIME, state="queued", activity=Activity("", 0)),
            [("Queued", "showLog"), ("Cancel", "cancel")],
            id="queued first",
        ),
        pytest.param(
            view(None, state="running", activity=Activity("r", None)),
            [("Starting…", "showLog"), ("Cancel", "cancel")],
            id="running",
        ),
        pytest.param(
            view(None, state="running", activity=Activity("r", None, "start")),
            [("Starting…", "showLog"), ("Cancel", "cancel")],
            id="starting",
        ),
        pytest.param(
            view(None, state="busy", activity=Activity("r", None, "busy", holders=(Holder(4123, "python", (0, 1)),))),
            [("Device busy (pid 4123, 2 cores), waiting", "showLog"), ("Cancel", "cancel")],
            id="busy",
        ),
        pytest.param(
            view(
                None,
                state="busy",
                activity=Activity(
                    "r", None, "busy", holders=(Holder(7, "", ()), Holder(8, "", (1,)), Holder(9, "", (1,)))
                ),
            ),
            [("Device busy (pid 7 and 2 more, 1 core), waiting", "showLog"), ("Cancel", "cancel")],
            id="busy with several",
        ),
        pytest.param(
            view(None, state="busy", activity=Activity("r", None, "busy")),
            [("Device busy, waiting", "showLog"), ("Cancel", "cancel")],
            id="busy with nobody known",
        ),
        pytest.param(
            view(None, state="running", activity=Activity("r", None, "compile", began_s=NOW - 12.4, last_s=17.6)),
            [("Compiling… 12 s (last: 18 s)", "showLog"), ("Cancel", "cancel")],
            id="compiling",
        ),
        pytest.param(
            view(None, state="running", activity=Activity("r", None, "compile", began_s=NOW + 5)),
            [("Compiling… 0 s", "showLog"), ("Cancel", "cancel")],
            id="compiling by a clock that was set back",
        ),
        pytest.param(
            view(None, state="running", activity=Activity("r", None, "import")),
            [("Importing…", "showLog"), ("Cancel", "cancel")],
            id="importing",
        ),
        pytest.param(
            view(None, state="running", activity=Activity("r", None, "inputs")),
            [("Building inputs…", "showLog"), ("Cancel", "cancel")],
            id="inputs",
        ),
        pytest.param(
            view(None, state="running", activity=Activity("r", None, "capture", 2, 5)),
            [("Profiling… 3/5", "showLog"), ("Cancel", "cancel")],
            id="third call",
        ),
        pytest.param(
            view(None, state="running", activity=Activity("r", None, "capture", 5, 5)),
            [("Profiling… 5/5", "showLog"), ("Cancel", "cancel")],
            id="all calls done",
        ),
        pytest.param(
            view(None, state="running", activity=Activity("r", None, "attribute", 0, 0)),
            [("Profiling…", "showLog"), ("Cancel", "cancel")],
            id="attribution",
        ),
        pytest.param(view(36_200), [("cpu 36.2 µs", "showReport"), ("Re-profile", "profileFunction")], id="fresh"),
        pytest.param(
            view(TIME, device="neuron"),
            [("2.36 ms device", "showReport"), ("Re-profile", "profileFunction")],
            id="fresh on Neuron",
        ),
        pytest.param(
            opened(view(TIME, device="neuron")),
            [("2.36 ms device", "showReport"), OPEN, ("Re-profile", "profileFunction")],
            id="fresh with a capture",
        ),
        pytest.param(
            opened(view(TIME, state="stale", device="neuron")),
            [("2.36 ms (older, 3 min ago)", "showReport"), OPEN, AGAIN],
            id="stale with a capture",
        ),
        pytest.param(
            opened(view(TIME, state="cancelled", device="neuron")),
            [("Cancelled (last: 2.36 ms)", "showReport"), AGAIN],
            id="cancelled with a capture",
        ),
        pytest.param(
            opened(view(36_200)),
            [("cpu 36.2 µs", "showReport"), ("Re-profile", "profileFunction")],
            id="a folder of the cpu",
        ),
        pytest.param(
            view(TIME, device="neuron", costs={"is_lower_bound": True}),
            [("≥2.36 ms device", "showReport"), ("Re-profile", "profileFunction")],
            id="events were dropped",
        ),
        pytest.param(
            view(TIME, device="neuron", costs={"may_include_queueing": True}),
            [("2.36 ms device, may include queueing", "showReport"), ("Re-profile", "profileFunction")],
            id="driver events",
        ),
        pytest.param(
            view(TIME, device="neuron", costs={"device_ns": None, "measure": "host"}),
            [("device time unknown", "showReport"), ("Re-profile", "profileFunction")],
            id="device time unknown",
        ),
        pytest.param(
            view(TIME, state="stale", device="neuron", costs={"device_ns": None, "measure": "host"}),
            [("device time unknown (older, 3 min ago)", "showReport"), AGAIN],
            id="device time unknown and stale",
        ),
        pytest.param(
            view(None, state="none", device_kind="neuron"),
            [("Profile on Neuron", "profileFunction")],
            id="none on Neuron",
        ),
        pytest.param(
            view(0, costs={"warnings": ("a", NO_OPERATORS)}),
            [("no operators ran", "showReport"), ("Re-profile", "profileFunction")],
            id="no operators",
        ),
        pytest.param(
            view(TIME, state="stale", device="neuron", reasons=("edited since", "g changed")),
            [("2.36 ms (edited since, 3 min ago)", "showReport"), AGAIN],
            id="stale",
        ),
        pytest.param(
            view(TIME, state="stale", reasons=("signature, decorator or inputs changed",), inputs_changed=True),
            [("cpu 2.36 ms (inputs changed, 3 min ago)", "showReport"), AGAIN],
            id="inputs changed",
        ),
        pytest.param(
            view(None, state="failed", failure=failure("RuntimeError: no", 41), failure_line=41),
            [
                ("Profile failed: RuntimeError, line 41", "goToFailure"),
                ("Show log", "showLog"),
                ("Retry", "profileFunction"),
            ],
            id="failed",
        ),
        pytest.param(
            view(TIME, state="failed", failure=failure("timeout: 120 s passed"), failure_line=None),
            [("Profile failed: timeout", "goToFailure"), ("Show log", "showLog"), ("Retry", "profileFunction")],
            id="failed at no line",
        ),
        pytest.param(
            view(None, state="noInputs", failure=failure("f needs the argument x; add a function")),
            [("No inputs for this function", "goToFailure"), ("Add inputs…", "addInputs")],
            id="no inputs",
        ),
        pytest.param(
            view(None, state="cancelled", failure=failure("cancelled")),
            [("Cancelled", "showLog"), AGAIN],
            id="cancelled",
        ),
        pytest.param(
            view(TIME, state="cancelled", failure=failure("cancelled")),
            [("Cancelled (last: cpu 2.36 ms)", "showReport"), AGAIN],
            id="cancelled with a result",
        ),
        pytest.param(
            view(None, state="untrusted"), [("Trust this workspace to profile", "profileFunction")], id="untrusted"
        ),
        pytest.param(
            view(TIME, state="untrusted", is_current=True),
            [("Trust this workspace to profile", "profileFunction"), ("cpu 2.36 ms", "showReport")],
            id="untrusted with a result",
        ),
    ],
)
def test_lenses_say_the_state_and_what_can_be_done(shown: FunctionView, expected: list[tuple[str, str]]) -> None:
    assert titles(shown) == expected


STATES = ["none", "queued", "running", "fresh", "stale", "failed", "cancelled", "untrusted", "noInputs"]


def checked_titles(shown: FunctionView) -> None:
    found = titles(shown)
    assert len(found) <= 3
    for title, _ in found:
        assert title.strip() == title != ""
        assert title.isprintable(), title
        assert len(title) <= 80


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("ns", [None, 0, TIME, 99 * HOUR])
@pytest.mark.parametrize("line", [None, 100_000])
def test_there_are_at_most_three_lenses_and_each_says_something_on_one_short_line(
    state: str, ns: int | None, line: int | None
) -> None:
    if ns is None and state in ("fresh", "stale"):
        return  # Such a view has a result.
    activity = Activity("r", 1) if state == "queued" else Activity("r", None) if state == "running" else None
    checked_titles(view(ns, state=state, activity=activity, failure=failure("RuntimeError: no"), failure_line=line))


@pytest.mark.parametrize(
    "reason",
    [
        pytest.param("the worker ended: signal 9 " * 9, id="long"),
        pytest.param("first line of a sentence\nsecond line", id="two lines"),
        pytest.param("Error\nsecond line: more", id="two lines without a space"),
        pytest.param("x" * 300, id="one long word"),
        pytest.param(":", id="colon"),
    ],
)
def test_the_lens_of_a_failure_is_one_short_line_whatever_the_reason(reason: str) -> None:
    checked_titles(view(None, state="failed", failure=failure(reason), failure_line=7))


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("RuntimeError: size mismatch", "RuntimeError"),
        ("torch.cuda.OutOfMemoryError: no", "OutOfMemoryError"),
        ("not-runnable: the class cannot be reached", "not-runnable"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("the agent ended early", "the agent ended early"),
        ("the agent ended early: it was killed by the system", "the agent ended early: it was killed by…"),
        ("Error.: x", "Error."),
    ],
)
def test_a_failure_is_named_by_its_exception_or_its_first_words(reason: str, expected: str) -> None:
    assert failure_title(reason) == expected


def test_a_failure_without_a_reason_has_a_title_without_a_dangling_colon() -> None:
    (title, _), *_ = titles(view(None, state="failed", failure=Failure("")))
    assert not title.rstrip().endswith(":")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "just now"),
        (59.9, "just now"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (3600, "1 h ago"),
        (86399, "23 h ago"),
        (86400, "1 day ago"),
        (2 * 86400 - 1, "1 day ago"),
        (400 * 86400, "400 days ago"),
        (-0.2, "just now"),
        (-7200, "just now"),
    ],
)
def test_an_age_is_said_in_its_largest_unit_and_is_never_negative(seconds: float, expected: str) -> None:
    # A clock may be set back, and a result may come from a machine whose clock is ahead.
    assert age(seconds) == expected


def test_a_total_is_that_of_the_device_where_one_was_measured() -> None:
    assert total_text(view(TIME, device="neuron", costs={"host_ns": 9 * S}).result) == "2.36 ms"  # type: ignore[arg-type]
    assert total_text(view(TIME).result) == "cpu 2.36 ms"  # type: ignore[arg-type]


def test_lenses_are_on_the_line_of_our_decorator_in_source_order() -> None:
    second = replace(view(None, state="none"), occurrence=1, spec=replace(SPEC, decorator_line=1, def_line=4))
    assert [(lens.line, lens.occurrence) for lens in lenses([view(TIME), second], NOW)] == [(2, 0), (2, 0), (1, 1)]


DELTAS = [
    pytest.param(1_160_000, (1_035_714, 0.02), "cpu 1.16 ms · 49 % · 1 op ▲12 %", id="slower"),
    pytest.param(420_000, (608_696, 0.02), "cpu 420 µs · 18 % · 1 op ▼31 %", id="faster"),
    pytest.param(38_000, None, "cpu 38.0 µs · 2 % · 1 op new", id="new"),
    pytest.param(1_160_000, (1_130_000, 0.0), "cpu 1.16 ms · 49 % · 1 op", id="less than 3 percent"),
    pytest.param(1_160_000, (1_035_714, 0.13), "cpu 1.16 ms · 49 % · 1 op", id="noise"),
    pytest.param(1_160_000, (1_035_714, None), "cpu 1.16 ms · 49 % · 1 op", id="noise that is not known"),
    pytest.param(11_000, (6_500, 0.0), "cpu 11.0 µs · <1 % · 1 op", id="less than 5 µs"),
    pytest.param(11_000, (5_500, 0.0), "cpu 11.0 µs · <1 % · 1 op ▲100 %", id="twice"),
    pytest.param(1_000, (9_000_000, 0.0), "cpu 1.00 µs · <1 % · 1 op ▼99 %", id="nearly nothing left"),
    pytest.param(103_000, (100_000, 0.0), "cpu 103 µs · 4 % · 1 op", id="three percent but little"),
    pytest.param(206_000, (200_000, 0.0), "cpu 206 µs · 9 % · 1 op ▲3 %", id="three percent"),
    pytest.param(1_160_000, (0, None), "cpu 1.16 ms · 49 % · 1 op", id="nothing before"),
]


@pytest.mark.parametrize(("ns", "then", "expected"), DELTAS)
def test_a_hint_ends_with_what_became_of_its_time(ns: int, then: tuple[int, float] | None, expected: str) -> None:
    made = beside(view(2_360_000, [row(5, ns)]), 2_000_000, {5: then})
    assert [hint.text for hint in hints([made], ALL)] == [expected]
    without = expected.split(" op")[0] + " op"
    assert [hint.text for hint in hints([made], replace(ALL, show_delta=False))] == [without]


def test_a_row_that_was_not_compared_has_no_delta() -> None:
    shown = view(2_360_000, [row(5, MS), row(6, MS, shared=(6, 7))])
    assert [hint.text for hint in hints([beside(shown, 2_000_000, {6: (100_000, 0.0)})], ALL)] == [
        "cpu 1.00 ms · 42 % · 1 op",
        "≈cpu 1.00 ms · 42 % · shared",
    ]


def test_old_numbers_have_no_delta() -> None:
    made = beside(view(2_360_000, [row(5, MS)]), 1_000_000, {5: (100_000, 0.0)})
    stale = replace(made, state="stale", is_current=False, reasons=("edited since",))
    assert [hint.text for hint in hints([stale], ALL)] == ["~cpu 1.00 ms"]
    assert "▲" not in lenses([stale], 1000.0)[0].title


def test_a_delta_that_does_not_fit_is_left_out() -> None:
    made = beside(view(2 * MS, [row(5, 2 * MS, 123_456_789.67)]), MS, {5: (MS, 0.0)})
    (hint,) = hints([made], ALL)
    assert hint.text == "cpu 2.00 ms · 100 % · 123456789.67 ops"
    fits = beside(view(2 * MS, [row(5, 2 * MS, 1_234_567)]), MS, {5: (MS, 0.0)})
    assert hints([fits], ALL)[0].text == "cpu 2.00 ms · 100 % · 1234567 ops ▲100 %"
    assert len(hints([fits], ALL)[0].text) == 40


@pytest.mark.parametrize(
    ("previous_ns", "choice", "noise", "expected"),
    [
        (39_348, "previous", 0.01, "cpu 36.2 µs"),
        (41_200, "previous", 0.01, "cpu 36.2 µs · ▼12 % vs previous"),
        (30_000, "pinned", 0.01, "cpu 36.2 µs · ▲21 % vs pinned"),
        (30_000, "pinned", 0.3, "cpu 36.2 µs"),
        (None, "previous", 0.0, "cpu 36.2 µs"),
    ],
)
def test_a_lens_says_what_became_of_the_whole(
    previous_ns: int | None, choice: BaselineChoice, noise: float, expected: str
) -> None:
    made = beside(view(36_200), previous_ns, choice=choice, noise=noise)
    assert [lens.title for lens in lenses([made], 1000.0)] == [expected, "Re-profile"]
