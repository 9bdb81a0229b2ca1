"""Executions of a device to lines, groups and the rest; every number here was worked out by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profile_neuron.core.attribution import attribute
from profile_neuron.core.device_time import SequenceMarks
from profile_neuron.core.model import (
    AgentNotes,
    DeviceCapture,
    DeviceTrace,
    Event,
    Execution,
    FunctionCosts,
    LineCosts,
    RunRecord,
    SequenceMark,
    SharedGroup,
    Submission,
    Trace,
)
from profile_neuron.core.tally import BACKWARD_REASON, THREAD_REASON
from tests.unit.test_attribution import LOG, RECORD, Timeline, function, selves, totals

ON_NEURON = replace(RECORD, device=DeviceCapture("beta", "runtime", 4242), device_name="NeuronCore")


def ids(timeline: Timeline, name: str) -> list[int]:
    """External ids of the events of that name, in order."""
    return [event.order for event in timeline.events if event.name == name]


def execution(ns: int, *operators: int, direction: str | None = None) -> Execution:
    return Execution("nrt", direction, ns, operators)  # type: ignore[arg-type]


def submitted(ns: int, *numbers: int, thread: int = 1) -> Execution:
    return Execution("nrt", None, ns, (), tuple(Submission(thread, number) for number in numbers))


def costs(
    timeline: Timeline,
    executions: list[Execution] | None,
    record: RunRecord = ON_NEURON,
    marks: list[SequenceMark] | None = None,
    notes: AgentNotes | None = None,
    threads: dict[int, int] | None = None,
    **more: object,
) -> LineCosts:
    events = tuple(replace(event, external_id=event.order) for event in timeline.events)
    trace = Trace(events, "operator table", ())
    device = None if executions is None else DeviceTrace(tuple(executions), events, "test", **more)  # type: ignore[arg-type]
    return attribute(record, trace, LOG, device, SequenceMarks(marks or (), threads or {}), notes or AgentNotes())


def two_lines() -> Timeline:
    """f: line 6 adds, line 7 calls helper, which multiplies at line 3."""
    t = Timeline()
    t.call(0, t.line(0, t.op("aten::add", 100)), t.line(1, t.line(2, t.op("aten::mul", 50))))
    return t


def add(timeline: Timeline) -> int:
    return ids(timeline, "aten::add")[0]


def mul(timeline: Timeline) -> int:
    return ids(timeline, "aten::mul")[0]


def checked(costs: FunctionCosts) -> FunctionCosts:
    """Costs whose lines, groups and rest add up."""
    parts = sum(line.total_ns for line in costs.lines) + sum(group.ns for group in costs.shared)
    assert parts + (costs.unattributed_ns or 0) == costs.measured_ns
    return costs


def test_an_execution_is_on_the_line_of_its_operator_and_on_those_that_called_it() -> None:
    t = two_lines()
    result = costs(t, [execution(7000, mul(t)), execution(5000, add(t))])
    f, helper = map(checked, result.functions)
    assert (result.device_kind, result.device_name, f.measure) == ("neuron", "NeuronCore", "device")
    assert (f.device_ns, f.host_ns, f.executions) == (12_000, 150, 2.0)
    assert (totals(f), selves(f)) == ({6: 5000, 7: 7000}, {6: 5000, 7: 0})
    assert (totals(helper), selves(helper)) == ({3: 7000}, {3: 7000})
    assert [(line.host_ns, line.executions) for line in f.lines] == [(100, 1.0), (50, 1.0)]
    assert [(row.name, row.self_host_ns, row.device_ns) for row in f.operators] == [
        ("aten::mul", 50, 7000),
        ("aten::add", 100, 5000),
    ]


def test_an_operator_that_starts_nothing_has_no_device_time_and_keeps_its_host_time() -> None:
    t = two_lines()
    f = checked(costs(t, [execution(5000, add(t))]).functions[0])
    assert [(line.line, line.total_ns, line.host_ns, line.executions) for line in f.lines] == [
        (6, 5000, 100, 1.0),
        (7, 0, 50, 0.0),
    ]


def test_a_copy_takes_time_and_is_no_execution() -> None:
    t = Timeline()
    t.call(0, t.line(0, t.op("aten::add", 100, t.op("aten::copy_", 10))))
    (copy,) = ids(t, "aten::copy_")
    f = checked(costs(t, [execution(390_500, add(t)), execution(5000, copy, direction="to device")]).functions[0])
    assert (f.device_ns, f.executions, totals(f)) == (395_500, 1.0, {6: 395_500})
    (remark,) = f.lines[0].remarks
    assert (remark.kind, remark.operator, remark.directions) == ("transfer", "aten::add", ("to device",))


def test_an_execution_that_lines_share_is_one_group_and_counts_once() -> None:
    t = Timeline()
    t.call(0, t.line(0, t.op("aten::add", 10)), t.line(4, t.op("aten::sub", 20)))
    (sub,) = ids(t, "aten::sub")
    f = checked(costs(t, [execution(900, add(t), sub)]).functions[0])
    assert (f.device_ns, f.shared, f.executions) == (900, (SharedGroup((6, 10), 900, 1.0),), 1.0)
    assert totals(f) == {6: 0, 10: 0}


def test_an_execution_of_operators_of_one_line_is_that_lines() -> None:
    t = Timeline()
    t.call(0, t.line(0, t.op("aten::add", 10)), t.line(0, t.op("aten::sub", 20)))
    (sub,) = ids(t, "aten::sub")
    f = checked(costs(t, [execution(900, add(t), sub)]).functions[0])
    assert (f.shared, totals(f), selves(f)) == ((), {6: 900}, {6: 900})


def test_an_execution_that_a_helper_shares_with_its_caller_is_in_both_a_group() -> None:
    t = two_lines()
    f, helper = map(checked, costs(t, [execution(900, add(t), mul(t))]).functions)
    assert (f.shared, f.device_ns) == ((SharedGroup((6, 7), 900, 1.0),), 900)
    # With code elsewhere, which its one line alone does not show.
    assert (helper.shared, helper.device_ns) == ((SharedGroup((3,), 900, 1.0),), 900)


def test_what_is_started_by_no_operator_is_on_the_line_that_ran() -> None:
    t = Timeline()
    t.call(0, t.line(0, t.op("custom::kernel", 10)))
    (ours,) = ids(t, "pn.line:0")
    f = checked(costs(t, [execution(900, ours)]).functions[0])
    assert totals(f) == {6: 900}
    assert [(row.name, row.device_ns) for row in f.operators] == [
        ("(outside of operators)", 900),
        ("custom::kernel", 0),
    ]


def test_executions_of_warm_up_calls_are_in_no_figure() -> None:
    t = Timeline()
    t.range("pn.warmup", t.line(0, t.op("aten::add", 10)))
    t.call(0, t.line(0, t.op("aten::add", 10)))
    warm, measured = ids(t, "aten::add")
    f = checked(costs(t, [execution(111, warm), execution(222, measured)]).functions[0])
    assert (f.device_ns, f.is_lower_bound) == (222, False)


def test_averages_over_calls_add_up_to_the_nanosecond() -> None:
    t = Timeline()
    for number in range(3):
        t.call(number, t.line(0, t.op("aten::add", 10)), t.line(4, t.op("aten::sub", 10)))
    found = [*zip(ids(t, "aten::add"), (10, 11, 11), strict=True), *zip(ids(t, "aten::sub"), (5, 5, 6), strict=True)]
    record = replace(ON_NEURON, repeats=3)
    f = checked(costs(t, [execution(ns, operator) for operator, ns in found], record).functions[0])
    # 48 in three calls: 10.67 and 5.33 of 16.
    assert (f.device_ns, totals(f)) == (16, {6: 11, 10: 5})


def test_executions_of_a_backward_pass_and_of_other_threads_are_unattributed_with_the_reason() -> None:
    t = Timeline()
    backward = t.op("autograd::engine::evaluate_function: MulBackward0", 5, t.op("aten::mul", 10))
    t.call(0, t.line(0, t.op("aten::add", 10)), t.line(4, backward), t.op("aten::neg", 10, thread=5))
    (neg,) = ids(t, "aten::neg")
    f = checked(costs(t, [execution(100, add(t)), execution(30, mul(t)), execution(7, neg)]).functions[0])
    assert (f.device_ns, f.unattributed_ns, totals(f)[6]) == (137, 37, 100)
    assert {f"unattributed: {reason}" for reason in (BACKWARD_REASON, THREAD_REASON)} <= set(f.warnings)


def test_executions_that_nothing_is_known_of_make_times_a_lower_bound() -> None:
    t = two_lines()
    f = checked(costs(t, [execution(100, add(t)), execution(60), execution(50, 999)]).functions[0])
    assert (f.device_ns, f.is_lower_bound) == (100, True)
    assert "2 executions (110 ns in all calls) are linked to no operator and are in no figure" in f.warnings


def test_dropped_events_make_times_a_lower_bound() -> None:
    t = two_lines()
    f = costs(t, [execution(100, add(t))], notes=AgentNotes(dropped_events=12)).functions[0]
    assert f.is_lower_bound
    assert any(warning.startswith("12 events of the device were dropped") for warning in f.warnings)


def test_a_source_with_missing_events_makes_times_a_lower_bound() -> None:
    t = two_lines()
    assert costs(t, [execution(100, add(t))], is_incomplete=True).functions[0].is_lower_bound
    assert not costs(t, [execution(100, add(t))]).functions[0].is_lower_bound


@pytest.mark.parametrize("executions", [None, [], [execution(60)]], ids=["no source", "nothing", "nothing linked"])
def test_without_a_linked_execution_device_time_is_unknown_and_not_zero(executions: list[Execution] | None) -> None:
    result = costs(two_lines(), executions)
    f = result.functions[0]
    assert (result.device_kind, f.device_ns, f.measure, f.host_ns) == ("neuron", None, "host", 150)
    assert totals(f) == {6: 100, 7: 50}
    (why,) = [warning for warning in f.warnings if warning.startswith("device time unknown: ")]
    assert ("none of 1 executions" in why) == bool(executions)
    assert all(row.device_ns is None for row in f.operators)


def test_times_of_the_driver_are_marked() -> None:
    t = two_lines()
    f = costs(t, [execution(100, add(t))], may_include_queueing=True).functions[0]
    assert f.may_include_queueing
    assert "times are of driver events and may include queueing" in f.warnings


def test_a_compiled_function_has_its_time_on_the_line_of_def() -> None:
    t = Timeline()
    t.call(
        0, t.op("TorchDynamo Cache Lookup", 1), t.op("Torch-Compiled Region: 0/0", 5, t.line(0, t.op("aten::mul", 3)))
    )
    region, inside, line = (ids(t, name)[0] for name in ("Torch-Compiled Region: 0/0", "aten::mul", "pn.line:0"))
    compiled = replace(ON_NEURON, compiled=True)
    for operator in (region, inside, line):
        f = checked(costs(t, [execution(333, operator)], compiled).functions[0])
        assert (f.device_ns, {line: ns for line, ns in totals(f).items() if ns}) == (333, {5: 333})


MARKS = [
    SequenceMark(1, 1, None, (0,)),
    SequenceMark(1, 10, 0, ()),
    SequenceMark(1, 11, 0, (0,)),
    SequenceMark(1, 14, 0, (1,)),
    SequenceMark(1, 15, 0, (1, 2)),
    SequenceMark(1, 16, 0, (1,)),
    SequenceMark(1, 17, 0, (4,)),
]


def test_a_sequence_number_stands_on_the_lines_of_the_last_mark_before_it() -> None:
    found = [submitted(100, 11), submitted(10, 13), submitted(1000, 15), submitted(7, 17), submitted(9999, 5)]
    f, helper = map(checked, costs(two_lines(), found, marks=MARKS).functions)
    # 5 is of the warm-up call; with a gradient a line has several numbers.
    assert (f.device_ns, totals(f)) == (1117, {6: 110, 7: 1000, 10: 7})
    assert totals(helper) == {3: 1000}
    assert not f.is_lower_bound


def test_threads_of_a_mapping_are_known_by_torchs_own_numbers_too() -> None:
    marks = [replace(mark, thread=70_001) for mark in MARKS]
    f = costs(two_lines(), [submitted(5, 11, thread=3)], marks=marks, threads={3: 70_001}).functions[0]
    assert totals(f)[6] == 5
    f = costs(two_lines(), [submitted(5, 11, thread=70_001)], marks=marks, threads={3: 70_001}).functions[0]
    assert totals(f)[6] == 5


def test_a_submission_from_a_thread_without_marks_is_in_no_figure() -> None:
    f = costs(two_lines(), [submitted(100, 11), submitted(40, 2, thread=9)], marks=MARKS).functions[0]
    assert (f.device_ns, f.is_lower_bound) == (100, True)


def test_a_mapping_that_names_several_lines_makes_one_group() -> None:
    f = checked(costs(two_lines(), [submitted(900, 11, 12, 17)], marks=MARKS).functions[0])
    assert (f.device_ns, f.shared) == (900, (SharedGroup((6, 10), 900, 1.0),))


@settings(max_examples=60)
@given(st.integers(0, 10_000))
def test_device_time_is_conserved_whatever_shares_it_and_in_any_order(seed: int) -> None:
    chance = random.Random(seed)
    t = Timeline()
    for number in range(3):
        t.call(number, *(_line(t, chance) for _ in range(chance.randrange(1, 6))))
    operators = [event.order for event in t.events if event.name.startswith("aten::")]
    found = [
        execution(
            chance.randrange(1, 10_000),
            *chance.sample(operators, min(len(operators), chance.choice((0, 1, 1, 1, 2, 3)))),
        )
        for _ in range(20)
    ]
    record = replace(ON_NEURON, repeats=3)
    result = costs(t, found, record)
    shuffled = found[:]
    chance.shuffle(shuffled)
    again = costs(t, shuffled, record)
    linked = sum(item.device_ns for item in found if item.operators)
    target = function(result, "f")
    if target.measure == "device":
        checked(target)
        assert (2 * linked + 3) // 6 == target.device_ns
    assert _plain(again) == _plain(result)


def _line(t: Timeline, chance: random.Random):
    operators = [t.op(f"aten::op{chance.randrange(3)}", chance.randrange(2, 50)) for _ in range(chance.randrange(3))]
    if chance.random() < 0.3:
        return t.line(1, t.line(2, *operators))
    return t.line(chance.choice((0, 4)), *operators)


def _plain(result: LineCosts) -> list[object]:
    return [
        (item.qualname, item.device_ns, item.lines, item.shared, sorted(item.operators, key=str))
        for item in result.functions
    ]


def remarks(
    timeline: Timeline, found: list[Execution] | None, record: RunRecord = ON_NEURON
) -> list[tuple[int, str, str]]:
    f = costs(timeline, found, record).functions[0]
    return [(line.line, remark.kind, remark.operator) for line in f.lines for remark in line.remarks]


def of_operator(name: str, *inner: str) -> Timeline:
    t = Timeline()
    t.call(0, t.line(0, t.op(name, 400, *(t.op(item, 50) for item in inner))), t.line(4, t.op("aten::sub", 10)))
    return t


def test_an_operator_that_reads_back_and_starts_nothing_ran_on_the_cpu() -> None:
    t = of_operator("aten::cummin", "aten::_to_copy")
    (copy,), (sub,) = ids(t, "aten::_to_copy"), ids(t, "aten::sub")
    found = [execution(40, copy, direction="from device"), execution(100, sub)]
    assert remarks(t, found) == [(6, "cpu-fallback", "aten::cummin")]
    (line, _) = costs(t, found).functions[0].lines
    assert (line.total_ns, line.remarks[0].host_ns, line.executions) == (40, 450, 0.0)


def test_an_operator_that_reads_back_and_starts_something_copies() -> None:
    t = of_operator("aten::cummin", "aten::_to_copy")
    (copy,), (own,) = ids(t, "aten::_to_copy"), ids(t, "aten::cummin")
    assert remarks(t, [execution(40, copy, direction="from device"), execution(9, own)]) == [
        (6, "transfer", "aten::cummin")
    ]


@pytest.mark.parametrize("name", ["aten::cummin", "cummin", "aten::cummin.out", "cummin.dim"])
def test_an_operator_that_torch_neuronx_names_ran_on_the_cpu_even_where_nothing_else_is_known(name: str) -> None:
    record = replace(ON_NEURON, device=DeviceCapture("beta", "runtime", 4242, (name,)))
    assert remarks(of_operator("aten::cummin"), None, record) == [(6, "cpu-fallback", "aten::cummin")]


def test_an_operator_that_fell_back_once_and_now_runs_on_the_device_is_no_fallback() -> None:
    t = of_operator("aten::cummin")
    (own,) = ids(t, "aten::cummin")
    record = replace(ON_NEURON, device=DeviceCapture("beta", "runtime", 4242, ("cummin",)))
    assert remarks(t, [execution(9, own)], record) == []


def test_what_the_runtime_printed_counts_where_torch_neuronx_does_not_tell() -> None:
    t = of_operator("aten::cummin")
    notes = AgentNotes(fallback_operators=("aten::cummin",))
    told = replace(ON_NEURON, device=DeviceCapture("beta", "runtime", 4242, ()))
    for record, expected in ((ON_NEURON, ["cpu-fallback"]), (told, [])):
        f = costs(t, None, record, notes=notes).functions[0]
        assert [remark.kind for line in f.lines for remark in line.remarks] == expected


def test_a_copy_that_stays_on_the_device_takes_time_and_is_no_remark() -> None:
    t = of_operator("aten::clone")
    (own,) = ids(t, "aten::clone")
    f = checked(costs(t, [execution(9, own, direction="on device")]).functions[0])
    assert (totals(f)[6], f.lines[0].remarks, f.executions) == (9, (), 0.0)


def test_reading_one_number_waits_for_the_device() -> None:
    t = of_operator("aten::item", "aten::_local_scalar_dense")
    (inner,) = ids(t, "aten::_local_scalar_dense")
    assert remarks(t, [execution(3, inner, direction="from device")]) == [(6, "host-sync", "aten::item")]


def test_a_number_of_a_tensor_on_the_cpu_waits_for_nothing() -> None:
    t = of_operator("aten::item", "aten::_local_scalar_dense")
    (sub,) = ids(t, "aten::sub")
    assert remarks(t, [execution(3, sub)]) == []


def test_a_copy_that_does_not_tell_its_way_is_still_a_copy() -> None:
    t = of_operator("aten::to", "aten::copy_")
    (inner,) = ids(t, "aten::copy_")
    assert remarks(t, [execution(3, inner, direction="unknown")]) == [(6, "transfer", "aten::to")]


def test_a_trace_of_its_own_gives_the_places_of_its_executions() -> None:
    """As Neuron Explorer's tables do, whose clock and numbers are not those of the operator table."""
    t = two_lines()
    own = tuple(
        Event(
            event.name, event.thread + 40, event.start_ns + 10**9, event.end_ns + 10**9, event.order, event.order + 500
        )
        for event in t.events
    )
    trace = Trace(tuple(t.events), "operator table", ())
    device = DeviceTrace((execution(700, add(t) + 500),), own, "test")
    f = checked(attribute(ON_NEURON, trace, LOG, device).functions[0])
    assert totals(f) == {6: 700, 7: 0}
