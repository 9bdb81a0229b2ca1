"""Trace and line log to costs per line; the rule has a version, kept with the result.

On the CPU time is host time: the self time of every operator, its duration less that of the operators inside it, on
all threads. An operator's enclosing line ranges are its stack of project lines. Within one function it belongs to the
innermost line inside that function's own source; a compiled call, with all that runs in it, belongs to the line that
made it.

Where executions on a device are known, the time of a function is theirs, and they stand where the operators stand that
asked for them. One that operators of several lines share goes to a group of these lines and is counted once.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from profile_neuron.core import units
from profile_neuron.core.apportion import apportion
from profile_neuron.core.clock_reads import unsynchronised
from profile_neuron.core.device_time import SequenceMarks, Unplaced, place_executions
from profile_neuron.core.executions import QUEUEING
from profile_neuron.core.functions import Functions
from profile_neuron.core.host_work import HostWork, causes, without_overload
from profile_neuron.core.model import (
    COMPILED_REGION,
    NO_NOTES,
    NO_OPERATORS,
    FunctionCosts,
    LineCost,
    LineCosts,
    OperatorCalls,
    OperatorRemark,
    OperatorRow,
    SharedGroup,
)
from profile_neuron.core.placing import Calls, Seen, place_operators
from profile_neuron.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from profile_neuron.core.device_time import PlacedExecution
    from profile_neuron.core.functions import Key
    from profile_neuron.core.host_work import WorkRemark
    from profile_neuron.core.model import AgentNotes, DeviceTrace, LineLog, RemarkKind, RunRecord, Trace
    from profile_neuron.core.placing import Operator

    _Remarks = dict[tuple[RemarkKind, str], list[WorkRemark]]

RULE_VERSION = 2

# Measured between runs of the same code, of 5 to 400 calls: server/adr/0011.
_SPREAD_OF_ONE = 5

BACKWARD_REASON = "the backward pass, whose operators have no line yet"
FRAMELESS_REASON = "operators of code that runs without Python frames, such as TorchScript"
TASK_REASON = "work in tasks that no line of the function runs in"
THREAD_REASON = "work in threads that no line of the function runs in"


def attribute(
    record: RunRecord,
    trace: Trace,
    log: LineLog,
    device: DeviceTrace | None = None,
    marks: SequenceMarks | None = None,
    notes: AgentNotes = NO_NOTES,
) -> LineCosts:
    """Costs of the profiled function, then of each project function that ran in its calls, in source order.

    device: what ran on the device, where that is known, and marks: the line clock's for it. Raises CaptureError where
    the trace holds no profiled call, or where times would not add up.
    """
    functions = Functions(log, record)
    calls = Calls(trace.events)
    if not calls:
        raise CaptureError("the trace holds none of the profiled calls; profile again")
    tallies = {key: _Tally() for key in functions.listed}
    seen = Seen()
    work = HostWork([*(record.device.fallback_operators if record.device else ()), *notes.fallback_operators])
    is_same = device is not None and device.events is trace.events
    named = _named(device) if device is not None and is_same else frozenset[int]()
    placed_ns = 0
    for operator in place_operators(trace.events, calls, log.earlier_threads, seen, named):
        placed_ns += _add(operator, functions, tallies)
        work.see(operator)
    _check_sums(functions, [(key, tally.host) for key, tally in tallies.items()], placed_ns)
    unplaced = Unplaced()
    if device is not None:
        by_id = seen.by_id if is_same else _operators_of(device, log)
        placed_ns = 0
        for execution in place_executions(device, by_id, marks or SequenceMarks((), {}), unplaced):
            placed_ns += _add_execution(execution, functions, tallies)
            work.see_execution(execution)
        _check_sums(functions, [(key, tally.device) for key, tally in tallies.items()], placed_ns)
    for remark in work.remarks():
        for key, line in () if remark.place.backward else _places_of(remark.place, functions):
            tallies[key].remark(line, remark)
    if device is not None:
        _note_clock_reads(functions, log, tallies)
    device_measured = tallies[functions.target].device.is_used and record.device is not None
    repeats = len(calls)
    maker = _Maker(record, trace, functions, repeats, device if device_measured else None, unplaced, notes)
    ran_functions = {key for number in seen.lines for key in functions.of_line(number)}
    warnings = [
        *notes.remarks,
        *trace.warnings,
        *(device.warnings if device is not None else ()),
        *record.warnings,
        *_remarks(record, functions, tallies, seen, repeats),
        *maker.device_remarks(device),
    ]
    others = sorted((tallies.keys() & ran_functions) - {functions.target})
    results = [
        maker.costs(functions.target, tallies[functions.target], tuple(dict.fromkeys(warnings))),
        *(maker.costs(key, tallies[key], ()) for key in others),
    ]
    shown = {item.path for item in results}
    return LineCosts(
        device_kind="cpu" if record.device is None else "neuron",
        device_name=record.device_name or record.toolchain.device_name,
        toolchain=record.toolchain,
        inputs=record.inputs,
        warmup=record.warmup,
        repeats=repeats,
        functions=tuple(results),
        sources=tuple(source for source in log.files if source.path in shown),
        modules=record.modules,
        reached=record.reached,
        loading=record.loading,
        signature=record.signature,
    )


def _note_clock_reads(functions: Functions, log: LineLog, tallies: dict[Key, _Tally]) -> None:
    """Remark on clocks that are read too early in the functions that started the device."""
    for key, tally in tallies.items():
        span, starts = functions.span(key), tally.device.line_starts
        lines = {line for line, count in starts.items() if count} | {
            line for group in tally.device.shared_starts for line in group
        }
        if lines:
            for line, name in unsynchronised(log.files[key.file].text, span.def_line, span.last_line, lines):
                tally.clocks[line] = name


def _named(device: DeviceTrace) -> frozenset[int]:
    return frozenset(operator for execution in device.executions for operator in execution.operators)


def _operators_of(device: DeviceTrace, log: LineLog) -> dict[int, Operator]:
    """Operators by External id, where the source of the executions has events of its own."""
    seen = Seen()
    for _ in place_operators(device.events, Calls(device.events), log.earlier_threads, seen, _named(device)):
        pass
    return seen.by_id


def fastest(values: Sequence[int]) -> int | None:
    """Time of the fastest of several calls; None for one, and where a call had nothing to do."""
    return min(values) or None if len(values) > 1 else None


def fastest_spread(values: Sequence[int]) -> int | None:
    """By how much the fastest calls of two runs may differ: less where calls are many and half are nearly as fast.

    Not the deviation, which is ruled by the slowest calls, and these say nothing about the fastest one.
    """
    fastest_ns = fastest(values)
    if fastest_ns is None:
        return None
    return round(_SPREAD_OF_ONE * (statistics.median(values) - fastest_ns) / math.sqrt(len(values)))


@dataclass(slots=True)
class _Times:
    """Sums of one function over all calls, in whole nanoseconds, of one measure."""

    line_ns: Counter[int] = field(default_factory=Counter)
    self_ns: Counter[int] = field(default_factory=Counter)
    line_call_ns: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    call_ns: Counter[int] = field(default_factory=Counter)
    unattributed_ns: Counter[str] = field(default_factory=Counter)
    shared_ns: Counter[tuple[int, ...]] = field(default_factory=Counter)
    table_ns: Counter[str] = field(default_factory=Counter)
    # How often the device was started, for a line alone, for a group, and in all.
    line_starts: Counter[int] = field(default_factory=Counter)
    shared_starts: Counter[tuple[int, ...]] = field(default_factory=Counter)
    starts: int = 0

    @property
    def is_used(self) -> bool:
        return bool(self.call_ns)

    def add(self, line: int, is_self: bool, call: int, ns: int) -> None:
        self.line_ns[line] += ns
        self.line_call_ns[line][call] += ns
        if is_self:
            self.self_ns[line] += ns


@dataclass(slots=True)
class _Tally:
    """Sums of one function over all calls."""

    host: _Times = field(default_factory=_Times)
    device: _Times = field(default_factory=_Times)
    listed: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    table_calls: Counter[str] = field(default_factory=Counter)
    # By line, then by kind and operator.
    remarks: dict[int, _Remarks] = field(default_factory=lambda: defaultdict(dict))

    # Calls that read a clock too early, by line.
    clocks: dict[int, str] = field(default_factory=dict)

    def remark(self, line: int, found: WorkRemark) -> None:
        self.remarks[line].setdefault((found.kind, found.operator), []).append(found)


def _add(operator: Operator, functions: Functions, tallies: dict[Key, _Tally]) -> int:
    """Give one operator's time to each function in whose source it runs; what came to lines comes back."""
    placed = _places_of(operator, functions)
    target = functions.target
    if not any(key == target for key, _ in placed) and (reason := _unplaced_reason(operator, functions)):
        tally = tallies[target]
        tally.host.unattributed_ns[reason] += operator.self_ns
        _count(operator, tally)
    for position, (key, line) in enumerate(placed):
        tally = tallies[key]
        _count(operator, tally)
        if operator.backward:
            tally.host.unattributed_ns[BACKWARD_REASON] += operator.self_ns
            continue
        # The first is the function of the innermost frame.
        tally.host.add(line, position == 0, operator.call, operator.self_ns)
        if operator.listed:
            name = COMPILED_REGION if operator.name.startswith(COMPILED_REGION) else operator.name
            tally.listed[line][name] += 1
    return operator.self_ns if placed and not operator.backward else 0


def _places_of(operator: Operator, functions: Functions) -> tuple[tuple[Key, int], ...]:
    """For each listed function that an operator runs in its line there, innermost function first."""
    placed = functions.lines_of(operator.lines)
    target = functions.target
    is_target_compiled = operator.compiled and functions.record.compiled
    if is_target_compiled and not (operator.backward or operator.other_thread) and target not in dict(placed):
        # The function itself is compiled: none of its lines runs, so its def line stands for them.
        return (*placed, (target, functions.record.def_line))
    return placed


def _add_execution(placed: PlacedExecution, functions: Functions, tallies: dict[Key, _Tally]) -> int:
    """Give an execution's time to the functions whose code asked for it; what came to lines alone comes back."""
    execution, call = placed.execution, placed.call
    ns = execution.device_ns
    is_start = execution.direction is None
    stacks = [() if place.backward else _places_of(place, functions) for place in placed.places]
    lines: dict[Key, set[int]] = defaultdict(set)
    for key, line in (item for stack in stacks for item in stack):
        lines[key].add(line)
    target = functions.target
    reasons = [_unplaced_reason(place, functions) for place in placed.places]
    if target not in lines and any(reasons):
        times = tallies[target].device
        times.unattributed_ns[next(filter(None, reasons))] += ns
        times.starts += is_start
        _count_execution(placed, tallies[target])
    # Of an execution on one line, the innermost function is the same for all of its operators.
    owners = {stack[0][0] for stack in stacks if stack}
    is_whole = all(stack for stack in stacks)
    came_to_lines = 0
    for key, found in lines.items():
        times = tallies[key].device
        _count_execution(placed, tallies[key])
        times.starts += is_start
        in_all = is_whole and all(any(item == key for item, _ in stack) for stack in stacks)
        if in_all and len(found) == 1:
            (line,) = found
            is_self = owners == {key}
            times.add(line, is_self, call, ns)
            times.line_starts[line] += is_start
            came_to_lines += ns if is_self else 0
        else:
            group = tuple(sorted(found))
            times.shared_ns[group] += ns
            times.shared_starts[group] += is_start
    return came_to_lines


def _unplaced_reason(operator: Operator, functions: Functions) -> str:
    """Why an operator of the function has no line of it; empty for one that is not the function's."""
    if operator.backward:
        return BACKWARD_REASON
    if operator.other_thread:
        return THREAD_REASON
    if operator.lines and functions.record.is_async:
        return TASK_REASON
    # TorchScript and the like run a function without ever entering it.
    entered = functions.entries(functions.target) or functions.record.compiled
    return "" if entered or operator.lines else FRAMELESS_REASON


def _count(operator: Operator, tally: _Tally) -> None:
    tally.host.call_ns[operator.call] += operator.self_ns
    tally.table_calls[operator.name] += operator.counted
    tally.host.table_ns[operator.name] += operator.self_ns


def _count_execution(placed: PlacedExecution, tally: _Tally) -> None:
    ns = placed.execution.device_ns
    tally.device.call_ns[placed.call] += ns
    # Of several, none alone has the time.
    names = dict.fromkeys(_table_name(place, tally) for place in placed.places)
    tally.device.table_ns[" + ".join(names)] += ns


def _table_name(place: Operator, tally: _Tally) -> str:
    """The operator in the host's table, which a source of its own may call otherwise."""
    name = without_overload(place.name)
    return name if name in tally.table_calls or place.outermost is None else place.outermost.name


def _check_sums(functions: Functions, times: Sequence[tuple[Key, _Times]], placed_ns: int) -> None:
    """Time is conserved, per function and over all of them. Raises CaptureError where it is not."""
    wrong = [
        functions.span(key).qualname
        for key, found in times
        if not sum(found.line_ns.values()) + sum(found.unattributed_ns.values()) + sum(found.shared_ns.values())
        == sum(found.call_ns.values())
        == sum(found.table_ns.values())
    ]
    if sum(sum(found.self_ns.values()) for _, found in times) != placed_ns:
        wrong.append("all functions together")
    if wrong:
        raise CaptureError(
            f"the times of {wrong[0]} do not add up; this is a fault of profile-neuron, please report it "
            "together with the run folder"
        )


def _remarks(
    record: RunRecord, functions: Functions, tallies: dict[Key, _Tally], seen: Seen, repeats: int
) -> Iterator[str]:
    """What a reader of the profiled function's numbers should know."""
    if repeats != record.repeats:
        yield f"only {repeats} of {record.repeats} calls are in the trace; averages are over these"
    if seen.foreign_operators:
        yield f"{seen.foreign_operators} operators of threads that ran before the function was called are left out"
    if record.failure is not None:
        return
    if not functions.entries(functions.target) and not record.compiled:
        yield "the function itself was not entered: a cache, a wrapper or code without Python frames took the calls"
    if not tallies[functions.target].table_calls:
        yield NO_OPERATORS


@dataclass(frozen=True, slots=True)
class _Maker:
    """Sums over all calls to averages per call that still add up, of one run."""

    record: RunRecord
    trace: Trace
    functions: Functions
    repeats: int
    # What the times of lines are taken from; None where they are of the host.
    device: DeviceTrace | None
    unplaced: Unplaced
    notes: AgentNotes

    @property
    def is_lower_bound(self) -> bool:
        return self.device is not None and bool(self.unplaced.count or self.notes.dropped_events)

    def device_remarks(self, found: DeviceTrace | None) -> Iterator[str]:
        """What a reader of device times should know, or why there are none."""
        if self.record.device is None:
            return
        yield from self.record.device.remarks if self.device is None else ()
        if self.notes.dropped_events:
            yield (
                f"{self.notes.dropped_events} events of the device were dropped, so times are at least what they say; "
                "profile fewer calls"
            )
        if self.unplaced.count:
            yield (
                f"{self.unplaced.count} executions ({units.duration(self.unplaced.ns)} in all calls) are linked to no "
                "operator and are in no figure"
            )
        if self.device is None:
            yield f"device time unknown: {causes(self.record, found, self.unplaced)}"
        elif self.device.may_include_queueing:
            yield QUEUEING

    def costs(self, key: Key, tally: _Tally, warnings: tuple[str, ...]) -> FunctionCosts:
        """One function's costs."""
        record, functions, repeats = self.record, self.functions, self.repeats
        span = functions.span(key)
        is_target = key == functions.target
        failure = record.failure if is_target else None
        times = tally.host if self.device is None else tally.device
        entries = functions.entries(key)
        if is_target and record.compiled:
            # Compiled code enters no frame of the function, and our calls are known without one.
            entries = max(entries, repeats)
        lines = self._lines(times, tally)
        groups = sorted(times.shared_ns)
        unattributed = sum(times.unattributed_ns.values())
        totals = apportion(
            [*(times.line_ns[line] for line in lines), *(times.shared_ns[group] for group in groups), unattributed],
            repeats,
        )
        host_ns = sum(totals) if self.device is None else _average(sum(tally.host.call_ns.values()), repeats)
        notes = tuple(f"unattributed: {reason}" for reason, ns in times.unattributed_ns.items() if ns)
        of_calls = [times.call_ns[call] for call in range(repeats)]
        return FunctionCosts(
            path=functions.path(key),
            qualname=span.qualname,
            name=record.name if is_target else None,
            line=span.def_line,
            last_line=span.last_line,
            decorated=span.decorated or is_target,
            state="failed" if failure else "fresh",
            reason=failure.reason if failure else None,
            frames=failure.frames if failure else (),
            calls=entries,
            device_ns=None if self.device is None else sum(totals),
            host_ns=host_ns,
            unattributed_ns=totals[-1],
            spread_ns=_deviation(of_calls),
            lines=tuple(self._line(line, times, tally, total) for line, total in zip(lines, totals, strict=False)),
            shared=tuple(
                SharedGroup(group, ns, times.shared_starts[group] / repeats)
                for group, ns in zip(groups, totals[len(lines) :], strict=False)
            ),
            operators=tuple(self._table(tally)),
            warnings=warnings + notes,
            provenance=self._provenance(),
            fastest_ns=fastest(of_calls),
            fastest_spread_ns=fastest_spread(of_calls),
            measure="host" if self.device is None else "device",
            is_lower_bound=self.is_lower_bound,
            may_include_queueing=self.device is not None and self.device.may_include_queueing,
            executions=None if self.device is None else times.starts / repeats,
        )

    def _lines(self, times: _Times, tally: _Tally) -> list[int]:
        """Lines that took time of the measure, and in device time also those whose operators ran on the host alone."""
        if self.device is None:
            return sorted(times.line_ns)
        return sorted(times.line_ns.keys() | tally.host.line_ns.keys() | tally.listed.keys() | tally.clocks.keys())

    def _line(self, line: int, times: _Times, tally: _Tally, total_ns: int) -> LineCost:
        repeats = self.repeats
        of_calls = [times.line_call_ns[line][call] for call in range(repeats)] if line in times.line_call_ns else [0]
        is_device = self.device is not None
        return LineCost(
            line=line,
            self_ns=_self_part(times.self_ns[line], times.line_ns[line], total_ns, repeats),
            total_ns=total_ns,
            spread_ns=_deviation(of_calls),
            operators=tuple(OperatorCalls(name, calls / repeats) for name, calls in tally.listed[line].items()),
            fastest_ns=fastest(of_calls),
            fastest_spread_ns=fastest_spread(of_calls),
            host_ns=_average(tally.host.line_ns[line], repeats) if is_device else None,
            executions=times.line_starts[line] / repeats if is_device else None,
            remarks=tuple(
                OperatorRemark(
                    kind=kind,
                    operator=operator,
                    calls=len(found) / repeats,
                    host_ns=_average(sum(item.host_ns for item in found), repeats),
                    directions=tuple(sorted(frozenset().union(*(item.directions for item in found)))),
                )
                for (kind, operator), found in tally.remarks[line].items()
            )
            + tuple(OperatorRemark("missing-synchronize", name, 1.0, 0) for name in (tally.clocks.get(line),) if name),
        )

    def _table(self, tally: _Tally) -> Iterator[OperatorRow]:
        """Sorted by what the lines are of."""
        host_ns = self._averages(tally.host.table_ns)
        if self.device is None:
            for name in sorted(host_ns, key=lambda name: (-host_ns[name], name)):
                yield OperatorRow(name, tally.table_calls[name] / self.repeats, host_ns[name], None)
            return
        device_ns = self._averages(tally.device.table_ns)
        names = host_ns.keys() | device_ns.keys()
        for name in sorted(names, key=lambda name: (-device_ns.get(name, 0), -host_ns.get(name, 0), name)):
            calls = tally.table_calls[name] / self.repeats
            yield OperatorRow(name, calls, host_ns.get(name, 0), device_ns.get(name, 0))

    def _averages(self, sums: Counter[str]) -> dict[str, int]:
        # Sorted, so that the order in which a source lists them shows nowhere in the result.
        names = sorted(sums)
        return dict(zip(names, apportion([sums[name] for name in names], self.repeats), strict=True))

    def _provenance(self) -> str:
        toolchain = self.record.toolchain
        if self.device is not None:
            what = f"Neuron time of executions from the {self.device.source}"
        else:
            what = f"{'cpu' if self.record.device is None else 'host'} time of operators from the {self.trace.source}"
        return (
            f"{what}, lines by sys.{toolchain.clock}, torch {toolchain.torch}, Python {toolchain.python}, "
            f"inputs: {self.record.inputs}, {self.record.warmup} warm-up and {self.repeats} profiled calls, "
            f"rule {RULE_VERSION}"
        )


def _average(total_ns: int, repeats: int) -> int:
    """Rounded half up."""
    return (2 * total_ns + repeats) // (2 * repeats)


def _self_part(self_ns: int, line_ns: int, total_ns: int, repeats: int) -> int:
    """The average self time of a line, rounded half up; all of it where the sums are equal, and never more."""
    return total_ns if self_ns == line_ns else min(total_ns, _average(self_ns, repeats))


def _deviation(values: Sequence[int]) -> int | None:
    return round(statistics.stdev(values)) if len(values) > 1 else None
