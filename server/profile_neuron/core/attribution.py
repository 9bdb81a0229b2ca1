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
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profile_neuron.core import units
from profile_neuron.core.apportion import apportion
from profile_neuron.core.clock_reads import unsynchronised
from profile_neuron.core.device_time import SequenceMarks, Unplaced, place_executions
from profile_neuron.core.executions import QUEUEING
from profile_neuron.core.functions import Functions
from profile_neuron.core.host_work import HostWork, causes
from profile_neuron.core.model import (
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
from profile_neuron.core.tally import Tallies
from profile_neuron.errors import CaptureError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from profile_neuron.core.functions import Key
    from profile_neuron.core.model import AgentNotes, DeviceTrace, LineLog, RunRecord, Trace
    from profile_neuron.core.placing import Operator
    from profile_neuron.core.tally import Tally, Times

RULE_VERSION = 2

# Measured between runs of the same code, of 5 to 400 calls: server/adr/0011.
_SPREAD_OF_ONE = 5


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
    tallies = Tallies(functions)
    seen = Seen()
    work = HostWork(_fallback_operators(record, notes))
    is_same = device is not None and device.events is trace.events
    named = _named(device) if device is not None and is_same else frozenset[int]()
    for operator in place_operators(trace.events, calls, log.earlier_threads, seen, named):
        tallies.add(operator)
        work.see(operator)
    unplaced = Unplaced()
    if device is not None:
        by_id = seen.by_id if is_same else _operators_of(device, log)
        for execution in place_executions(device, by_id, marks or SequenceMarks((), {}), unplaced):
            tallies.add_execution(execution)
            work.see_execution(execution)
        _note_clock_reads(functions, log, tallies)
    tallies.check()
    for remark in work.remarks():
        tallies.add_remark(remark)
    device_measured = tallies.of(functions.target).device.is_used and record.device is not None
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
    others = sorted((functions.listed & ran_functions) - {functions.target})
    results = [
        maker.costs(functions.target, tallies.of(functions.target), tuple(dict.fromkeys(warnings))),
        *(maker.costs(key, tallies.of(key), ()) for key in others),
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


def _fallback_operators(record: RunRecord, notes: AgentNotes) -> tuple[str, ...]:
    """Names of operators that may have run on the CPU instead."""
    if record.device is None:
        return ()
    told = record.device.fallback_operators
    return notes.fallback_operators if told is None else told


def _note_clock_reads(functions: Functions, log: LineLog, tallies: Tallies) -> None:
    """Remark on clocks that are read too early in the functions that started the device."""
    for key in functions.listed:
        tally = tallies.of(key)
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


def _remarks(record: RunRecord, functions: Functions, tallies: Tallies, seen: Seen, repeats: int) -> Iterator[str]:
    """What a reader of the profiled function's numbers should know."""
    if repeats != record.repeats:
        yield f"only {repeats} of {record.repeats} calls are in the trace; averages are over these"
    if seen.foreign_operators:
        yield f"{seen.foreign_operators} operators of threads that ran before the function was called are left out"
    if record.failure is not None:
        return
    if not functions.entries(functions.target) and not record.compiled:
        yield "the function itself was not entered: a cache, a wrapper or code without Python frames took the calls"
    if not tallies.of(functions.target).table_calls:
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
        if self.device is None:
            return False
        return bool(self.unplaced.count or self.notes.dropped_events or self.device.is_incomplete)

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

    def costs(self, key: Key, tally: Tally, warnings: tuple[str, ...]) -> FunctionCosts:
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

    def _lines(self, times: Times, tally: Tally) -> list[int]:
        """Lines that took time of the measure, and in device time also those whose operators ran on the host alone."""
        if self.device is None:
            return sorted(times.line_ns)
        return sorted(times.line_ns.keys() | tally.host.line_ns.keys() | tally.listed.keys() | tally.clocks.keys())

    def _line(self, line: int, times: Times, tally: Tally, total_ns: int) -> LineCost:
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

    def _table(self, tally: Tally) -> Iterator[OperatorRow]:
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
