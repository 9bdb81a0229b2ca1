"""Bytes of our operator table to a trace and events of the device; written by worker/torch_host.py, schema 1.

events has for each operator or range of the host the position of its name in names, the native thread id, start and
duration in nanoseconds since the epoch, and the External id. device_events has for each other event the positions of
its name and category, start and duration on the profiler's clock, the External id of the operator that it is linked
to and its correlation, 0 for none, and the position of what the back end adds to it, JSON of its own. threads has
pairs of native thread ids and torch's own numbers of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from profile_neuron.core.executions import role, sequence_number
from profile_neuron.core.model import DeviceEvent, Event, Trace
from profile_neuron.core.run_folder import SCHEMA
from profile_neuron.errors import CaptureError


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """What the profiler held in the worker's process."""

    trace: Trace
    device_events: tuple[DeviceEvent, ...]
    # External id of the operator inside of which a dispatch was made, by its correlation.
    dispatches: dict[int, int]
    # Native thread ids by torch's own numbers of threads.
    threads: dict[int, int]


def read_operator_table(content: bytes) -> OperatorTable:
    """Events in the order of the file. Raises CaptureError for another format."""
    try:
        table = json.loads(content)
        if table["schema"] != SCHEMA:
            raise CaptureError(f"the operator table has schema {table['schema']!r}, and this version reads {SCHEMA}")
        names = [str(name) for name in table["names"]]
        events = tuple(
            Event(names[name], thread, start_ns, start_ns + duration_ns, external_id, external_id)
            for name, thread, start_ns, duration_ns, external_id in table["events"]
        )
        device_events: list[DeviceEvent] = []
        dispatches: dict[int, int] = {}
        for name, category, start_ns, duration_ns, linked, correlation, facts in table.get("device_events", ()):
            match role(names[category]):
                case "dispatch":
                    if linked and correlation:
                        dispatches[correlation] = linked
                case "kernel" | "copy" | "driver" as found:
                    device_events.append(
                        DeviceEvent(
                            names[name], found, start_ns, duration_ns, linked or None, correlation or None,
                            _sequence(names[facts]),
                        )
                    )  # fmt: skip
        threads = {number: thread for thread, number in table.get("threads", ())}
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise CaptureError(f"the operator table is damaged ({error}); profile again") from error
    return OperatorTable(Trace(events, "operator table", ()), tuple(device_events), dispatches, threads)


def _sequence(facts: str) -> int | None:
    """The runtime's number of an execution in what the back end added to its event."""
    if not facts:
        return None
    try:
        # torch gives the inside of an object without its braces.
        found: Any = json.loads(facts if facts.lstrip().startswith("{") else f"{{{facts}}}")
    except ValueError:
        return None
    return sequence_number(found) if isinstance(found, dict) else None
