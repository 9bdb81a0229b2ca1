"""Constructed events to costs; every number here was worked out by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profile_neuron.core.attribution import attribute
from profile_neuron.core.model import (
    NO_OPERATORS,
    CodeEntries,
    Event,
    ExecutedFile,
    Failure,
    FunctionCosts,
    LineCosts,
    LineLog,
    OperatorCalls,
    RunLine,
    RunRecord,
    SourceFile,
    Toolchain,
    Trace,
)
from profile_neuron.core.tally import BACKWARD_REASON, TASK_REASON, THREAD_REASON
from profile_neuron.errors import CaptureError

SOURCE = """\
from profile_neuron import profile_neuron
def helper(x):
    return x * 2
@profile_neuron
def f(x):
    y = x + 1
    z = helper(y)
    def inner(t):
        return t - 1
    return inner(z)
@profile_neuron
def g(x):
    return x
"""
# Numbers of line ranges: the position of a line in LINES.
CODES = (
    CodeEntries(0, 4, "f", 2),
    CodeEntries(0, 2, "helper", 6),
    CodeEntries(0, 8, "inner", 2),
    CodeEntries(0, 11, "g", 1),
)
LINES = (
    RunLine(0, 6),  # 0: f, y = x + 1
    RunLine(0, 7),  # 1: f, z = helper(y)
    RunLine(1, 3),  # 2: helper, return
    RunLine(2, 9),  # 3: inner, return
    RunLine(0, 10),  # 4: f, return inner(z)
    RunLine(3, 13),  # 5: g, return
)
LOG = LineLog((SourceFile("/p/m.py", SOURCE),), CODES, LINES, earlier_threads=(1, 7))
RECORD = RunRecord(
    run_id="r",
    path="/p/m.py",
    qualname="f",
    name=None,
    def_line=5,
    first_line=4,
    decorator_modules=("profile_neuron",),
    compiled=False,
    is_async=False,
    warmup=3,
    repeats=1,
    inputs="none needed",
    toolchain=Toolchain("3.11", "/py", "/lib", "2.13.0", "cpu", "cpu (x)", "settrace"),
    modules=(ExecutedFile("/p/helper.py", "00"),),
    failure=None,
    warnings=(),
)


class Timeline:
    """Builds events in order; what is opened inside of something else ends inside of it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._now = {1: 0}
        self._call_start = 0

    def range(self, name: str, *inner: object, thread: int = 1, own_ns: int = 0) -> Event:
        """An event with others inside; each inner one is a function that appends it."""
        start = self._now[thread] = max(self._now.get(thread, 0), self._call_start)
        position = len(self.events)
        self.events.append(Event("", 0, 0, 0, 0))
        self._now[thread] += own_ns
        for make in inner:
            make()  # type: ignore[operator]
        if not name.startswith("pn."):
            self._now[thread] += 1
        event = Event(name, thread, start, self._now[thread], position)
        self.events[position] = event
        return event

    def op(self, name: str, ns: int, *inner: object, thread: int = 1):
        """An operator with a self time of ns."""
        return lambda: self.range(name, *inner, thread=thread, own_ns=ns - 1)

    def line(self, number: int, *inner: object, thread: int = 1):
        return lambda: self.range(f"pn.line:{number}", *inner, thread=thread)

    def call(self, number: int, *inner: object) -> None:
        self._call_start = self._now[1]
        self.range(f"pn.call:{number}", *inner)


def costs(timeline: Timeline, record: RunRecord = RECORD, log: LineLog = LOG) -> LineCosts:
    return attribute(record, Trace(tuple(timeline.events), "operator table", ()), log)


def totals(function: FunctionCosts) -> dict[int, int]:
    return {line.line: line.total_ns for line in function.lines}


def selves(function: FunctionCosts) -> dict[int, int]:
    return {line.line: line.self_ns for line in function.lines}


def listed(function: FunctionCosts) -> dict[int, list[tuple[str, float]]]:
    return {line.line: [(item.name, item.calls) for item in line.operators] for line in function.lines}


def function(result: LineCosts, qualname: str) -> FunctionCosts:
    return next(item for item in result.functions if item.qualname == qualname)


def test_a_helpers_time_is_on_the_calling_line_and_on_its_own() -> None:
    t = Timeline()
    t.call(0, t.line(0, t.op("aten::add", 100)), t.line(1, t.line(2, t.op("aten::mul", 50))))
    result = costs(t)
    f, helper = result.functions
    assert (f.qualname, f.decorated, f.host_ns, f.device_ns) == ("f", True, 150, None)
    assert totals(f) == {6: 100, 7: 50}
    assert selves(f) == {6: 100, 7: 0}
    assert (helper.qualname, helper.decorated, totals(helper), selves(helper)) == ("helper", False, {3: 50}, {3: 50})
    assert listed(f) == {6: [("aten::add", 1.0)], 7: [("aten::mul", 1.0)]}
    assert (f.calls, helper.calls) == (2, 6)


def test_nested_operators_count_once_and_only_the_outermost_is_listed() -> None:
    t = Timeline()
    t.call(0, t.line(0, t.op("aten::linear", 10, t.op("aten::addmm", 20, t.op("aten::mm", 30)))))
    (f,) = costs(t).functions
    assert totals(f) == {6: 60}
    assert listed(f) == {6: [("aten::linear", 1.0)]}
    assert [(row.name, row.calls, row.self_host_ns) for row in f.operators] == [
        ("aten::mm", 1.0, 30),
        ("aten::addmm", 1.0, 20),
        ("aten::linear", 1.0, 10),
    ]


def test_the_operator_table_counts_an_operator_that_hands_on_to_its_own_name_once() -> None:
    t = Timeline()
    t.call(
        0,
        t.line(0, t.op("aten::sum", 10, t.op("aten::sum", 20))),
        t.line(0, t.op("aten::to", 5, t.op("aten::to", 1), t.op("aten::copy_", 2))),
    )
    (f,) = costs(t).functions
    assert [(row.name, row.calls, row.self_host_ns) for row in f.operators] == [
        ("aten::sum", 1.0, 30),
        ("aten::to", 2.0, 6),
        ("aten::copy_", 1.0, 2),
    ]


def test_a_nested_definition_belongs_to_the_function_around_it() -> None:
    t = Timeline()
    t.call(0, t.line(4, t.line(3, t.op("aten::sub", 40))))
    result = costs(t)
    assert [item.qualname for item in result.functions] == ["f"]
    assert totals(result.functions[0]) == {9: 40}
    assert selves(result.functions[0]) == {9: 40}


def test_recursion_counts_an_operator_once_on_the_innermost_line() -> None:
    t = Timeline()
    t.call(0, t.line(1, t.line(1, t.line(0, t.op("aten::add", 30)))))
    (f,) = costs(t).functions
    assert totals(f) == {6: 30}


def test_a_decorated_function_that_is_called_is_listed_with_its_own_lines() -> None:
    t = Timeline()
    t.call(0, t.line(0, t.line(5, t.op("aten::add", 30))))
    result = costs(t)
    assert totals(function(result, "f")) == {6: 30}
    assert totals(function(result, "g")) == {13: 30}
    assert function(result, "g").decorated


def test_averages_over_the_calls_add_up_exactly() -> None:
    t = Timeline()
    for number, ns in enumerate((10, 11, 11)):
        t.call(number, t.line(0, t.op("aten::add", ns)), t.line(1, t.line(2, t.op("aten::mul", ns))))
    f = function(costs(t, replace(RECORD, repeats=3)), "f")
    # 32 over three calls on each line: 10.67 and 10.67 of 21.33.
    assert f.host_ns == 21
    assert totals(f) == {6: 11, 7: 10}
    assert sum(totals(f).values()) + (f.unattributed_ns or 0) == f.host_ns
    assert f.lines[0].operators == (OperatorCalls("aten::add", 1.0),)


def test_a_count_that_varies_between_calls_is_an_average() -> None:
    t = Timeline()
    t.call(0, t.line(0, t.op("aten::add", 10), t.op("aten::add", 10)))
    t.call(1, t.line(0))
    t.call(2, t.line(0))
    (f,) = costs(t, replace(RECORD, repeats=3)).functions
    assert listed(f) == {6: [("aten::add", pytest.approx(2 / 3))]}


def test_spread_is_the_standard_deviation_between_calls_and_unknown_for_one() -> None:
    t = Timeline()
    t.call(0, t.line(0, t.op("aten::add", 100)))
    t.call(1, t.line(0, t.op("aten::add", 300)))
    (f,) = costs(t, replace(RECORD, repeats=2)).functions
    assert (f.spread_ns, f.lines[0].spread_ns) == (141, 141)
    t = Timeline()
    t.call(0, t.line(0, t.op("aten::add", 100)))
    (f,) = costs(t).functions
    assert (f.spread_ns, f.lines[0].spread_ns) == (None, None)


@pytest.mark.parametrize(
    ("calls_ns", "fastest_ns", "spread_ns"),
    [
        # Five times what the median takes more than the fastest, by the root of their number.
        pytest.param([100, 104, 108, 112, 116], 100, 18, id="five"),
        pytest.param([108, 104, 9000, 112, 100], 100, 18, id="one of them disturbed"),
        pytest.param([8000, 104, 9000, 108, 100], 100, 18, id="two of them disturbed"),
        pytest.param([100, 104, 108, 112, 116] * 5, 100, 8, id="more calls"),
        pytest.param([100, 100, 100], 100, 0, id="all the same"),
        pytest.param([100], None, None, id="one"),
        pytest.param([100, 0, 100, 100, 100], None, None, id="one that did not run the line"),
    ],
)
def test_the_fastest_call_and_how_far_half_of_them_are_from_it(
    calls_ns: list[int], fastest_ns: int | None, spread_ns: int | None
) -> None:
    t = Timeline()
    for number, ns in enumerate(calls_ns):
        t.call(number, t.line(0, *([t.op("aten::add", ns)] if ns else [])))
    (f,) = costs(t, replace(RECORD, repeats=len(calls_ns))).functions
    (line,) = f.lines
    assert (line.fastest_ns, line.fastest_spread_ns) == (fastest_ns, spread_ns)
    assert (f.fastest_ns, f.fastest_spread_ns) == (fastest_ns, spread_ns)


def test_a_backward_pass_is_unattributed_with_its_reason() -> None:
    node = "autograd::engine::evaluate_function: MulBackward0"
    t = Timeline()
    t.call(
        0,
        t.line(0, t.op("aten::add", 10), t.op(node, 5, t.op("MulBackward0", 6, t.line(2, t.op("aten::mul", 7))))),
    )
    result = costs(t)
    f = function(result, "f")
    assert totals(f) == {6: 10}
    assert listed(f) == {6: [("aten::add", 1.0)]}
    assert (f.unattributed_ns, f.host_ns) == (18, 28)
    assert f.warnings == (f"unattributed: {BACKWARD_REASON}",)
    # What recomputation runs in the backward pass is not the helper's either.
    assert [item.qualname for item in result.functions] == ["f"]


def test_a_backward_pass_on_a_thread_of_its_own_is_unattributed_too() -> None:
    t = Timeline()
    t.call(0, t.line(0, t.op("aten::add", 50), t.op("autograd::engine::evaluate_function: X", 5, thread=7)))
    (f,) = costs(t).functions
    assert (totals(f), f.unattributed_ns) == ({6: 50}, 5)


def test_a_compiled_call_is_one_operator_on_its_calling_line() -> None:
    t = Timeline()
    inner = t.op("aten::mul", 20), t.line(2, t.op("aten::add", 30)), t.op("Torch-Compiled Region: 1/0", 5)
    t.call(
        0,
        t.line(0, t.op("TorchDynamo Cache Lookup", 3), t.op("Torch-Compiled Region: 0/0", 10, *inner)),
    )
    result = costs(t)
    (f,) = result.functions
    assert totals(f) == {6: 68}
    assert listed(f) == {6: [("Torch-Compiled Region", 1.0)]}


def test_a_function_that_is_compiled_itself_has_its_region_on_the_def_line() -> None:
    t = Timeline()
    t.call(0, t.op("TorchDynamo Cache Lookup", 3), t.op("Torch-Compiled Region: 0/0", 10, t.op("aten::mul", 20)))
    (f,) = costs(t, replace(RECORD, compiled=True), replace(LOG, codes=(), lines=())).functions
    assert totals(f) == {5: 33}
    assert listed(f) == {5: [("Torch-Compiled Region", 1.0)]}
    assert f.calls == 1, "compiled code enters no frame, and our calls are known"


def test_operators_around_the_function_are_not_its_own() -> None:
    """Such as those of a wrapper above it, or of asyncio when it formats a result."""
    t = Timeline()
    t.call(0, t.op("aten::item", 99), t.line(0, t.op("aten::add", 10)))
    (f,) = costs(t).functions
    assert (f.host_ns, f.unattributed_ns) == (10, 0)


def test_work_of_another_task_on_the_same_thread_is_unattributed_with_its_reason() -> None:
    t = Timeline()
    t.call(0, t.line(0, t.op("aten::add", 10)), t.line(2, t.op("aten::mul", 30)), t.op("aten::item", 5))
    f = function(costs(t, replace(RECORD, is_async=True)), "f")
    assert (totals(f), f.unattributed_ns, f.host_ns) == ({6: 10}, 30, 40)
    assert f.warnings == (f"unattributed: {TASK_REASON}",)


def test_operators_outside_of_the_calls_are_not_counted() -> None:
    t = Timeline()
    t.range("pn.warmup", t.line(0, t.op("aten::add", 10)))
    t.op("aten::rand", 10)()
    t.call(0, t.line(0, t.op("aten::add", 20)))
    (f,) = costs(t).functions
    assert (totals(f), listed(f)) == ({6: 20}, {6: [("aten::add", 1.0)]})


def test_work_of_a_thread_is_on_the_functions_line_that_runs_there() -> None:
    t = Timeline()
    t.call(0, t.line(4, t.op("aten::add", 50), t.line(3, t.op("aten::neg", 20, thread=2), thread=2)))
    (f,) = costs(t).functions
    assert totals(f) == {9: 20, 10: 50}


def test_work_of_a_new_thread_without_such_a_line_is_unattributed_with_its_reason() -> None:
    t = Timeline()
    t.call(0, t.line(4, t.op("aten::add", 50), t.op("aten::neg", 20, thread=2)))
    (f,) = costs(t).functions
    assert (totals(f), f.unattributed_ns, f.host_ns) == ({10: 50}, 20, 70)
    assert f.warnings == (f"unattributed: {THREAD_REASON}",)


def test_a_thread_that_ran_before_is_none_of_the_functions_business() -> None:
    t = Timeline()
    t.call(0, t.line(4, t.op("aten::add", 50), t.op("aten::neg", 20, thread=7)))
    (f,) = costs(t).functions
    assert (f.host_ns, f.unattributed_ns) == (50, 0)


def test_a_run_without_operators_says_so() -> None:
    t = Timeline()
    t.call(0, t.line(0))
    (f,) = costs(t).functions
    assert (f.lines, f.warnings, f.state) == ((), (NO_OPERATORS,), "fresh")


def test_a_failure_of_the_run_is_the_functions_state() -> None:
    t = Timeline()
    t.call(0, t.line(0, t.op("aten::add", 10)))
    (f,) = costs(t, replace(RECORD, failure=Failure("ValueError: x"))).functions
    assert (f.state, f.reason, totals(f)) == ("failed", "ValueError: x", {6: 10})


def test_with_what_the_run_was_made_comes_with_the_result() -> None:
    t = Timeline()
    t.call(0)
    result = costs(t)
    assert (result.toolchain, result.modules) == (RECORD.toolchain, RECORD.modules)
    assert (result.inputs, result.warmup) == (RECORD.inputs, RECORD.warmup)


def test_a_trace_without_a_profiled_call_is_an_error() -> None:
    with pytest.raises(CaptureError, match="none of the profiled calls"):
        costs(Timeline())


def trees(depth: int = 3):
    """Random nests of lines and operators: ('line', n, children) or ('op', name, ns, children)."""
    names = st.sampled_from(
        ["aten::add", "aten::mul", "Torch-Compiled Region: 0/0", "autograd::engine::evaluate_function: X", "MyFn"]
    )
    if depth == 0:
        return st.just(())
    inner = trees(depth - 1)
    node = st.one_of(
        st.tuples(st.just("line"), st.integers(0, len(LINES) - 1), inner),
        st.tuples(st.just("op"), names, st.integers(1, 1000), inner),
    )
    return st.lists(node, max_size=4).map(tuple)


def build(t: Timeline, nodes: tuple, thread: int):
    for node in nodes:
        if node[0] == "line":
            t.line(node[1], *build_inner(t, node[2], thread), thread=thread)()
        else:
            t.op(node[1], node[2], *build_inner(t, node[3], thread), thread=thread)()


def build_inner(t: Timeline, nodes: tuple, thread: int):
    return [lambda node=node: build(t, (node,), thread) for node in nodes]


@settings(max_examples=100)
@given(calls=st.lists(st.tuples(trees(), trees(2)), min_size=1, max_size=4), seed=st.integers(0, 9))
def test_time_is_conserved_and_the_order_of_events_does_not_matter(calls: list, seed: int) -> None:
    t = Timeline()
    for number, (own, other) in enumerate(calls):
        t.call(number, *build_inner(t, own, 1), *build_inner(t, other, 2))
    record = replace(RECORD, repeats=len(calls))
    result = costs(t, record)
    for item in result.functions:
        parts = sum(totals(item).values()) + sum(group.ns for group in item.shared) + (item.unattributed_ns or 0)
        assert parts == item.host_ns
        assert parts == sum(row.self_host_ns for row in item.operators)
        assert all(0 <= line.self_ns <= line.total_ns for line in item.lines)
    shuffled = list(t.events)
    random.Random(seed).shuffle(shuffled)
    assert attribute(record, Trace(tuple(shuffled), "operator table", ()), LOG) == result
