"""Bytes of torch's exported trace.json to a FrameworkTrace, whoever recorded it.

Source: the Chrome trace that torch 2.13.0 exports, and older ones as far as they differ. Times are microseconds with
three decimals, counted from baseTimeNanoseconds where that key exists; displayTimeUnit says nothing about them.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from profile_neuron.capture.event_list import EventList
from profile_neuron.capture.trace_links import Dispatch, Written, link
from profile_neuron.core.executions import SEQUENCE_KEYS, role
from profile_neuron.core.model import DeviceEvent, Event, FrameworkTrace, PythonFrame, Trace
from profile_neuron.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from profile_neuron.capture.trace_links import Lane

# How the numbers that link events are spelled. Those of Neuron's are assumed.
_ARGUMENTS = {
    "external id": ("External id", "external id", "External ID", "external_id"),
    "correlation": ("correlation", "correlation_id", "Correlation ID"),
    "sequence": SEQUENCE_KEYS,
    "frame": ("Python id",),
    "calling frame": ("Python parent id",),
}

# What has more digits is no number of a trace, and no time of this era in microseconds.
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_TIME_DIGITS = 18


def read_framework_trace(content: bytes) -> Trace:
    """Operators and our ranges of the host in the trace of a run of ours; nanoseconds since the epoch.

    Raises CaptureError as read_exported_trace does.
    """
    trace = read_exported_trace(content)
    return Trace(trace.operators, "exported trace", trace.warnings)


def read_exported_trace(content: bytes) -> FrameworkTrace:
    """All that a trace says, plain or gzip; nanoseconds since the epoch, or since its own zero.

    Raises CaptureError, in one sentence, where it holds no list of events or is cut before the first. An event that is
    damaged, or has no usable time, is left out and counted in a warning.
    """
    events = EventList(content)
    gathered = _Gathered(events.base_ns)
    position = -1
    for position, event in enumerate(events):
        gathered.add(position, event)
    if events.is_cut and position < 0:
        raise CaptureError("the trace is cut short before the end of its first event; profile again")
    warnings = (*_faults(events), *gathered.faults())
    linked = link(gathered.written)
    return FrameworkTrace(
        operators=tuple(linked.operators),
        annotations=tuple(gathered.written.annotations),
        places=tuple(linked.places),
        frames=tuple(gathered.frames),
        device_events=tuple(linked.device_events),
        dispatches=len(gathered.written.dispatches),
        status="partial" if warnings else "complete",
        warnings=warnings,
    )


def _faults(events: EventList) -> Iterator[str]:
    if events.is_cut:
        yield "the trace is cut short; what comes behind its last whole event is missing"
    if events.mended:
        yield f"{_events(events.mended)} of the trace had to be mended, since the file is no valid JSON there"
    if events.damaged:
        yield f"{_events(events.damaged)} of the trace could not be read and had to be left out"
    if events.has_foreign_bytes:
        yield "names in the trace hold bytes that are no UTF-8; they are shown with replacement characters"


def _events(count: int) -> str:
    return "1 event" if count == 1 else f"{count} events"


class _Row(NamedTuple):
    """One event with its times in nanoseconds; None for what it does not tell."""

    name: str
    # Numbers as they are written, other texts as numbers of our own below zero.
    thread: int | None
    start_ns: int | None
    duration_ns: int | None
    arguments: Mapping[str, Any]


class _Gathered:
    """The events of a trace by what they are, and what of them cannot be used."""

    def __init__(self, base_ns: int) -> None:
        self.written = Written()
        self.frames: list[PythonFrame] = []
        self._base_ns = base_ns
        self._untimed = 0
        self._untimed_on_device = 0
        self._named_threads: dict[str, int] = {}

    def add(self, position: int, event: Mapping[str, Any]) -> None:
        """Sort in the event at a position of the list, whatever it is."""
        kind, phase = role(event.get("cat")), event.get("ph")
        match kind:
            case None:
                return
            case "flow" if phase in ("s", "f"):
                self._add_flow(_integer(event.get("id")), self._row(event), None if phase == "s" else _lane(event))
            # One in two halves, of begin and end, has no duration in either; torch writes none.
            case "kernel" | "copy" | "driver" if phase in ("X", "B"):
                self._add_device_event(kind, self._row(event), _lane(event))
            case "frame" if phase in ("X", "B"):
                self._add_frame(self._row(event))
            case "operator" | "annotation" | "dispatch" if phase in ("X", "B"):
                self._add_host_event(position, kind, self._row(event))

    def faults(self) -> Iterator[str]:
        """What could not be used, one sentence for each kind."""
        if self._untimed:
            yield f"{_events(self._untimed)} of the trace had no usable time and had to be left out"
        if self.written.unfinished:
            yield f"{_events(len(self.written.unfinished))} of the trace had no usable end, so no time is counted there"
        if self._untimed_on_device:
            yield f"{_events(self._untimed_on_device)} of the device had no usable time, so no time is counted there"

    def _row(self, event: Mapping[str, Any]) -> _Row:
        arguments = event.get("args")
        start_ns, duration_ns = _ns(event.get("ts")), _ns(event.get("dur"))
        return _Row(
            name=_name(event.get("name")),
            thread=self._thread(event.get("tid")),
            start_ns=None if start_ns is None else start_ns + self._base_ns,
            duration_ns=None if duration_ns is None or duration_ns < 0 else duration_ns,
            arguments=arguments if isinstance(arguments, dict) else {},
        )

    def _thread(self, written: object) -> int | None:
        number = _integer(written)
        if number is None and isinstance(written, str):
            number = self._named_threads.setdefault(written, -1 - len(self._named_threads))
        return number

    def _add_host_event(self, position: int, kind: Literal["operator", "annotation", "dispatch"], row: _Row) -> None:
        if row.start_ns is None or row.thread is None:
            self._untimed += 1
            return
        end_ns = row.start_ns + (row.duration_ns or 0)
        external_id = _number(row, "external id")
        order = position if external_id is None else external_id
        event = Event(row.name, row.thread, row.start_ns, end_ns, order, external_id)
        if kind == "dispatch":
            dispatch = Dispatch(event, _number(row, "correlation"), _number(row, "sequence"))
            self.written.dispatches.append(dispatch)
        elif row.duration_ns is None:
            self.written.unfinished.append(event)
        elif kind == "operator":
            self.written.operators.append(event)
        else:
            self.written.annotations.append(event)

    def _add_frame(self, row: _Row) -> None:
        if row.start_ns is None or row.duration_ns is None or row.thread is None:
            self._untimed += 1
            return
        numbers = _number(row, "frame"), _number(row, "calling frame")
        self.frames.append(PythonFrame(row.name, row.thread, row.start_ns, row.start_ns + row.duration_ns, *numbers))

    def _add_device_event(self, kind: Literal["kernel", "copy", "driver"], row: _Row, lane: Lane) -> None:
        # A stamp that the device lost is written as 0.
        is_lost = row.start_ns == self._base_ns and row.duration_ns == 0
        if row.start_ns is None or row.duration_ns is None or is_lost:
            self._untimed_on_device += 1
            return
        numbers = _number(row, "external id"), _number(row, "correlation"), _number(row, "sequence")
        self.written.device_events.append(DeviceEvent(row.name, kind, row.start_ns, row.duration_ns, *numbers))
        self.written.device_lanes.append(lane)

    def _add_flow(self, number: int | None, row: _Row, end: Lane | None) -> None:
        """Note one end of a flow; end is where it leads, None at its start."""
        if number is None or row.start_ns is None:
            return
        if end is not None:
            self.written.flow_ends[end, row.start_ns] = number
        elif row.thread is not None:
            self.written.flow_starts.setdefault(number, (row.thread, row.start_ns))


def _lane(event: Mapping[str, Any]) -> Lane:
    return str(event.get("pid")), str(event.get("tid"))


def _number(row: _Row, what: str) -> int | None:
    """The number of something; one below zero is written for none."""
    for key in _ARGUMENTS[what]:
        if key in row.arguments:
            number = _integer(row.arguments[key])
            return number if number is not None and number >= 0 else None
    return None


def _integer(written: object) -> int | None:
    """A whole number, or its text; None for anything else."""
    if isinstance(written, bool):
        return None
    if isinstance(written, str) and _INTEGER.fullmatch(written):
        return int(written)
    return written if isinstance(written, int) else None


def _ns(microseconds: object) -> int | None:
    """Exact nanoseconds of a number or its text; None for anything else."""
    if isinstance(microseconds, bool) or not isinstance(microseconds, (int, str)):
        return None
    try:
        exact = Decimal(microseconds)
    except InvalidOperation:
        return None
    if not exact.is_finite() or exact.adjusted() >= _TIME_DIGITS:
        return None
    return int((exact * 1000).to_integral_value())


def _name(written: object) -> str:
    # Half of a surrogate pair can be neither printed nor stored.
    return written.encode(errors="replace").decode() if isinstance(written, str) else "unnamed"
