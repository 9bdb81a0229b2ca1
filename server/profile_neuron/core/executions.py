"""Device events of a profile to executions, each with the operators that asked for it.

What is joined is joined by identity: the External id of an operator, the correlation of a dispatch, the runtime's
sequence number. The order of events and the clocks of host and device are never used: how they relate is not known.
Sources: the categories are those that torch 2.13 writes for a PrivateUse1 back end; which of them count as the device
is server/adr/0013.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Literal

from profile_neuron.core.model import DeviceEvent, DeviceTrace, Direction, Execution

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from profile_neuron.core.model import Event, FrameworkTrace, Submission

Role = Literal["operator", "annotation", "frame", "dispatch", "flow", "kernel", "copy", "driver"]

# What the categories of events stand for. Names of Neuron's may become others: they are in this table alone.
ROLES: dict[str, Role] = {
    "cpu_op": "operator",
    "user_annotation": "annotation",
    "python_function": "frame",
    "ac2g": "flow",
    "privateuse1_runtime": "dispatch",
    "cuda_runtime": "dispatch",
    "cuda_driver": "dispatch",
    "kernel": "kernel",
    "gpu_memset": "kernel",
    "gpu_memcpy": "copy",
    "privateuse1_driver": "driver",
}

# Names that public traces and documentation of the runtime show for copies.
_TO_DEVICE = re.compile(r"h2d|htod|host.?to.?device|copy_?in|tensor_write", re.IGNORECASE)
_ON_DEVICE = re.compile(r"d2d|dtod|device.?to.?device", re.IGNORECASE)
_FROM_DEVICE = re.compile(r"d2h|dtoh|device.?to.?host|copy_?out|tensor_read", re.IGNORECASE)

# Names under which the runtime's number of an execution may stand; which of them it is, is not documented.
SEQUENCE_KEYS = ("nrt_sequence_id", "nrta_seq_id", "nrt_seq_id", "sequence_id", "seq_id")

QUEUEING = "times are of driver events and may include queueing"


# What tells that a device was asked for something, or did it.
_OF_DEVICE = ("dispatch", "kernel", "copy", "driver")


def is_of_device(category: object) -> bool:
    """Whether events of a category are about a device."""
    return role(category) in _OF_DEVICE


def role(category: object) -> Role | None:
    """What an event of a category is; None for one that says nothing here."""
    return ROLES.get(category.lower()) if isinstance(category, str) else None


def sequence_number(facts: Mapping[str, object]) -> int | None:
    """The runtime's number of an execution, in what is told of an event; None where it is not."""
    for key in SEQUENCE_KEYS:
        value = facts.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and value.isascii() and value.isdigit():
            return int(value)
    return None


def device_trace(
    events: Iterable[DeviceEvent],
    operators: tuple[Event, ...],
    source: str,
    dispatches: Mapping[int, int] | None = None,
    mapping: Mapping[int, tuple[Submission, ...]] | None = None,
    warnings: tuple[str, ...] = (),
) -> DeviceTrace | None:
    """The executions that device events are parts of; None where there are none.

    operators: the host's events, whose External ids the device events name. dispatches: the External id of the
    operator inside of which a dispatch was made, by its correlation. mapping: for the runtime's sequence number of an
    execution the sequence numbers of the framework at which it was submitted.
    """
    chosen, is_driver = _chosen(list(events))
    if not chosen:
        return None
    known = {event.external_id for event in operators if event.external_id is not None}
    executions = tuple(_executions(chosen, known, dispatches or {}, mapping or {}))
    return DeviceTrace(executions, operators, source, is_driver, warnings)


def device_trace_of(
    trace: FrameworkTrace, source: str, mapping: Mapping[int, tuple[Submission, ...]] | None = None
) -> DeviceTrace | None:
    """The executions that an exported trace tells of; None where it has no event of the device."""
    hosts = (*trace.operators, *trace.annotations, *trace.places)
    return device_trace(trace.device_events, hosts, source, mapping=mapping)


def union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """Time that at least one of the intervals, of start and end, covers."""
    total = 0
    covered_to: int | None = None
    for start, end in sorted(intervals):
        if covered_to is None or start > covered_to:
            covered_to = start
        if end > covered_to:
            total += end - covered_to
            covered_to = end
    return total


def direction(event: DeviceEvent) -> Direction | None:
    """Which way a copy goes; unknown for one that does not tell, None for what is no copy."""
    if event.role == "copy" and _ON_DEVICE.search(event.name):
        return "on device"
    if _TO_DEVICE.search(event.name):
        return "to device"
    if _FROM_DEVICE.search(event.name):
        return "from device"
    return "unknown" if event.role == "copy" else None


def _chosen(events: Sequence[DeviceEvent]) -> tuple[list[DeviceEvent], bool]:
    """The events whose time counts: what ran on the device, or where nothing tells that, the driver's view of it."""
    busy = [event for event in events if event.role in ("kernel", "copy")]
    return (busy, False) if busy else ([event for event in events if event.role == "driver"], True)


def _executions(
    events: Iterable[DeviceEvent],
    known: Container[int],
    dispatches: Mapping[int, int],
    mapping: Mapping[int, tuple[Submission, ...]],
) -> Iterable[Execution]:
    parts: dict[tuple[object, ...], list[DeviceEvent]] = defaultdict(list)
    for position, event in enumerate(events):
        operator = _operator(event, known, dispatches)
        identity = (operator, event.correlation, event.sequence)
        # Two that nothing is known of are not the same one.
        parts[identity if any(item is not None for item in identity) else (position, "alone")].append(event)
    for group in parts.values():
        first = group[0]
        linked = _operator(first, known, dispatches)
        sequence = first.sequence if first.sequence is not None else first.correlation
        submissions = mapping.get(sequence, ()) if sequence is not None else ()
        yield Execution(
            name=first.name,
            direction=direction(first),
            # Two physical cores that work on it together take the time once.
            device_ns=union_ns((event.start_ns, event.start_ns + event.duration_ns) for event in group),
            operators=() if linked is None else (linked,),
            # A mapping that names one submission says no more than the link does, and an operator is more than a line.
            submissions=submissions if linked is None or len(submissions) > 1 else (),
        )


def _operator(event: DeviceEvent, known: Container[int], dispatches: Mapping[int, int]) -> int | None:
    """The operator that asked for it, by its External id, else over the dispatch with the same correlation."""
    # Older exporters put the event's own number there.
    if event.external_id is not None and event.external_id in known:
        return event.external_id
    dispatched = dispatches.get(event.correlation) if event.correlation is not None else None
    return dispatched if dispatched is not None and dispatched in known else None
