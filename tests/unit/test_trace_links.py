"""Which operator asked for what ran on the device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from profile_neuron.capture.event_list import EventList
from profile_neuron.capture.framework_trace import read_exported_trace
from profile_neuron.core.executions import role
from profile_neuron.core.foreign import foreign_profile
from tests.unit.test_readers import event, trace

# A folder with traces of other people, such as tests/data of facebookresearch/HolisticTraceAnalysis.
PUBLIC = os.environ.get("PUBLIC_TRACES", "")


def operator(number: int | None, ts: float, dur: float, name: str = "aten::mul") -> dict[str, Any]:
    return event(name=name, ts=ts, dur=dur, args={} if number is None else {"External id": number})


def dispatch(ts: float, dur: float = 1, **numbers: Any) -> dict[str, Any]:
    return event(cat="privateuse1_runtime", name="nrt_execute", ts=ts, dur=dur, args=arguments(numbers))


def execution(ts: float = 500, tid: object = 0, **numbers: Any) -> dict[str, Any]:
    return event(cat="privateuse1_driver", name="neff", pid=0, tid=tid, ts=ts, dur=9, args=arguments(numbers))


def flow(phase: str, number: int, ts: float, pid: int = 1, tid: int = 5) -> dict[str, Any]:
    return {"ph": phase, "cat": "ac2g", "name": "ac2g", "id": number, "pid": pid, "tid": tid, "ts": ts}


def arguments(numbers: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("external_id", "External id"): value for name, value in numbers.items()}


def asked_by(*events: dict[str, Any]) -> list[str | None]:
    """For each execution the name of what asked for it."""
    found = read_exported_trace(trace(*events))
    names = {item.external_id: item.name for item in (*found.operators, *found.places) if item.external_id is not None}
    return [names[item.external_id] if item.external_id is not None else None for item in found.device_events]


MM, ADD = operator(1, 10, 20, "aten::mm"), operator(2, 50, 20, "aten::add")


def test_an_external_id_names_the_operator() -> None:
    assert asked_by(MM, ADD, execution(external_id=2)) == ["aten::add"]


def test_an_external_id_of_no_operator_says_nothing() -> None:
    assert asked_by(MM, execution(external_id=7)) == [None]


def test_a_correlation_leads_over_the_dispatch() -> None:
    assert asked_by(MM, ADD, dispatch(55, external_id=1, correlation=9), execution(correlation=9)) == ["aten::mm"]


def test_a_dispatch_without_an_id_was_made_in_the_operator_that_was_open() -> None:
    inner = operator(3, 52, 4, "aten::fill_")
    for start, name in (
        (11, "aten::mm"),
        (29.9, "aten::mm"),
        (51, "aten::add"),
        (53, "aten::fill_"),
        (57, "aten::add"),
    ):
        assert asked_by(MM, ADD, inner, dispatch(start, 90, correlation=9), execution(correlation=9)) == [name]


def test_of_operators_with_the_same_start_the_longer_one_is_outside() -> None:
    inner = operator(3, 10, 5, "aten::fill_")
    for events in ([MM, inner], [inner, MM]):
        assert asked_by(*events, dispatch(12, correlation=9), execution(correlation=9)) == ["aten::fill_"]
        assert asked_by(*events, dispatch(16, correlation=9), execution(correlation=9)) == ["aten::mm"]


def test_a_dispatch_of_another_thread_was_not_made_in_it() -> None:
    other = dispatch(55, correlation=9) | {"tid": 6}
    assert asked_by(MM, ADD, other, execution(correlation=9)) == ["nrt_execute"]


def test_a_dispatch_outside_of_all_operators_stands_for_one() -> None:
    frame = event(cat="python_function", name="m.py(1): f", ts=0, dur=100, args={"Python id": 1})
    events = [frame, MM, dispatch(40, correlation=9), dispatch(45, correlation=10), execution(correlation=9)]
    assert asked_by(*events) == ["nrt_execute"]
    assert asked_by(*events, execution(correlation=10)) == ["nrt_execute"] * 2
    both = read_exported_trace(trace(*events, execution(correlation=10))).device_events
    assert both[0].external_id != both[1].external_id
    found = foreign_profile(read_exported_trace(trace(*events)))
    assert [(item.function.name, item.device_ns) for item in found.functions] == [("f", 9_000)]
    assert [item.name for item in found.operators] == ["aten::mm"], "it is no operator"


def test_ids_that_are_numbers_of_the_events_themselves_are_not_taken_for_operators() -> None:
    """Older exporters; 17 of 98 executions of a public trace would go to wrong operators."""
    events = [MM, ADD, dispatch(12, external_id=2, correlation=2), execution(external_id=2, correlation=2)]
    assert asked_by(*events) == ["aten::mm"]
    assert asked_by(*events, execution(external_id=1, correlation=1)) == ["aten::mm", None]


def test_an_id_may_be_equal_to_the_correlation_by_chance() -> None:
    events = [MM, ADD, dispatch(55, external_id=2, correlation=2), execution(external_id=2, correlation=2)]
    assert asked_by(*events, execution(external_id=1, correlation=1)) == ["aten::add", "aten::mm"]


def test_several_dispatches_of_one_correlation_name_none_unless_they_agree() -> None:
    two = [dispatch(12, correlation=9), dispatch(55, correlation=9)]
    assert asked_by(MM, ADD, *two, execution(correlation=9)) == [None]
    assert asked_by(MM, ADD, dispatch(14, correlation=9), two[0], execution(correlation=9)) == ["aten::mm"]


def test_one_dispatch_may_start_several_executions() -> None:
    events = [dispatch(12, correlation=9), execution(correlation=9), execution(700, correlation=9)]
    assert asked_by(MM, *events) == ["aten::mm"] * 2


def test_a_sequence_number_links_where_there_is_no_correlation() -> None:
    events = [dispatch(55, external_id=2, nrt_sequence_id=17), execution(nrt_sequence_id=17)]
    assert asked_by(MM, ADD, *events) == ["aten::add"]


def test_a_flow_links_what_it_ends_at_on_the_device() -> None:
    flows = [flow("s", 3, 12), flow("f", 3, 500, pid=0, tid=0)]
    assert asked_by(MM, execution(), *flows) == ["aten::mm"]
    assert asked_by(MM, execution(501), *flows) == [None]
    assert asked_by(MM, execution(tid="stream 7"), *flows) == [None]


def test_a_flow_that_ends_on_the_host_links_nothing() -> None:
    assert asked_by(MM, execution(), flow("f", 3, 500), flow("s", 3, 12)) == [None]


def test_a_flow_without_its_start_links_nothing() -> None:
    assert asked_by(MM, execution(), flow("f", 3, 500, pid=0, tid=0)) == [None]


def test_an_operator_without_a_number_can_be_named_all_the_same() -> None:
    events = [operator(None, 10, 20, "aten::mm"), dispatch(12, correlation=9), execution(correlation=9)]
    assert asked_by(*events) == ["aten::mm"]


def test_a_number_that_two_operators_claim_names_neither() -> None:
    twice = [operator(1, 10, 20, "aten::mm"), operator(1, 50, 20, "aten::add")]
    assert asked_by(*twice, execution(external_id=1)) == [None]
    by_time = [dispatch(55, external_id=1, correlation=9), execution(external_id=1, correlation=9)]
    assert asked_by(*twice, *by_time) == ["aten::add"]


def test_the_order_of_events_in_the_file_shows_nowhere() -> None:
    events = [MM, ADD, dispatch(12, correlation=9), dispatch(55, correlation=10), execution(correlation=9)]
    assert asked_by(*reversed(events)) == asked_by(*events) == ["aten::mm"]


@pytest.mark.skipif(not PUBLIC, reason="PUBLIC_TRACES names no folder")
def test_public_traces_keep_all_of_their_device_time() -> None:
    files = sorted(path for path in Path(PUBLIC).rglob("*.json*"))
    assert files
    for path in files:
        content = path.read_bytes()
        written = [item for item in EventList(content) if role(item.get("cat")) in ("kernel", "copy", "driver")]
        found = read_exported_trace(content)
        assert found.warnings == (), path
        assert len(found.device_events) == len(written), path
        told = sum(round(float(item["dur"]) * 1000) for item in written)
        assert sum(item.duration_ns for item in found.device_events) == told, path
        profile = foreign_profile(found)
        parts = sum(item.device_ns for item in profile.unattributed)
        assert parts + sum(item.own_device_ns or 0 for item in profile.functions) == (profile.device_ns or 0), path
