"""Neuron Explorer's system events to executions; all rows are constructed after its schema reference, version 7.4.0."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.capture.explorer_tables import NO_RANGES, check_columns, read_system_events
from profile_neuron.core.model import DeviceTrace, Event, Execution
from profile_neuron.core.placing import Calls
from profile_neuron.errors import CaptureError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

PID = 4242
THREAD = 4250
Row = dict[str, Any]


def row(number: int, name: str, source: str, start: int, end: int, /, *flows: str, **fields: Any) -> Row:
    made = {
        "id": number,
        "name": name,
        "trace_event_source": source,
        "start_ts": start,
        "end_ts": end,
        "duration_ns": end - start,
        "process_id": PID,
        "thread_id": 0,
        "flow_id": list(flows) or None,
    }
    return {**made, **fields}


def operator(number: int, start: int, end: int, /, *flows: str, name: str = "aten::mul.Tensor", **fields: Any) -> Row:
    return row(number, name, "framework", start, end, *flows, **{"thread_id": THREAD, **fields})


def runtime(number: int, /, *flows: str, **fields: Any) -> Row:
    return row(number, "nrta_execute_schedule", "neuron_rt", 110, 130, *flows, nc_idx=0, **fields)


def running(number: int, start: int, end: int, /, *flows: str, core: int = 0, **fields: Any) -> Row:
    return row(number, "nc_exec_running", "neuron_hw", start, end, *flows, **{"nc_idx": 0, "pcore_idx": core, **fields})


# Around all that the tests dispatch.
RANGES = (operator(1, 0, 1000, name="pn.call:0"), operator(2, 50, 900, name="pn.line:7"))

# The rows of the fact sheet, of which the first is on the lane of stream 0, with ranges of ours and the dispatch on the
# thread that has a flow to it.
GOLDEN: tuple[Row, ...] = (
    {"id": 10, "name": "aten::mul.Tensor", "trace_event_source": "framework", "start_ts": 100, "end_ts": 106,
     "duration_ns": 6, "process_id": PID, "thread_id": 0, "framework_stream_id": "0", "flow_id": ["100"]},
    {"id": 11, "name": "nrta_execute_schedule", "trace_event_source": "neuron_rt", "nc_idx": 0, "start_ts": 110,
     "end_ts": 130, "duration_ns": 20, "flow_id": ["100", "200"]},
    {"id": 12, "name": "nc_exec_running", "trace_event_source": "neuron_hw", "nc_idx": 0, "pcore_idx": 0,
     "start_ts": 140, "end_ts": 500, "duration_ns": 360, "flow_id": ["200"]},
    {"id": 13, "name": "nc_exec_running", "trace_event_source": "neuron_hw", "nc_idx": 0, "pcore_idx": 1,
     "start_ts": 142, "end_ts": 498, "duration_ns": 356, "flow_id": ["200"]},
    *RANGES,
    operator(3, 98, 104, "100", name="aten::mul"),
)  # fmt: skip


def read(*rows: Row, pid: int = PID, messages: tuple[str, ...] = ()) -> DeviceTrace:
    found = read_system_events(rows, pid, messages)
    assert found is not None
    return found


def executions(*rows: Row) -> list[tuple[int, tuple[int, ...]]]:
    """Time and operators of each execution, beside ranges of ours."""
    return [(item.device_ns, item.operators) for item in read(*RANGES, *rows).executions]


def test_an_execution_of_two_physical_cores_takes_their_time_once() -> None:
    found = read(*GOLDEN)
    assert found.executions == (Execution("nc_exec_running", None, 360, (3,)),)
    assert found.warnings == ()
    assert not found.may_include_queueing


def test_events_are_what_the_framework_did_on_threads() -> None:
    found = read(*GOLDEN)
    assert found.events == (
        Event("pn.call:0", THREAD, 0, 1000, 1, 1),
        Event("pn.line:7", THREAD, 50, 900, 2, 2),
        Event("aten::mul", THREAD, 98, 104, 3, 3),
    )
    assert Calls(found.events).at(98) == 0


def test_one_flow_id_for_a_whole_chain_is_enough() -> None:
    assert executions(operator(3, 100, 106, "9"), runtime(4, "9"), running(5, 140, 500, "9")) == [(360, (3,))]


def test_a_chain_may_be_as_long_as_it_likes_within_the_runtime() -> None:
    rows = (runtime(4, "1", "2"), runtime(5, "2", "3"), runtime(6, "3", "4"))
    assert executions(operator(3, 100, 106, "1"), *rows, running(7, 140, 500, "4")) == [(360, (3,))]


def test_fused_operators_share_their_execution() -> None:
    rows = (
        operator(3, 100, 106, "1"),
        operator(4, 107, 109, "2"),
        runtime(5, "1", "2", "9"),
        running(6, 140, 500, "9"),
    )
    assert executions(*rows) == [(360, (3, 4))]


def test_several_executions_of_one_operator_stay_several() -> None:
    rows = (operator(3, 100, 106, "1"), runtime(4, "1", "8", "9"), running(5, 140, 200, "8"), running(6, 300, 400, "9"))
    assert executions(*rows) == [(60, (3,)), (100, (3,))]


def test_operators_are_not_joined_over_what_another_execution_has_in_common_with_them() -> None:
    """An operator that started two executions has not started what it shares one of them with."""
    rows = (
        operator(3, 100, 106, "1", "2"),
        operator(4, 107, 109, "2"),
        runtime(5, "1", "8"),
        runtime(6, "2", "9"),
        running(7, 140, 200, "8"),
        running(8, 300, 400, "9"),
    )
    assert executions(*rows) == [(60, (3,)), (100, (3, 4))]


def test_flows_between_operators_are_not_followed() -> None:
    """As from the backward pass to the forward one."""
    rows = (
        operator(3, 100, 106, "7"),
        operator(4, 200, 206, "7", "9", thread_id=THREAD + 1),
        running(5, 240, 300, "9"),
    )
    assert executions(*rows) == [(60, (4,))]


def test_the_lane_of_a_stream_is_known_by_its_number() -> None:
    """The stream is told of a dispatch too, whose thread is another number."""
    dispatch = operator(3, 100, 106, "9", framework_stream_id="0")
    assert executions(dispatch, running(5, 140, 500, "9")) == [(360, (3,))]


def test_a_stream_stands_for_the_operator_that_it_has_a_flow_with() -> None:
    event = operator(4, 107, 109, "5", "6", thread_id=2, framework_stream_id="2")
    rows = (operator(3, 100, 106, "5"), event, runtime(5, "6", "9"), running(6, 140, 500, "9"))
    assert executions(*rows) == [(360, (3,))]


def test_an_execution_that_only_a_stream_is_known_of_has_no_operator() -> None:
    event = operator(3, 100, 106, "9", thread_id=2, framework_stream_id="2")
    found = read(*RANGES, event, running(5, 140, 500, "9"))
    assert [item.operators for item in found.executions] == [()]
    assert [item.external_id for item in found.events] == [1, 2]


def test_equal_names_join_nothing() -> None:
    rows = (operator(3, 100, 106, "1", name="nc_exec_running"), running(5, 140, 500, "9"))
    assert executions(*rows) == [(360, ())]


def test_what_has_no_flow_takes_the_time_of_its_core_once() -> None:
    rows = (running(5, 140, 500), running(6, 142, 498, core=1), running(7, 600, 700), running(8, 600, 700, nc_idx=1))
    assert executions(*rows) == [(460, ()), (100, ())]


def test_copies_are_known_by_their_documented_names_where_an_operator_asked_for_them() -> None:
    def copy(number: int, name: str, *flows: str) -> Row:
        return row(number, name, "neuron_rt", 110, 130, *flows)

    found = read(
        *RANGES,
        operator(3, 100, 106, "1", name="aten::copy_"),
        operator(4, 107, 108, "2", name="aten::copy_"),
        copy(5, "dmem_buf_copyin", "1"),
        copy(6, "dmem_buf_copyout", "2"),
        copy(7, "dmem_buf_copyin"),
        copy(8, "nrt_tensor_write", "1"),
    )
    assert found.executions == (
        Execution("dmem_buf_copyin", "to device", 20, (3,)),
        Execution("dmem_buf_copyout", "from device", 20, (4,)),
    )


def test_rows_of_another_process_are_not_ours() -> None:
    """Both ranks count their flows from 100 on."""
    other = [{**item, "process_id": PID + 1, "end_ts": item["end_ts"] + 1000} for item in GOLDEN]
    assert read(*GOLDEN, *other) == read(*GOLDEN)
    assert sum(item.device_ns for item in read(*GOLDEN, *other, pid=PID + 1).executions) == 1360
    assert read_system_events(other, PID) is None


def test_without_one_of_our_ranges_executions_are_kept_and_have_no_operator() -> None:
    found = read(*(item for item in GOLDEN if not item["name"].startswith("pn.")))
    assert found.executions == (Execution("nc_exec_running", None, 360, ()),)
    assert found.warnings == (NO_RANGES,)


def test_without_an_execution_nothing_is_known() -> None:
    assert read_system_events([], PID) is None
    assert read_system_events(RANGES, PID) is None


SPELLINGS: dict[str, dict[str, Callable[[Any], object]]] = {
    "text": {"id": str, "start_ts": str, "end_ts": str, "process_id": str, "thread_id": str},
    "numbers with gaps": {"id": float, "process_id": float, "thread_id": float},
    "flows in a tuple": {"flow_id": tuple},
    "flows as numbers": {"flow_id": lambda flows: [int(flow) for flow in flows]},
    "flows in text": {"flow_id": json.dumps},
}


@pytest.mark.parametrize("kind", SPELLINGS)
def test_a_column_may_be_of_another_type(kind: str) -> None:
    spelled = [
        {**item, **{name: spell(item[name]) for name, spell in SPELLINGS[kind].items() if item.get(name) is not None}}
        for item in GOLDEN
    ]
    assert read(*spelled) == read(*GOLDEN)


def test_columns_that_are_not_known_do_no_harm() -> None:
    assert read(*({**item, "extra_attributes_json": "{", "new_in_8": object()} for item in GOLDEN)) == read(*GOLDEN)


@pytest.mark.parametrize("flow", [9, "9", ["9"], [9], '["9"]', "[9]"], ids=repr)
def test_a_flow_id_is_the_same_however_it_is_written(flow: object) -> None:
    rows = ({**operator(3, 100, 106), "flow_id": flow}, running(5, 140, 500, "9"))
    assert executions(*rows) == [(360, (3,))]


@pytest.mark.parametrize("flow", [None, "", "[]", [], [None, True, 1.5, [1]], {"a": 1}, "NaN"], ids=repr)
def test_what_is_no_flow_id_joins_nothing(flow: object) -> None:
    rows = ({**operator(3, 100, 106), "flow_id": flow}, {**running(5, 140, 500), "flow_id": flow})
    assert executions(*rows) == [(360, ())]


@pytest.mark.parametrize("flow", ["0x64", "[1", "[" * 100_000], ids=["hexadecimal", "cut short", "deep"])
def test_text_that_is_no_list_is_a_flow_id_itself(flow: str) -> None:
    rows = ({**operator(3, 100, 106), "flow_id": flow}, {**running(5, 140, 500), "flow_id": flow})
    assert executions(*rows) == [(360, (3,))]


UNUSABLE: dict[str, Row] = {
    "no start": running(90, 1, 2, "200", start_ts=None),
    "a time that is none": running(90, 1, 2, "200", start_ts="soon"),
    "a time that a float cannot hold": running(90, 1, 2, "200", start_ts=1.8e18),
    "an end before the start": running(90, 2, 1, "200"),
    "no name": running(90, 1, 2, "200", name=None),
    "no source": running(90, 1, 2, "200", trace_event_source=None),
    "an operator without an id": operator(90, 1, 2, "100", id=None),
    "an operator without a thread": operator(90, 1, 2, "100", thread_id=None),
    "nothing": {},
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_row_that_is_not_usable_is_left_out_and_counted(kind: str) -> None:
    found = read(*GOLDEN, UNUSABLE[kind])
    assert found.warnings == ("1 rows of Neuron Explorer's system profile cannot be used and are left out",)
    assert found.is_incomplete
    assert replace(found, warnings=(), is_incomplete=False) == read(*GOLDEN)


def test_operators_with_the_same_id_cannot_be_told_apart() -> None:
    found = read(*GOLDEN, operator(3, 600, 606, "300"), running(20, 700, 800, "300"))
    assert [item.operators for item in found.executions] == [(), ()]
    assert found.warnings == ("2 rows of Neuron Explorer's system profile cannot be used and are left out",)


def test_dropped_events_are_counted() -> None:
    said = (
        "1001 trace events were dropped during capture (stored 530560 out of 531561 total events). Consider increasing "
        "buffer size, reducing trace duration, or filtering events."
    )
    found = read(
        *GOLDEN,
        messages=(said, said, "Current NEFF is missing compiler metrics.", "Warning: 9 trace events were dropped"),
    )
    assert found.warnings == (
        "1010 events of the system profile were dropped, so that times are lower bounds; profile fewer calls",
    )
    assert found.is_incomplete
    assert not read(*GOLDEN).is_incomplete


def test_columns_that_nothing_can_be_read_without_are_named() -> None:
    check_columns(["name", "start_ts", "end_ts", "trace_event_source", "new_in_8"])
    with pytest.raises(
        CaptureError, match=r"has no column start_ts or end_ts, so it is of a version that is not known"
    ):
        check_columns(["name", "trace_event_source", "timestamp", "duration"])
    with pytest.raises(CaptureError, match=r"has no column name or start_ts or end_ts or trace_event_source"):
        check_columns([])


FLOWS = st.lists(st.sampled_from("abcdefgh"), max_size=3, unique=True)


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    """Rows with random flows; several may be equal but for their id."""
    made: list[Row] = list(RANGES)
    for number in range(3, draw(st.integers(3, 30))):
        start = draw(st.integers(0, 20))
        end = start + draw(st.integers(0, 20))
        flows = draw(FLOWS)
        kind = draw(st.sampled_from(["operator", "stream", "runtime", "running", "running", "copy"]))
        if kind == "operator":
            made.append(operator(number, start, end, *flows, thread_id=draw(st.integers(5, 6))))
        elif kind == "stream":
            made.append(operator(number, start, end, *flows, thread_id=0, framework_stream_id="0"))
        elif kind == "runtime":
            made.append(runtime(number, *flows))
        elif kind == "running":
            made.append(running(number, start, end, *flows, nc_idx=draw(st.integers(0, 1))))
        else:
            made.append(row(number, "dmem_buf_copyin", "neuron_rt", start, end, *flows))
    return made


@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_shows_nowhere(rows: list[Row], order: random.Random) -> None:
    shuffled = list(rows)
    order.shuffle(shuffled)
    assert read_system_events(shuffled, PID) == read_system_events(rows, PID)


@given(tables())
def test_every_moment_that_the_device_runs_is_in_an_execution_and_none_twice(rows: list[Row]) -> None:
    found = read_system_events(rows, PID)
    device = [item for item in rows if item["name"] == "nc_exec_running"]
    moments = {moment for item in device for moment in range(item["start_ts"], item["end_ts"])}
    counted = [item.device_ns for item in found.executions if item.direction is None] if found else []
    longest = sum(item["duration_ns"] for item in device)
    assert len(moments) <= sum(counted) <= longest
    assert len(counted) <= len(device)
