"""Rows of the tables that Neuron Explorer makes of a capture to what ran on the device.

Source: the schema reference of Neuron Explorer, version 7.4.0 of SDK 2.31. Executions, the runtime's events and the
framework's are joined by the flow ids that they share, never by name or time: names differ in the overload, and the
clock of the device is only near that of the host.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from profile_neuron.core.executions import union_ns
from profile_neuron.core.model import DeviceTrace, Event, Execution
from profile_neuron.core.run_folder import OUR_RANGES
from profile_neuron.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from profile_neuron.core.model import Direction

# Names of tables, and the columns of the first that are read.
SYSTEM_EVENTS = "SystemProfileEvents"
WARNINGS = "Warning"
COLUMNS = (
    "id",
    "name",
    "start_ts",
    "end_ts",
    "trace_event_source",
    "process_id",
    "thread_id",
    "nc_idx",
    "flow_id",
    "framework_stream_id",
)

SOURCE = "system profile of Neuron Explorer"
NO_RANGES = "the system profile of Neuron Explorer shows none of the lines that ran, so its device time has no line"

# Without one of these no row can be read.
_NEEDED = ("name", "start_ts", "end_ts", "trace_event_source")
_FRAMEWORK, _RUNTIME, _DEVICE = "framework", "neuron_rt", "neuron_hw"
_EXECUTION = "nc_exec_running"
# Copies are named by the schema's directions of memory bandwidth; the runtime tells them, and not the device.
_COPIES: dict[str, Direction] = {"dmem_buf_copyin": "to device", "dmem_buf_copyout": "from device"}
# From here on a float may stand for several whole numbers; tables with gaps are written with floats by some tools.
_EXACT_FLOATS = 1 << 53
_DROPPED = re.compile(r"([0-9]+) trace events were dropped")


def check_columns(names: Iterable[str]) -> None:
    """Raises CaptureError where a table has not the columns that no row can be read without."""
    names = frozenset(names)
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise CaptureError(
            f"the table {SYSTEM_EVENTS} of Neuron Explorer has no column {' or '.join(missing)}, so it is of a version "
            "that is not known here (schema 7.4.0 has them); update aws-neuronx-tools, and profile again"
        )


def read_system_events(
    rows: Iterable[Mapping[str, object]], pid: int, messages: Iterable[str] = ()
) -> DeviceTrace | None:
    """The executions of one process with the operators that asked for them; None where there are none.

    rows: of the table of system events, in any order. messages: of the table of warnings. Events are the framework's
    rows on threads, by which an operator stands inside of our ranges, and their External ids are the ids of the rows.
    A row that is not usable is left out and counted in a warning; one of another process is left out.
    """
    table = _Table(rows, pid)
    has_ranges = any(row.name.startswith(OUR_RANGES) for row in table.on_threads)
    executions = tuple(_executions(table, has_ranges))
    if not executions:
        return None
    dropped = tuple(_dropped(messages))
    warnings = (*([] if has_ranges else [NO_RANGES]), *table.warnings, *dropped)
    events = tuple(map(_event, table.on_threads))
    is_incomplete = bool(dropped or table.warnings)
    return DeviceTrace(executions, events, SOURCE, warnings=warnings, is_incomplete=is_incomplete)


class _Row(NamedTuple):
    """What is used of one row."""

    # None where it has none, which matters for the framework's rows alone.
    id: int | None
    name: str
    start_ns: int
    end_ns: int
    thread: int | None
    core: int | None
    flows: frozenset[str]
    # On the lane of a stream, and not on that of a thread.
    is_of_stream: bool


class _Table:
    """The rows of one process by what told them; where their order can show, it is not that of the table."""

    def __init__(self, rows: Iterable[Mapping[str, object]], pid: int) -> None:
        found: dict[str, list[_Row]] = defaultdict(list)
        self._unusable = 0
        for fields in rows:
            if _number(fields.get("process_id")) not in (None, pid):
                continue
            source, row = fields.get("trace_event_source"), _row(fields)
            if row is None or not isinstance(source, str) or (source == _FRAMEWORK and None in (row.id, row.thread)):
                self._unusable += 1
            elif source != _FRAMEWORK and (row.name == _EXECUTION or row.name in _COPIES):
                found[_DEVICE].append(row)
            elif source in (_FRAMEWORK, _RUNTIME):
                found[source].append(row)
        self.device = sorted(found[_DEVICE], key=_order)
        self.runtime = found[_RUNTIME]
        self.framework = self._unambiguous(found[_FRAMEWORK])
        self.on_threads = sorted((row for row in self.framework if not row.is_of_stream), key=_order)

    @property
    def warnings(self) -> tuple[str, ...]:
        if not self._unusable:
            return ()
        return (f"{self._unusable} rows of Neuron Explorer's system profile cannot be used and are left out",)

    def _unambiguous(self, rows: list[_Row]) -> list[_Row]:
        times = Counter(row.id for row in rows)
        single = [row for row in rows if times[row.id] == 1]
        self._unusable += len(rows) - len(single)
        return single


def _executions(table: _Table, has_ranges: bool) -> Iterator[Execution]:
    chains = _Chains(table)
    for group in _groups(table.device):
        name = group[0].name
        operators = chains.operators(_flows_of(group)) if has_ranges else ()
        # A copy is no work of a NeuronCore, and without an operator there is nothing else to say of it.
        if name not in _COPIES or operators:
            # Two physical cores that work on it together take the time once.
            device_ns = union_ns((row.start_ns, row.end_ns) for row in group)
            yield Execution(name, _COPIES.get(name), device_ns, operators)


def _groups(rows: Sequence[_Row]) -> Iterable[list[_Row]]:
    """Rows of one execution each: those of a name that share flow ids, and of those without any the ones of a core."""
    joined = {name: _Joined(row for row in rows if row.name == name) for name in {row.name for row in rows}}
    groups: dict[tuple[object, ...], list[_Row]] = defaultdict(list)
    for row in rows:
        flow = next(iter(row.flows), None)
        groups[(row.name, "core", row.core) if flow is None else (row.name, joined[row.name].leader(flow))].append(row)
    return groups.values()


class _Chains:
    """The way from an execution back over the runtime's rows to the framework's."""

    def __init__(self, table: _Table) -> None:
        self._runtime = _Joined(table.runtime)
        self._by_leader: dict[str, list[_Row]] = defaultdict(list)
        self._by_flow: dict[str, list[_Row]] = defaultdict(list)
        for row in table.framework:
            for flow in row.flows:
                self._by_leader[self._runtime.leader(flow)].append(row)
                self._by_flow[flow].append(row)
        self._known: dict[frozenset[str], tuple[int, ...]] = {}

    def operators(self, flows: frozenset[str]) -> tuple[int, ...]:
        """Ids of the framework's rows on threads, sorted; several for what several operators share.

        A row on a stream stands for one on a thread and may be all that the runtime's rows are linked to. Rows on
        threads are not followed further: flows between them may lead from a backward pass to its forward one.
        """
        leaders = frozenset(map(self._runtime.leader, flows))
        if leaders not in self._known:
            linked = [row for leader in leaders for row in self._by_leader.get(leader, ())]
            on_streams = _flows_of(row for row in linked if row.is_of_stream)
            linked += (row for flow in on_streams for row in self._by_flow[flow])
            found = {row.id for row in linked if row.id is not None and not row.is_of_stream}
            self._known[leaders] = tuple(sorted(found))
        return self._known[leaders]


class _Joined:
    """Flow ids that rows have in common, directly or over other rows, as one."""

    def __init__(self, rows: Iterable[_Row]) -> None:
        self._above: dict[str, str] = {}
        for row in rows:
            for flow in row.flows:
                self._above[self.leader(flow)] = self.leader(next(iter(row.flows)))

    def leader(self, flow: str) -> str:
        """One of the ids that stands for all those joined with it; of an id in no row itself."""
        while (above := self._above.get(flow, flow)) != flow:
            # Shortens the way for the next time.
            self._above[flow] = self._above.get(above, above)
            flow = above
        return flow


def _flows_of(rows: Iterable[_Row]) -> frozenset[str]:
    return frozenset(flow for row in rows for flow in row.flows)


def _event(row: _Row) -> Event:
    assert row.id is not None
    assert row.thread is not None
    return Event(row.name, row.thread, row.start_ns, row.end_ns, order=row.id, external_id=row.id)


def _dropped(messages: Iterable[str]) -> Iterator[str]:
    """What the viewer says of events that the runtime's buffers had no room for."""
    count = sum(int(found[1]) for message in sorted(set(messages)) if (found := _DROPPED.search(message)))
    if count:
        yield f"{count} events of the system profile were dropped, so that times are lower bounds; profile fewer calls"


def _row(fields: Mapping[str, object]) -> _Row | None:
    name = fields.get("name")
    start_ns, end_ns = _number(fields.get("start_ts")), _number(fields.get("end_ts"))
    if not isinstance(name, str) or start_ns is None or end_ns is None or end_ns < start_ns:
        return None
    thread = _number(fields.get("thread_id"))
    # The stream of an event is told in other rows too, but is the number of the lane in those of the driver alone.
    stream = _number(fields.get("framework_stream_id"))
    return _Row(
        id=_number(fields.get("id")),
        name=name,
        start_ns=start_ns,
        end_ns=end_ns,
        thread=thread,
        core=_number(fields.get("nc_idx")),
        flows=_flows(fields.get("flow_id")),
        is_of_stream=stream is not None and stream == thread,
    )


def _order(row: _Row) -> tuple[object, ...]:
    return (row.start_ns, row.end_ns, row.name, row.id or 0, row.core or 0, sorted(row.flows))


def _number(value: object) -> int | None:
    """A whole number, or the text of one; None for anything else."""
    if type(value) is int:
        # Nearly always, and a table has millions.
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOATS:
        return int(value)
    if not isinstance(value, str):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def _flows(value: object) -> frozenset[str]:
    """Flow ids as text, of a list, of the text of a list, or of a single one."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value)
    items = value if isinstance(value, (list, tuple)) else [value]
    return frozenset(str(item) for item in items if isinstance(item, (int, str)) and not isinstance(item, bool)) - {""}
