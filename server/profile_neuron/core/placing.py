"""Events of a trace to operators, each with its self time, its call and its stack of line numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from profile_neuron.core.model import COMPILED_REGION
from profile_neuron.core.run_folder import CALL_RANGE, LINE_RANGE, OUR_RANGES, range_number

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from profile_neuron.core.model import Event

OUTSIDE_OPERATORS = "(outside of operators)"
_BACKWARD = "autograd::engine::evaluate_function"
_ATEN = "aten::"
# What torch.compile does around a region on the way into it.
_COMPILE_ENTRY = ("TorchDynamo Cache Lookup", COMPILED_REGION)


class Outermost(NamedTuple):
    """The operator that a line dispatches, whatever that one dispatches in turn."""

    name: str
    # Tells it from all others of the trace.
    thread: int
    order: int
    duration_ns: int


class Operator(NamedTuple):
    """One operator of the profiled calls, placed."""

    name: str
    call: int
    self_ns: int
    # Numbers of the enclosing line ranges, outermost first.
    lines: tuple[int, ...]
    # Listed for its line: a top-level aten operator or a compiled call, outside of a backward pass.
    listed: bool
    backward: bool
    # Part of entering a compiled function, or of what runs inside of one.
    compiled: bool
    # On a thread that started after the first call began.
    other_thread: bool
    # Counted as a call of its own in the operator table.
    counted: bool
    # The listed one that it is, or is inside of; None in neither.
    outermost: Outermost | None


@dataclass(slots=True)
class Seen:
    """What the events of the calls hold beside the function's operators."""

    # Numbers of the lines that ran, outside of compiled calls and backward passes.
    lines: set[int] = field(default_factory=set)
    # Operators left out, since they are of threads that ran before the first call.
    foreign_operators: int = 0
    # Of the operators that are named by their External id, and of ranges that are: what is started while no operator
    # is on stands on the line itself.
    by_id: dict[int, Operator] = field(default_factory=dict)


def place_operators(
    events: Iterable[Event],
    calls: Calls,
    earlier_threads: Iterable[int],
    seen: Seen,
    named: Container[int] = (),
) -> Iterator[Operator]:
    """Operators inside of profiled calls, with self times and lines; notes in seen what is not an operator.

    named: External ids that something refers to.
    """
    earlier = frozenset(earlier_threads)
    threads: dict[int, list[Event]] = defaultdict(list)
    # Sorted as a whole, so that the order in which a source lists them shows nowhere in the result. Of two
    # with the same start the longer one is outside, and of equal ones the one that was opened first.
    for event in sorted(events, key=lambda item: (item.start_ns, -item.end_ns, item.thread, item.order)):
        threads[event.thread].append(event)
    for thread, timeline in threads.items():
        for node in _nest(timeline):
            call = calls.at(node.event.start_ns)
            if call is None:
                continue
            other_thread, identity = thread not in calls.threads, node.event.external_id
            if node.kind.is_ours:
                number = node.kind.line
                if number is not None and not node.compiled and not node.backward:
                    seen.lines.add(number)
                if identity is not None and identity in named:
                    lines = node.lines if number is None or node.compiled else (*node.lines, number)
                    # What is started on a line while no operator is on has no other name.
                    name = node.operator.event.name if node.operator is not None else OUTSIDE_OPERATORS
                    placed = _operator(node, call, 0, other_thread)
                    seen.by_id[identity] = placed._replace(name=name, lines=lines, listed=False, counted=False)
                continue
            if other_thread and thread in earlier and not node.lines and not node.backward:
                seen.foreign_operators += 1
                continue
            operator = _operator(node, call, node.event.end_ns - node.event.start_ns - node.inner_ns, other_thread)
            if identity is not None and identity in named:
                seen.by_id[identity] = operator
            yield operator


def _operator(node: _Node, call: int, self_ns: int, other_thread: bool) -> Operator:
    return Operator(
        name=node.event.name,
        call=call,
        self_ns=self_ns,
        lines=node.lines,
        listed=node.listed,
        backward=node.backward,
        compiled=node.compiled,
        other_thread=other_thread,
        counted=not node.is_repeated,
        outermost=node.outermost,
    )


@dataclass(slots=True)
class _Node:
    """An event with what its place among the events of its thread says about it."""

    event: Event
    kind: _Kind
    lines: tuple[int, ...]
    listed: bool
    in_aten: bool
    backward: bool
    compiled: bool
    # Duration of the operators directly inside; ranges of ours are looked through.
    inner_ns: int = 0
    inner_count: int = 0
    operator: _Node | None = field(default=None, repr=False)
    outermost: Outermost | None = None

    @property
    def is_repeated(self) -> bool:
        """An operator that only hands on to one of its own name; torch's tables count the two as one."""
        outer = self.operator
        return outer is not None and outer.event.name == self.event.name and outer.inner_count == 1


def _nest(timeline: list[Event]) -> list[_Node]:
    """Events of one thread with what encloses them."""
    nodes: list[_Node] = []
    stack: list[_Node] = []
    for event in timeline:
        while stack and stack[-1].event.end_ns <= event.start_ns:
            stack.pop()
        node = _node(event, stack[-1] if stack else None)
        operator = node.operator
        if operator is not None and not node.kind.is_ours:
            # In a damaged trace an event may end after the one that it began in.
            operator.inner_ns += min(event.end_ns, operator.event.end_ns) - event.start_ns
            operator.inner_count += 1
        nodes.append(node)
        stack.append(node)
    return nodes


def _node(event: Event, outer: _Node | None) -> _Node:
    kind = _kind(event.name)
    if outer is None:
        lines: tuple[int, ...] = ()
        in_aten = backward = compiled = False
        operator = outermost = None
    else:
        # What runs inside of a compiled call stays on the line that made the call.
        number = outer.kind.line
        lines = outer.lines if number is None or outer.compiled else (*outer.lines, number)
        in_aten = outer.in_aten or outer.kind.is_aten
        backward = outer.backward
        compiled = outer.compiled
        operator = outer.operator if outer.kind.is_ours else outer
        outermost = outer.outermost
    backward = backward or kind.is_backward
    listed = not backward and not compiled and (kind.is_region or (kind.is_aten and not in_aten))
    compiled = compiled or kind.is_compile_entry
    if listed:
        outermost = Outermost(event.name, event.thread, event.order, event.end_ns - event.start_ns)
    return _Node(event, kind, lines, listed, in_aten, backward, compiled, operator=operator, outermost=outermost)


class _Kind(NamedTuple):
    """What an event's name says about it."""

    # Number in the name of a line range; None for any other event.
    line: int | None
    is_ours: bool
    is_aten: bool
    is_backward: bool
    is_region: bool
    is_compile_entry: bool


# A trace of a million events has a few hundred names.
@cache
def _kind(name: str) -> _Kind:
    return _Kind(
        line=range_number(name, LINE_RANGE),
        is_ours=name.startswith(OUR_RANGES),
        is_aten=name.startswith(_ATEN),
        is_backward=name.startswith(_BACKWARD),
        is_region=name.startswith(COMPILED_REGION),
        is_compile_entry=name.startswith(_COMPILE_ENTRY),
    )


class Calls:
    """The profiled calls, one after the other on one thread."""

    def __init__(self, events: Iterable[Event]) -> None:
        found = [
            (event.start_ns, event.end_ns, number, event.thread)
            for event in events
            if (number := range_number(event.name, CALL_RANGE)) is not None
        ]
        self._windows = sorted(found)
        self._starts = [start for start, *_ in self._windows]
        self.threads = frozenset(thread for *_, thread in found)

    def __len__(self) -> int:
        return len(self._windows)

    def at(self, time_ns: int) -> int | None:
        """Number of the call that was on at a time."""
        index = bisect_right(self._starts, time_ns) - 1
        if index < 0 or time_ns >= self._windows[index][1]:
            return None
        return self._windows[index][2]
