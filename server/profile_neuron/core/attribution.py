"""Trace and line log to costs per line; the rule has a version, kept with the result.

Time here is host time: the self time of every operator, its duration less that of the operators inside it,
on all threads. An operator's enclosing line ranges are its stack of project lines. Within one function it
belongs to the innermost line inside that function's own source; a compiled call, with all that runs in it,
belongs to the line that made it.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from profile_neuron.core.apportion import apportion
from profile_neuron.core.functions import Functions
from profile_neuron.core.model import (
    COMPILED_REGION,
    NO_OPERATORS,
    FunctionCosts,
    LineCost,
    LineCosts,
    OperatorCalls,
    OperatorRow,
)
from profile_neuron.core.placing import Calls, Seen, place_operators
from profile_neuron.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from profile_neuron.core.functions import Key
    from profile_neuron.core.model import LineLog, RunRecord, Trace
    from profile_neuron.core.placing import Operator

RULE_VERSION = 1

# Measured between runs of the same code, of 5 to 400 calls: server/adr/0011.
_SPREAD_OF_ONE = 5

BACKWARD_REASON = "the backward pass, whose operators have no line yet"
FRAMELESS_REASON = "operators of code that runs without Python frames, such as TorchScript"
TASK_REASON = "work in tasks that no line of the function runs in"
THREAD_REASON = "work in threads that no line of the function runs in"


def attribute(record: RunRecord, trace: Trace, log: LineLog) -> LineCosts:
    """Costs of the profiled function, then of each project function that ran in its calls, in source order.

    Raises CaptureError where the trace holds no profiled call, or where times would not add up.
    """
    functions = Functions(log, record)
    calls = Calls(trace.events)
    if not calls:
        raise CaptureError("the trace holds none of the profiled calls; profile again")
    tallies = {key: _Tally() for key in functions.listed}
    seen = Seen()
    placed_ns = 0
    for operator in place_operators(trace.events, calls, log.earlier_threads, seen):
        placed_ns += _add(operator, functions, tallies)
    _check_sums(functions, tallies, placed_ns)
    repeats = len(calls)
    ran_functions = {key for number in seen.lines for key in functions.of_line(number)}
    warnings = [*trace.warnings, *record.warnings, *_remarks(record, functions, tallies, seen, repeats)]
    others = sorted((tallies.keys() & ran_functions) - {functions.target})
    results = [
        _costs(record, trace, functions, functions.target, tallies[functions.target], repeats, tuple(warnings)),
        *(_costs(record, trace, functions, key, tallies[key], repeats, ()) for key in others),
    ]
    shown = {item.path for item in results}
    return LineCosts(
        device_kind=record.toolchain.device_kind,
        device_name=record.toolchain.device_name,
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


def _add(operator: Operator, functions: Functions, tallies: dict[Key, _Tally]) -> int:
    """Give one operator's time to each function in whose source it runs; what came to lines comes back."""
    placed = functions.lines_of(operator.lines)
    target = functions.target
    if not any(key == target for key, _ in placed):
        if operator.compiled and functions.record.compiled and not operator.backward and not operator.other_thread:
            # The function itself is compiled: none of its lines runs, so its def line stands for them.
            placed = (*placed, (target, functions.record.def_line))
        elif reason := _unplaced_reason(operator, functions):
            tally = tallies[target]
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
    tally.call_ns[operator.call] += operator.self_ns
    tally.table_calls[operator.name] += operator.counted
    tally.table_ns[operator.name] += operator.self_ns


def _check_sums(functions: Functions, tallies: dict[Key, _Tally], placed_ns: int) -> None:
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


def _costs(
    record: RunRecord,
    trace: Trace,
    functions: Functions,
    key: Key,
    tally: _Tally,
    repeats: int,
    warnings: tuple[str, ...],
) -> FunctionCosts:
    """One function's sums over all calls to averages per call that still add up."""
    span = functions.span(key)
    is_target = key == functions.target
    failure = record.failure if is_target else None
    lines = sorted(tally.line_ns)
    unattributed = sum(tally.unattributed_ns.values())
    totals = apportion([*(tally.line_ns[line] for line in lines), unattributed], repeats)
    table = apportion([tally.table_ns[name] for name in tally.table_ns], repeats)
    entries = functions.entries(key)
    if is_target and record.compiled:
        # Compiled code enters no frame of the function, and our calls are known without one.
        entries = max(entries, repeats)
    notes = tuple(f"unattributed: {reason}" for reason, ns in tally.unattributed_ns.items() if ns)
    of_calls = [tally.call_ns[call] for call in range(repeats)]
    of_line_calls = {line: [tally.line_call_ns[line][call] for call in range(repeats)] for line in lines}
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
        device_ns=None,
        host_ns=sum(totals),
        unattributed_ns=totals[-1],
        spread_ns=_deviation(of_calls),
        lines=tuple(
            LineCost(
                line=line,
                self_ns=_self_part(tally.self_ns[line], tally.line_ns[line], total, repeats),
                total_ns=total,
                spread_ns=_deviation(of_line_calls[line]),
                operators=tuple(OperatorCalls(name, calls / repeats) for name, calls in tally.listed[line].items()),
                fastest_ns=fastest(of_line_calls[line]),
                fastest_spread_ns=fastest_spread(of_line_calls[line]),
            )
            for line, total in zip(lines, totals, strict=False)
        ),
        shared=(),
        operators=tuple(
            OperatorRow(name, tally.table_calls[name] / repeats, ns, None)
            for name, ns in sorted(zip(tally.table_ns, table, strict=True), key=lambda row: (-row[1], row[0]))
        ),
        warnings=warnings + notes,
        provenance=_provenance(record, trace, repeats),
        fastest_ns=fastest(of_calls),
        fastest_spread_ns=fastest_spread(of_calls),
    )


def _provenance(record: RunRecord, trace: Trace, repeats: int) -> str:
    toolchain = record.toolchain
    return (
        f"{toolchain.device_kind} time of operators from the {trace.source}, lines by sys.{toolchain.clock}, "
        f"torch {toolchain.torch}, Python {toolchain.python}, inputs: {record.inputs}, {record.warmup} warm-up and "
        f"{repeats} profiled calls, rule {RULE_VERSION}"
    )


def _self_part(self_ns: int, line_ns: int, total_ns: int, repeats: int) -> int:
    """The average self time of a line, rounded half up; all of it where the sums are equal, and never more."""
    return total_ns if self_ns == line_ns else min(total_ns, (2 * self_ns + repeats) // (2 * repeats))


def _deviation(values: Sequence[int]) -> int | None:
    return round(statistics.stdev(values)) if len(values) > 1 else None
