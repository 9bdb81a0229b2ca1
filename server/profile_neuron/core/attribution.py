"""Trace and line log to costs per line; the rule has a version, kept with the result.

Time here is host time: the self time of every operator, its duration less that of the operators inside it,
on all threads. An operator's enclosing line ranges are its stack of project lines. Within one function it
belongs to the innermost line inside that function's own source; a compiled call, with all that runs in it,
belongs to the line that made it.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from profile_neuron.core.apportion import apportion
from profile_neuron.core.discovery import spans
from profile_neuron.core.model import (
    COMPILED_REGION,
    FunctionCosts,
    LineCost,
    LineCosts,
    OperatorCalls,
    OperatorRow,
    SourceFile,
)
from profile_neuron.core.run_folder import CALL_RANGE, LINE_RANGE, OUR_RANGES, range_number
from profile_neuron.errors import CaptureError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from profile_neuron.core.model import Event, FunctionSpan, LineLog, RunRecord, Trace

RULE_VERSION = 1

_BACKWARD = "autograd::engine::evaluate_function"
_ATEN = "aten::"
# What torch.compile does around a region on the way into it.
_COMPILE_ENTRY = ("TorchDynamo Cache Lookup", COMPILED_REGION)

BACKWARD_REASON = "the backward pass, whose operators have no line yet"
NO_OPERATORS = "no operators ran"
THREAD_REASON = "work in threads that no line of the function runs in"


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


def attribute(record: RunRecord, trace: Trace, log: LineLog) -> LineCosts:
    """Costs of the profiled function, then of each project function that ran in its calls, in source order.

    Raises CaptureError where the trace holds no profiled call, or where times would not add up.
    """
    functions = _Functions(log, record)
    calls = _Calls(trace.events)
    if not calls:
        raise CaptureError("the trace holds none of the profiled calls; profile again")
    tallies = {key: _Tally() for key in functions.listed}
    ran: set[int] = set()
    placed_ns = 0
    for operator in place_operators(trace.events, calls, log.earlier_threads, ran):
        placed_ns += _add(operator, functions, tallies)
    _check_sums(functions, tallies, placed_ns)
    repeats = max(len(calls), record.repeats)
    ran_functions = {key for number in ran for key in functions.of_line(number)}
    others = sorted((tallies.keys() & ran_functions) - {functions.target})
    results = [
        _target_costs(record, trace, functions, functions.target, tallies[functions.target], repeats),
        *(_costs(record, trace, functions, key, tallies[key], repeats, ()) for key in others),
    ]
    shown = {item.path for item in results}
    return LineCosts(
        device_kind=record.toolchain.device_kind,
        device_name=record.toolchain.device_name,
        repeats=repeats,
        functions=tuple(results),
        sources=tuple(source for source in log.files if source.path in shown),
    )


def place_operators(
    events: Iterable[Event], calls: _Calls, earlier_threads: Iterable[int], ran: set[int]
) -> Iterator[Operator]:
    """Operators inside of profiled calls, with self times and lines; adds to ran every line that ran."""
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
            if node.line is not None:
                if not node.compiled and not node.backward:
                    ran.add(node.line)
                continue
            if node.event.name.startswith(OUR_RANGES):
                continue
            if thread not in calls.threads and thread in earlier and not node.lines and not node.backward:
                continue
            yield Operator(
                name=node.event.name,
                call=call,
                self_ns=node.event.end_ns - node.event.start_ns - node.inner_ns,
                lines=node.lines,
                listed=node.listed,
                backward=node.backward,
                compiled=node.compiled,
                other_thread=thread not in calls.threads,
                counted=not node.is_repeated,
            )


@dataclass(slots=True)
class _Node:
    """An event with what its place among the events of its thread says about it."""

    event: Event
    lines: tuple[int, ...]
    line: int | None
    listed: bool
    in_aten: bool
    backward: bool
    compiled: bool
    # Duration of the operators directly inside; ranges of ours are looked through.
    inner_ns: int = 0
    inner_count: int = 0
    operator: _Node | None = field(default=None, repr=False)

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
        if node.operator is not None and not event.name.startswith(OUR_RANGES):
            node.operator.inner_ns += event.end_ns - event.start_ns
            node.operator.inner_count += 1
        nodes.append(node)
        stack.append(node)
    return nodes


def _node(event: Event, outer: _Node | None) -> _Node:
    number = range_number(event.name, LINE_RANGE)
    lines: tuple[int, ...] = ()
    in_aten = backward = compiled = False
    operator = None
    if outer is not None:
        # What runs inside of a compiled call stays on the line that made the call.
        lines = outer.lines if outer.line is None or outer.compiled else (*outer.lines, outer.line)
        in_aten = outer.in_aten or outer.event.name.startswith(_ATEN)
        backward = outer.backward or outer.event.name.startswith(_BACKWARD)
        compiled = outer.compiled or outer.event.name.startswith(COMPILED_REGION)
        is_range = outer.event.name.startswith(OUR_RANGES)
        operator = outer.operator if is_range else outer
    is_region = event.name.startswith(COMPILED_REGION)
    backward = backward or event.name.startswith(_BACKWARD)
    listed = not backward and not compiled and ((event.name.startswith(_ATEN) and not in_aten) or is_region)
    compiled = compiled or event.name.startswith(_COMPILE_ENTRY)
    return _Node(event, lines, number, listed, in_aten, backward, compiled, operator=operator)


class _Calls:
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


@dataclass(slots=True)
class _Tally:
    """Sums of one function over all calls, in whole nanoseconds."""

    line_ns: Counter[int] = field(default_factory=Counter)
    self_ns: Counter[int] = field(default_factory=Counter)
    line_call_ns: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    call_ns: Counter[int] = field(default_factory=Counter)
    unattributed_ns: Counter[str] = field(default_factory=Counter)
    listed: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    table_calls: Counter[str] = field(default_factory=Counter)
    table_ns: Counter[str] = field(default_factory=Counter)


def _add(operator: Operator, functions: _Functions, tallies: dict[_Key, _Tally]) -> int:
    """Give one operator's time to each function in whose source it runs; what came to lines comes back."""
    placed = functions.lines_of(operator.lines)
    target = functions.target
    if not any(key == target for key, _ in placed):
        if operator.compiled and functions.record.compiled and not operator.backward and not operator.other_thread:
            # The function itself is compiled: none of its lines runs, so its def line stands for them.
            placed = (*placed, (target, functions.record.def_line))
        elif operator.backward or operator.other_thread:
            tally = tallies[target]
            reason = BACKWARD_REASON if operator.backward else THREAD_REASON
            tally.unattributed_ns[reason] += operator.self_ns
            _count(operator, tally)
    for position, (key, line) in enumerate(placed):
        tally = tallies[key]
        _count(operator, tally)
        if operator.backward:
            tally.unattributed_ns[BACKWARD_REASON] += operator.self_ns
            continue
        tally.line_ns[line] += operator.self_ns
        tally.line_call_ns[line][operator.call] += operator.self_ns
        if operator.listed:
            name = COMPILED_REGION if operator.name.startswith(COMPILED_REGION) else operator.name
            tally.listed[line][name] += 1
        if position == 0:
            # The first is the function of the innermost frame.
            tally.self_ns[line] += operator.self_ns
    return operator.self_ns if placed and not operator.backward else 0


def _count(operator: Operator, tally: _Tally) -> None:
    tally.call_ns[operator.call] += operator.self_ns
    tally.table_calls[operator.name] += operator.counted
    tally.table_ns[operator.name] += operator.self_ns


def _check_sums(functions: _Functions, tallies: dict[_Key, _Tally], placed_ns: int) -> None:
    """Time is conserved, per function and over all of them. Raises CaptureError where it is not."""
    wrong = [
        functions.span(key).qualname
        for key, tally in tallies.items()
        if not sum(tally.line_ns.values()) + sum(tally.unattributed_ns.values())
        == sum(tally.call_ns.values())
        == sum(tally.table_ns.values())
    ]
    if sum(sum(tally.self_ns.values()) for tally in tallies.values()) != placed_ns:
        wrong.append("all functions together")
    if wrong:
        raise CaptureError(
            f"the times of {wrong[0]} do not add up; this is a fault of profile-neuron, please report it "
            "together with the run folder"
        )


class _Key(NamedTuple):
    """A function by its file and its position among the functions of that file."""

    file: int
    position: int


class _Functions:
    """The functions of the sources that ran, and which of them each numbered line belongs to."""

    def __init__(self, log: LineLog, record: RunRecord) -> None:
        self.record = record
        self._log = log
        self._spans = [_spans(source, record.decorator_modules) for source in log.files]
        self._code_spans = [self._span_of_code(index) for index in range(len(log.codes))]
        self.target = self._find_target()
        self.listed = self._list()
        self._of_line: dict[int, tuple[tuple[_Key, int], ...]] = {}
        self._of_stack: dict[tuple[int, ...], tuple[tuple[_Key, int], ...]] = {}

    def span(self, key: _Key) -> FunctionSpan:
        return self._spans[key.file][key.position]

    def path(self, key: _Key) -> str:
        return self._log.files[key.file].path

    def entries(self, key: _Key) -> int:
        """How often a function was entered, whichever of its code objects that was."""
        span = self.span(key)
        name = span.qualname.rpartition(".")[2]
        return sum(
            code.count
            for code in self._log.codes
            if code.file == key.file and code.first_line == span.first_line and code.name == name
        )

    def of_line(self, number: int) -> tuple[_Key, ...]:
        return tuple(key for key, _ in self._place(number))

    def lines_of(self, stack: tuple[int, ...]) -> tuple[tuple[_Key, int], ...]:
        """For each listed function in a stack of line numbers its innermost line, innermost function first."""
        found = self._of_stack.get(stack)
        if found is None:
            placed: dict[_Key, int] = {}
            for number in reversed(stack):
                for key, line in self._place(number):
                    placed.setdefault(key, line)
            found = self._of_stack[stack] = tuple(placed.items())
        return found

    def _place(self, number: int) -> tuple[tuple[_Key, int], ...]:
        """The listed functions whose source holds a numbered line, innermost first, and the line's number."""
        found = self._of_line.get(number)
        if found is None:
            line = self._log.lines[number]
            code = self._log.codes[line.code]
            key = self._code_spans[line.code]
            placed = []
            while key is not None:
                if key in self.listed:
                    # The lines of a function's own decorators stand for its def line.
                    placed.append((key, max(line.line, self.span(key).def_line)))
                parent = self.span(key).parent
                key = _Key(code.file, parent) if parent is not None else None
            found = self._of_line[number] = tuple(placed)
        return found

    def _span_of_code(self, index: int) -> _Key | None:
        """The function that a code object is, or is inside of."""
        code = self._log.codes[index]
        innermost = None
        for position, span in enumerate(self._spans[code.file]):
            if span.first_line == code.first_line and span.qualname.rpartition(".")[2] == code.name:
                return _Key(code.file, position)
            # Outer functions come before inner ones.
            if span.def_line <= code.first_line <= span.last_line:
                innermost = _Key(code.file, position)
        return innermost

    def _find_target(self) -> _Key:
        for file, source in enumerate(self._log.files):
            if source.path == self.record.path:
                for position, span in enumerate(self._spans[file]):
                    if span.def_line == self.record.def_line:
                        return _Key(file, position)
        raise CaptureError(f"{self.record.qualname} is not in the sources of the run folder; profile again")

    def _list(self) -> frozenset[_Key]:
        """The functions with costs of their own.

        A function inside of another one counts with it, unless it is decorated or the outer one did not run.
        """
        ran = {key for key in self._code_spans if key is not None}
        listed = {self.target}
        for key in ran:
            chain = [key]
            while (parent := self.span(chain[-1]).parent) is not None:
                chain.append(_Key(key.file, parent))
            decorated = [item for item in chain if self.span(item).decorated]
            listed.update(decorated)
            if not decorated:
                listed.add([item for item in chain if item in ran][-1])
        return frozenset(listed)


def _spans(source: SourceFile, modules: Sequence[str]) -> tuple[FunctionSpan, ...]:
    try:
        return spans(source.text, modules)
    except SourceError:
        return ()


def _target_costs(
    record: RunRecord, trace: Trace, functions: _Functions, key: _Key, tally: _Tally, repeats: int
) -> FunctionCosts:
    warnings = list(trace.warnings) + list(record.warnings)
    if not tally.table_calls and record.failure is None:
        warnings.append(NO_OPERATORS)
    return _costs(record, trace, functions, key, tally, repeats, tuple(warnings))


def _costs(
    record: RunRecord,
    trace: Trace,
    functions: _Functions,
    key: _Key,
    tally: _Tally,
    repeats: int,
    warnings: tuple[str, ...],
) -> FunctionCosts:
    """One function's sums over all calls to averages per call that still add up."""
    span = functions.span(key)
    is_target = key == functions.target
    lines = sorted(tally.line_ns)
    unattributed = sum(tally.unattributed_ns.values())
    totals = apportion([*(tally.line_ns[line] for line in lines), unattributed], repeats)
    table = apportion([tally.table_ns[name] for name in tally.table_ns], repeats)
    entries = functions.entries(key)
    if is_target and record.compiled:
        # Compiled code enters no frame of the function, and our calls are known without one.
        entries = max(entries, repeats)
    notes = tuple(f"unattributed: {reason}" for reason, ns in tally.unattributed_ns.items() if ns)
    toolchain = record.toolchain
    return FunctionCosts(
        path=functions.path(key),
        qualname=span.qualname,
        name=record.name if is_target else None,
        line=span.def_line,
        last_line=span.last_line,
        decorated=span.decorated or is_target,
        state="failed" if is_target and record.failure is not None else "fresh",
        reason=record.failure.reason if is_target and record.failure is not None else None,
        frames=record.failure.frames if is_target and record.failure is not None else (),
        calls=entries,
        device_ns=None,
        host_ns=sum(totals),
        unattributed_ns=totals[-1],
        spread_ns=_deviation([tally.call_ns[call] for call in range(repeats)]),
        lines=tuple(
            LineCost(
                line=line,
                self_ns=_self_part(tally.self_ns[line], tally.line_ns[line], total, repeats),
                total_ns=total,
                spread_ns=_deviation([tally.line_call_ns[line][call] for call in range(repeats)]),
                operators=tuple(OperatorCalls(name, calls / repeats) for name, calls in tally.listed[line].items()),
            )
            for line, total in zip(lines, totals, strict=False)
        ),
        shared=(),
        operators=tuple(
            OperatorRow(name, tally.table_calls[name] / repeats, ns, None)
            for name, ns in sorted(zip(tally.table_ns, table, strict=True), key=lambda row: (-row[1], row[0]))
        ),
        warnings=warnings + notes,
        provenance=(
            f"cpu time of operators from the {trace.source}, lines by sys.{toolchain.clock}, "
            f"torch {toolchain.torch}, Python {toolchain.python}, {repeats} calls, rule {RULE_VERSION}"
        ),
    )


def _self_part(self_ns: int, line_ns: int, total_ns: int, repeats: int) -> int:
    """The average self time of a line, which is all of it where the sums are equal and never more."""
    return total_ns if self_ns == line_ns else min(total_ns, self_ns // repeats)


def _deviation(values: Sequence[int]) -> int | None:
    return round(statistics.stdev(values)) if len(values) > 1 else None
