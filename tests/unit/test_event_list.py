"""What is wrong with one event costs that event, and never the file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.capture.framework_trace import read_exported_trace
from profile_neuron.core.foreign import foreign_profile
from profile_neuron.errors import CaptureError
from tests.unit.quirks import PLAIN, QUIRKS, Quirk, file
from tests.unit.test_readers import TRACES


@pytest.mark.parametrize("quirk", QUIRKS.values(), ids=QUIRKS)
def test_a_quirk_costs_no_other_event(quirk: Quirk) -> None:
    trace = read_exported_trace(quirk.content)
    found = foreign_profile(trace)
    if quirk.device_us is not None:
        assert (found.device_ns or 0) == quirk.device_us * 1000
    assert bool(trace.warnings or found.unattributed) == quirk.warns
    assert trace.status == ("partial" if trace.warnings else "complete")


def test_a_mended_name_is_the_one_that_was_meant() -> None:
    def names(quirk: str) -> list[str]:
        return [frame.name for frame in read_exported_trace(QUIRKS[quirk].content).frames]

    rest = ["model.py(4): f"] * 2
    assert names("quote in a name") == ['{"device": "cpu"}(1): f', *rest]
    assert names("all names with quotes") == ['a "b", {c}.py(4): f'] * 3
    assert names("bare backslashes") == ["C:\\Users\\new\\model.py(4): f", *rest]
    assert names("escaped backslashes") == ["C:\\Users\\new\\model.py(4): f", *rest]
    assert names("newline in a name") == ["lib = f(\n(1): <module>", *rest]
    assert names("bytes that are no UTF-8") == ["ǀ\ufffd(0): f", *rest]


def test_a_name_that_no_text_can_hold_is_shown_with_a_replacement() -> None:
    assert read_exported_trace(QUIRKS["half of a surrogate pair"].content).device_events[0].name == "?"


def test_a_file_that_was_begun_twice_gives_all_of_the_second_one() -> None:
    content = file(PLAIN)
    trace = read_exported_trace(content[: content.index(b'"cat"')] + content)
    assert len(trace.frames) == len(trace.device_events) == 3
    assert trace.warnings == ("1 event of the trace could not be read and had to be left out",)


def test_the_trace_that_torch_wrote_with_quotes_in_names_is_read() -> None:
    trace = read_exported_trace((TRACES / "torch-2.13.0-cpu-annotation-names.json").read_bytes())
    assert [item.name for item in trace.annotations][:3] == ['say "hi"', "b/s", "nl"]
    assert trace.warnings == ("1 event of the trace had to be mended, since the file is no valid JSON there",)


@pytest.mark.parametrize("content", [file(PLAIN), QUIRKS["compact"].content, QUIRKS["top-level list"].content])
def test_a_file_cut_anywhere_gives_what_is_whole(content: bytes) -> None:
    whole = read_exported_trace(content)
    times = sorted(event.duration_ns for event in whole.device_events)
    events = 0
    for length in range(len(content)):
        try:
            trace = read_exported_trace(content[:length])
        except CaptureError:
            assert not events, "once there is an event, more of the file does not lose it"
            continue
        found = [event.duration_ns for event in trace.device_events]
        assert found == times[: len(found)]
        assert trace.operators == whole.operators[: len(trace.operators)]
        assert len(trace.operators) + len(found) >= events
        events = len(trace.operators) + len(found)
        assert trace.status == "partial" or events == len(whole.operators) + len(times)


@given(st.integers(0), st.data())
def test_a_gzip_stream_cut_or_damaged_anywhere_gives_no_more_than_there_is(at: int, data: st.DataObject) -> None:
    content = QUIRKS["gzip"].content
    at %= len(content)
    damaged = content[:at] + data.draw(st.binary(max_size=20)) + content[at + data.draw(st.integers(0, 50)) :]
    try:
        trace = read_exported_trace(damaged)
    except CaptureError:
        return
    assert len(trace.device_events) <= 3


KEYS = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"]
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ARGUMENTS = st.dictionaries(NAMES, st.recursive(st.integers() | NAMES | st.none(), st.lists, max_leaves=4), max_size=3)


@st.composite
def well_formed(draw: st.DrawFn) -> list[str]:
    """Events as texts, in one of the layouts that are in the wild, each with its position for its start."""
    layout: dict[str, Any] = draw(
        st.sampled_from([{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}])
    )
    texts = []
    for position in range(draw(st.integers(2, 6))):
        event = {"ph": "X", "cat": "cpu_op", "name": draw(NAMES), "pid": 1, "tid": 1, "ts": position, "dur": 1}
        event["args"] = draw(ARGUMENTS)
        order = draw(st.permutations(KEYS))
        texts.append(json.dumps({key: event[key] for key in order}, **layout))
    return texts


@given(well_formed(), st.data())
def test_damage_of_one_event_costs_no_other_one(texts: list[str], data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, len(texts) - 1), "which")
    raw = texts[bad].encode()
    start = data.draw(st.integers(0, len(raw) - 1), "from")
    stop = data.draw(st.integers(start, len(raw)), "to")
    noise = data.draw(st.binary(max_size=8).filter(lambda item: b"]" not in item), "instead")
    events = [text.encode() for text in texts]
    events[bad] = raw[:start] + noise + raw[stop:]
    separator = data.draw(st.sampled_from([b",", b",\n  ", b" , "]), "between")
    content = b'{"traceEvents": [\n' + separator.join(events) + b'\n], "traceName": "x"}'
    found = [(event.name, event.start_ns) for event in read_exported_trace(content).operators]
    for position, text in enumerate(texts):
        assert position == bad or (json.loads(text)["name"], position * 1000) in found
