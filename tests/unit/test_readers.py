"""Bytes of a run folder's files to types, and the sentences for what cannot be read."""

from __future__ import annotations

import gzip
import json

import pytest

from profile_neuron.capture.framework_trace import read_exported_trace, read_framework_trace
from profile_neuron.capture.line_log import read_line_log, read_record
from profile_neuron.capture.operator_table import read_operator_table
from profile_neuron.core.model import Event
from profile_neuron.errors import CaptureError
from tests.conftest import DATA

TRACES = DATA / "traces"


def trace(*events: dict, **head: object) -> bytes:
    return json.dumps({**head, "traceEvents": events}).encode()


def event(**changes: object) -> dict:
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mul",
        "pid": 1,
        "tid": 5,
        "ts": 1,
        "dur": 2,
        "args": {},
    } | changes


def test_stamps_keep_their_nanoseconds_at_any_size() -> None:
    content = (
        b'{"baseTimeNanoseconds": 1790857026000000000, "traceEvents": ['
        + json.dumps(event())
        .encode()
        .replace(b'"ts": 1', b'"ts": 5096346181423.879')
        .replace(b'"dur": 2', b'"dur": 0.879')
        + b"]}"
    )
    (found,) = read_framework_trace(content).events
    assert found == Event(
        "aten::mul", 5, 1790857026000000000 + 5096346181423879, 1790857026000000000 + 5096346181424758, 0
    )


def test_the_trace_that_torch_exported_gives_its_operators() -> None:
    found = read_framework_trace((TRACES / "torch-2.13.0-cpu-no_stack.json").read_bytes())
    assert found.warnings == ()
    names = [item.name for item in found.events]
    assert names.count("aten::matmul") == 2
    assert all(item.end_ns >= item.start_ns > 1_700_000_000_000_000_000 for item in found.events)


def test_gzip_is_known_by_its_first_bytes() -> None:
    plain = trace(event())
    assert read_framework_trace(gzip.compress(plain)) == read_framework_trace(plain)


def test_only_operators_of_the_host_are_read() -> None:
    content = trace(event(), event(cat="python_function"), event(ph="i"), event(cat="user_annotation"), {})
    assert len(read_framework_trace(content).events) == 1


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"dur": None}, "had no usable end, so no time is counted there"),
        ({"dur": -1}, "had no usable end, so no time is counted there"),
        ({"dur": True}, "had no usable end, so no time is counted there"),
        ({"ts": "soon"}, "had no usable time and had to be left out"),
        ({"ts": "nan"}, "had no usable time and had to be left out"),
        ({"tid": None}, "had no usable time and had to be left out"),
    ],
)
def test_an_operator_without_a_usable_time_is_left_out_and_counted(change: dict, warning: str) -> None:
    found = read_framework_trace(trace(event(), event(**change), event(**change)))
    assert len(found.events) == 1
    assert found.warnings == (f"2 events of the trace {warning}",)


def test_a_named_thread_is_one_thread_that_has_no_native_id() -> None:
    content = trace(event(tid="stream 7"), event(tid="stream 7"), event(tid="stream 8"), event(tid="5"))
    assert [item.thread for item in read_framework_trace(content).events] == [-1, -1, -2, 5]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"{", "no list of events"),
        (trace(event())[:-20], "cut short before the end of its first event"),
        (b'{"traceEvents": [', "cut short before the end of its first event"),
        (b"null", "no list of events"),
        (b"{}", "no list of events"),
        (b"\x1f\x8bbroken", "cannot be read"),
        (b"\x1f\x8b", "is empty"),
        (b"PAR1\x00\x01\x02", "no list of events"),
    ],
)
def test_a_trace_in_which_nothing_can_be_used_is_one_sentence(content: bytes, sentence: str) -> None:
    with pytest.raises(CaptureError, match=sentence):
        read_framework_trace(content)


def test_numbers_that_link_events_may_be_spelled_in_several_ways() -> None:
    spelled = [
        {"External id": 3, "correlation": 4, "nrt_sequence_id": 5},
        {"external id": "3", "correlation_id": "4", "seq_id": "5"},
    ]
    content = trace(event(args={"External id": 3}), *(event(cat="privateuse1_driver", args=item) for item in spelled))
    found = read_exported_trace(content)
    assert [(item.external_id, item.correlation, item.sequence) for item in found.device_events] == [(3, 4, 5)] * 2


@pytest.mark.parametrize("written", [-1, True, 1.5, "x", None, [1], "1" * 30])
def test_what_is_no_number_links_nothing(written: object) -> None:
    content = trace(event(cat="privateuse1_driver", args={"External id": written, "correlation": written}))
    (found,) = read_exported_trace(content).device_events
    assert (found.external_id, found.correlation) == (None, None)


def test_the_operator_table_gives_the_same_events_as_it_was_written_from() -> None:
    content = json.dumps({"schema": 1, "names": ["a", "b"], "events": [[1, 9, 100, 5, 2], [0, 9, 90, 30, 1]]})
    assert read_operator_table(content.encode()).trace.events == (
        Event("b", 9, 100, 105, 2, 2),
        Event("a", 9, 90, 120, 1, 1),
    )


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"schema": 9}', b'{"schema": 1, "names": [], "events": [[0, 1, 2, 3, 4]]}']
)
def test_another_format_of_our_own_files_is_one_sentence(content: bytes) -> None:
    for read in (read_operator_table, read_line_log, read_record):
        with pytest.raises(CaptureError, match=r"(is damaged|has schema 9)"):
            read(content)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"codes": [{"file": 7, "first_line": 1, "name": "f", "count": 1}]}, "refers to what it does not hold"),
        ({"lines": [{"code": 99, "line": 1}]}, "refers to what it does not hold"),
        ({"files": 3}, "field files holds 3"),
    ],
)
def test_a_line_log_with_wrong_references_is_damaged(change: dict, sentence: str) -> None:
    sound = {"schema": 1, "files": [{"path": "/m.py", "text": ""}], "codes": [], "lines": [], "earlier_threads": []}
    assert read_line_log(json.dumps(sound).encode()).files[0].package == ""
    with pytest.raises(CaptureError, match=sentence):
        read_line_log(json.dumps({**sound, **change}).encode())
