"""Bytes of a run folder's files to types, and the sentences for what cannot be read."""

from __future__ import annotations

import gzip
import json

import pytest

from profile_neuron.capture.framework_trace import read_framework_trace
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


@pytest.mark.parametrize("change", [{"dur": None}, {"dur": -1}, {"ts": "soon"}, {"tid": "stream 7"}])
def test_an_event_without_a_usable_time_is_left_out_and_counted(change: dict) -> None:
    found = read_framework_trace(trace(event(), event(**change)))
    assert len(found.events) == 1
    assert found.warnings == ("1 events of the trace had no usable time and are left out",)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "does not parse at line 1, column 1"),
        (b"{", "does not parse at line 1"),
        (trace(event())[:-20], "does not parse at line 1"),
        (b"null", "no list of events"),
        (b"{}", "no list of events"),
        (b"\x1f\x8bbroken", "cannot be read"),
    ],
)
def test_a_trace_that_does_not_parse_as_a_whole_is_one_sentence(content: bytes, sentence: str) -> None:
    with pytest.raises(CaptureError, match=sentence):
        read_framework_trace(content)


def test_the_invalid_trace_that_torch_writes_for_a_quote_in_a_name_is_one_sentence() -> None:
    with pytest.raises(CaptureError, match="does not parse at line 84, column 19"):
        read_framework_trace((TRACES / "torch-2.13.0-cpu-annotation-names.json").read_bytes())


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
