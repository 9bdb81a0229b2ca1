"""Which operator asked for each event of the device, as an exported trace links them.

A link is taken in the order of how much it says: the External id of an operator; the dispatch of the same correlation
or sequence number, and for it the operator that was open on its thread when it began; the same for the start of a flow
that ends at the event. The clock of the device never matters.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from profile_neuron.core.model import DeviceEvent, Event

# Process and thread, as a trace writes them.
Lane = tuple[str, str]


class Dispatch(NamedTuple):
    """What the host asked the device for."""

    event: Event
    correlation: int | None
    sequence: int | None


@dataclass(slots=True)
class Written:
    """The events of a trace that links are between, with what is written about them."""

    operators: list[Event] = field(default_factory=list)
    annotations: list[Event] = field(default_factory=list)
    # Operators whose end is not known; of no length.
    unfinished: list[Event] = field(default_factory=list)
    dispatches: list[Dispatch] = field(default_factory=list)
    device_events: list[DeviceEvent] = field(default_factory=list)
    # Of each event of the device; with its start it is how a flow names it.
    device_lanes: list[Lane] = field(default_factory=list)
    # Thread and time on the host, by the number of the flow.
    flow_starts: dict[int, tuple[int, int]] = field(default_factory=dict)
    # Number of the flow by where it ends; most ends lie on the host, at what started nothing on the device.
    flow_ends: dict[tuple[Lane, int], int] = field(default_factory=dict)


class Linked(NamedTuple):
    """The same events, with External ids that are those of operators."""

    operators: list[Event]
    # Unfinished operators, and dispatches that stand for an operator where there is none.
    places: list[Event]
    device_events: list[DeviceEvent]


def link(written: Written) -> Linked:
    """Give each event of the device the External id of the operator that asked for it, or none."""
    linker = _Linker(written)
    device_events = [
        replace(event, external_id=linker.operator_of(event, lane))
        for event, lane in zip(written.device_events, written.device_lanes, strict=True)
    ]
    return Linked(linker.operators, linker.places, device_events)


class _Linker:
    def __init__(self, written: Written) -> None:
        claims = Counter(event.external_id for event in _hosts(written))
        # Of the operators that claim one number none can be meant.
        self._known = {number for number, count in claims.items() if number is not None and count == 1}
        self.operators = written.operators
        self.places = written.unfinished
        self._dispatches = written.dispatches
        self._flow_ends = written.flow_ends
        self._around = _innermost(self.operators, [(event.thread, event.start_ns) for event, *_ in self._dispatches])
        self._has_own_numbers = self._numbers_itself()
        # Positions of dispatches.
        self._by_correlation: dict[int, list[int]] = defaultdict(list)
        self._by_sequence: dict[int, list[int]] = defaultdict(list)
        for position, (_, correlation, sequence) in enumerate(self._dispatches):
            if correlation is not None:
                self._by_correlation[correlation].append(position)
            if sequence is not None:
                self._by_sequence[sequence].append(position)
        around = _innermost(self.operators, list(written.flow_starts.values()))
        self._flow_starts = dict(zip(written.flow_starts, around, strict=True))
        # External ids by the position of a dispatch.
        self._dispatched: dict[int, int] = {}
        self._made = 0

    def operator_of(self, event: DeviceEvent, lane: Lane) -> int | None:
        """The External id of the operator that asked for it; None where none is known."""
        trusted = self._trusted(event.external_id, event.correlation)
        if trusted is not None:
            return trusted
        for number, dispatches in ((event.correlation, self._by_correlation), (event.sequence, self._by_sequence)):
            if number is not None and number in dispatches:
                operators = {self._dispatched_in(position) for position in dispatches[number]}
                # ROCm gives several dispatches one correlation (kineto#1416).
                return operators.pop() if len(operators) == 1 else None
        flow = self._flow_ends.get((lane, event.start_ns))
        around = self._flow_starts.get(flow) if flow is not None else None
        return self._named(around) if around is not None else None

    def _numbers_itself(self) -> bool:
        """Whether External ids of dispatches and of the device are numbers of their own, as older exporters write.

        They are then equal to the correlation, and to the number of an operator by chance alone (kineto#843).
        """
        return any(
            event.external_id == correlation
            and event.external_id in self._known
            and (around is None or self.operators[around].external_id != correlation)
            for (event, correlation, _), around in zip(self._dispatches, self._around, strict=True)
        )

    def _trusted(self, external_id: int | None, correlation: int | None) -> int | None:
        """The External id where it is that of an operator, else None."""
        is_own = self._has_own_numbers and external_id == correlation
        return external_id if external_id in self._known and not is_own else None

    def _dispatched_in(self, position: int) -> int:
        """The External id of the operator that a dispatch was made in, or of what stands for it where there is none."""
        if position not in self._dispatched:
            event, correlation, _ = self._dispatches[position]
            around = self._around[position]
            number = self._trusted(event.external_id, correlation)
            if number is None and around is not None:
                number = self._named(around)
            if number is None:
                number = self._new_number()
                self.places.append(replace(event, end_ns=event.start_ns, external_id=number))
            self._dispatched[position] = number
        return self._dispatched[position]

    def _named(self, position: int) -> int:
        """The External id of an operator, which gets one of ours where it has none of its own alone."""
        operator = self.operators[position]
        if operator.external_id is None or operator.external_id not in self._known:
            operator = self.operators[position] = replace(operator, external_id=self._new_number())
        assert operator.external_id is not None
        return operator.external_id

    def _new_number(self) -> int:
        self._made -= 1
        self._known.add(self._made)
        return self._made


def _hosts(written: Written) -> Iterator[Event]:
    yield from written.operators
    yield from written.annotations
    yield from written.unfinished


def _innermost(spans: Sequence[Event], moments: Sequence[tuple[int, int]]) -> list[int | None]:
    """For each moment, of thread and time, the position of the innermost span that was open; None for none.

    A span is open from its start until before its end. Of two with the same start the longer one is outside. Whether it
    holds all of what began at the moment is not asked: in traces that often fails by less than a microsecond.
    """
    found: list[int | None] = [None] * len(moments)
    order = sorted(range(len(spans)), key=lambda at: (spans[at].thread, spans[at].start_ns, -spans[at].end_ns))
    opened: list[int] = []
    reached = 0
    for moment in sorted(range(len(moments)), key=moments.__getitem__):
        thread, time_ns = moments[moment]
        while reached < len(order):
            span = spans[order[reached]]
            if (span.thread, span.start_ns) > (thread, time_ns):
                break
            opened.append(order[reached])
            reached += 1
        while opened and (spans[opened[-1]].thread != thread or spans[opened[-1]].end_ns <= time_ns):
            opened.pop()
        found[moment] = opened[-1] if opened else None
    return found
