"""An exported trace of the user's own profiler script to totals per function.

What such a trace knows of source text are Python frames, each with the first line of its function; so there is nothing
here about the lines inside of one. An operator belongs to the frame that was open on its thread when it began, and what
ran on the device to the operator that asked for it. Nothing is joined by the clock of the device.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from profile_neuron.core.executions import device_trace_of
from profile_neuron.core.frames import LOST_NAME, Files, place_in_frames
from profile_neuron.core.host_work import USUAL_CAUSES, work_kind
from profile_neuron.core.model import COMPILED_REGION, OperatorRemark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from profile_neuron.core.frames import FunctionName, OpenFrame, Place
    from profile_neuron.core.model import Direction, Execution, FrameworkTrace, RemarkKind, Submission

# Why what ran on the device belongs to no function.
Reason = Literal["no-operator", "several-operators", "other-thread", "outside", "name-lost", "no-stacks", "explorer"]
# What belongs to a function after all, if more was known.
_UNKNOWN_PLACES = frozenset({"no-operator", "several-operators", "other-thread", "name-lost"})

SOURCE = "exported trace"

_ATEN = "aten::"


@dataclass(frozen=True, slots=True)
class OperatorTotals:
    """One operator, in all of its calls."""

    name: str
    calls: int
    # Without the operators inside.
    self_host_ns: int
    # Of what it asked the device for itself, and with the operators inside; None where nothing is known of the device.
    own_device_ns: int | None
    device_ns: int | None


@dataclass(frozen=True, slots=True)
class FunctionTotals:
    """One function of the user, in all of its calls."""

    function: FunctionName
    # Of the given files those that the shortened name can stand for; several are ambiguous, and no number is of one.
    paths: tuple[str, ...]
    # Frames, so going on with a generator counts too.
    calls: int
    # While a frame of it was open; recursion counts once.
    host_ns: int
    # Of what operators asked for while a frame of it was open, and while no deeper frame of a listed function was.
    # None where nothing is known of the device.
    device_ns: int | None
    own_device_ns: int | None
    # How many of these device times were executions and no copies.
    executions: int | None
    # It called compiled code itself, all of whose time is that of the function as a whole.
    compiled: bool
    # Those that ran while no deeper frame of a listed function was open; sorted by name.
    operators: tuple[OperatorTotals, ...]
    # As totals, and not as averages.
    remarks: tuple[OperatorRemark, ...]


@dataclass(frozen=True, slots=True)
class Unattributed:
    """What ran on the device and belongs to no function, for one reason."""

    reason: Reason
    executions: int
    device_ns: int


@dataclass(frozen=True, slots=True)
class ForeignProfile:
    """What an exported trace says of the user's functions."""

    # Sorted by file, line and name.
    functions: tuple[FunctionTotals, ...]
    # Of the whole trace; sorted by name.
    operators: tuple[OperatorTotals, ...]
    # None where the trace has no event of the device. Own times of the functions and what is unattributed add up to it.
    device_ns: int | None
    # Without copies.
    executions: int | None
    unattributed: tuple[Unattributed, ...]
    # Times of the device are of driver events, which may wait for the ones before.
    may_include_queueing: bool
    # Why there may be no event of the device; empty where there are some.
    causes: tuple[str, ...]
    # The device was asked for something, and the trace has no event of it.
    lacks_synchronize: bool
    # Frames whose names torch has lost, since they are not of printable ASCII.
    lost_names: int
    # As in FrameworkTrace.
    status: Literal["complete", "partial"]
    warnings: tuple[str, ...]

    @property
    def is_lower_bound(self) -> bool:
        """Whether functions may have taken more of the device than is told of them."""
        return self.status == "partial" or any(item.reason in _UNKNOWN_PLACES for item in self.unattributed)


def foreign_profile(
    trace: FrameworkTrace,
    paths: Iterable[str] | None = None,
    mapping: Mapping[int, tuple[Submission, ...]] | None = None,
) -> ForeignProfile:
    """Totals of the functions that a trace has frames of.

    paths: the files whose functions are listed, with slashes; None lists all that are not torch's. mapping: what the
    runtime's executions were submitted for, by sequence number; one of several operators is given to none of them.
    """
    device = device_trace_of(trace, SOURCE, mapping)
    executions = device.executions if device is not None else ()
    files = Files(paths)
    places, frames = place_in_frames(trace, files)
    by_id = {place.event.external_id: place for place in places if place.event.external_id is not None}
    totals = _Totals(files, frozenset(frame.thread for frame in trace.frames))
    for frame in frames:
        totals.add_frame(frame)
    for place in places:
        totals.add_operator(place)
    for execution in executions:
        totals.add_execution(execution, by_id.get(execution.operators[0]) if execution.operators else None)
    is_known = device is not None
    return ForeignProfile(
        functions=totals.functions(is_known),
        operators=totals.operators(is_known),
        device_ns=sum(execution.device_ns for execution in executions) if is_known else None,
        executions=sum(execution.direction is None for execution in executions) if is_known else None,
        unattributed=totals.unattributed(),
        may_include_queueing=device is not None and device.may_include_queueing,
        causes=() if is_known else USUAL_CAUSES,
        lacks_synchronize=not is_known and trace.dispatches > 0,
        lost_names=sum(frame.name == LOST_NAME for frame in trace.frames),
        status=trace.status,
        warnings=trace.warnings,
    )


@dataclass(slots=True)
class _OperatorSums:
    calls: int = 0
    self_host_ns: int = 0
    own_device_ns: int = 0
    device_ns: int = 0


@dataclass(slots=True)
class _FunctionSums:
    calls: int = 0
    host_ns: int = 0
    device_ns: int = 0
    own_device_ns: int = 0
    executions: int = 0
    compiled: bool = False


@dataclass(slots=True)
class _Work:
    """What an outermost operator made of the device, with the operators inside."""

    place: Place
    directions: set[Direction] = field(default_factory=set)
    has_execution: bool = False


class _Totals:
    """Sums over a trace."""

    def __init__(self, files: Files, threads_with_frames: frozenset[int]) -> None:
        self._files = files
        self._threads_with_frames = threads_with_frames
        self._functions: dict[FunctionName, _FunctionSums] = defaultdict(_FunctionSums)
        # By function and name of the operator; None stands for the whole trace.
        self._operators: dict[FunctionName | None, dict[str, _OperatorSums]] = defaultdict(
            lambda: defaultdict(_OperatorSums)
        )
        self._unattributed: dict[Reason, list[int]] = defaultdict(list)
        # Of the outermost operators that asked the device for something, by identity.
        self._works: dict[int, _Work] = {}

    def add_frame(self, opened: OpenFrame) -> None:
        """Note a frame, of a function that is listed or not."""
        if opened.function is not None:
            sums = self._functions[opened.function]
            sums.calls += 1
            sums.host_ns += 0 if opened.is_recursion else opened.end_ns - opened.frame.start_ns

    def add_operator(self, place: Place) -> None:
        """Note an operator, with all that is known of its inside."""
        event = place.event
        if not place.is_operator:
            return
        for sums in self._sums(place):
            sums.calls += 1
            sums.self_host_ns += event.end_ns - event.start_ns - place.inner_ns
        if place.function is not None and event.name.startswith(COMPILED_REGION):
            self._functions[place.function].compiled = True

    def add_execution(self, execution: Execution, place: Place | None) -> None:
        """Note what ran on the device, with the operator that asked for it."""
        reason: Reason | None = "several-operators" if len(execution.submissions) > 1 else self._reason(place)
        if reason is not None:
            self._unattributed[reason].append(execution.device_ns)
        if place is None or reason == "several-operators":
            return
        self._add_to_operators(execution, place)
        self._note_work(execution, place)
        if place.frame is None or place.frame.innermost is None:
            return
        for function in place.frame.functions:
            self._functions[function].device_ns += execution.device_ns
            self._functions[function].executions += execution.direction is None
        self._functions[place.frame.innermost].own_device_ns += execution.device_ns

    def functions(self, is_known: bool) -> tuple[FunctionTotals, ...]:
        """All that were called; is_known tells whether anything is known of the device."""
        remarks = self._remarks()
        return tuple(
            FunctionTotals(
                function=function,
                paths=self._files.paths(function.file),
                calls=sums.calls,
                host_ns=sums.host_ns,
                device_ns=sums.device_ns if is_known else None,
                own_device_ns=sums.own_device_ns if is_known else None,
                executions=sums.executions if is_known else None,
                compiled=sums.compiled,
                operators=_rows(self._operators[function], is_known),
                remarks=remarks.get(function, ()),
            )
            for function, sums in sorted(self._functions.items())
        )

    def operators(self, is_known: bool) -> tuple[OperatorTotals, ...]:
        """Those of the whole trace."""
        return _rows(self._operators[None], is_known)

    def unattributed(self) -> tuple[Unattributed, ...]:
        """What belongs to no function, by reason."""
        return tuple(
            Unattributed(reason, len(times), sum(times)) for reason, times in sorted(self._unattributed.items())
        )

    def _reason(self, place: Place | None) -> Reason | None:
        """Why what a place asked for belongs to no function; None where it belongs to one."""
        if place is None:
            return "no-operator"
        if place.function is not None:
            return None
        if not self._threads_with_frames:
            return "no-stacks"
        if place.event.thread not in self._threads_with_frames:
            return "other-thread"
        return "name-lost" if place.frame is not None and place.frame.has_lost_name else "outside"

    def _add_to_operators(self, execution: Execution, place: Place) -> None:
        if place.is_operator:
            for sums in self._sums(place):
                sums.own_device_ns += execution.device_ns
        # Two operators of one name, one inside of the other, are in one row.
        rows = {id(sums): sums for around in place.chain() if around.is_operator for sums in self._sums(around)}
        for sums in rows.values():
            sums.device_ns += execution.device_ns

    def _note_work(self, execution: Execution, place: Place) -> None:
        chain = list(place.chain())
        aten = [around for around in chain if around.event.name.startswith(_ATEN)]
        if not aten or any(around.event.name.startswith(COMPILED_REGION) for around in chain):
            return
        work = self._works.setdefault(id(aten[-1]), _Work(aten[-1]))
        if execution.direction is None:
            work.has_execution = True
        elif execution.direction != "on device":
            work.directions.add(execution.direction)

    def _sums(self, place: Place) -> Iterator[_OperatorSums]:
        """The rows of an operator: of the whole trace, and of the function that it is in."""
        yield self._operators[None][place.event.name]
        if place.function is not None:
            yield self._operators[place.function][place.event.name]

    def _remarks(self) -> dict[FunctionName, tuple[OperatorRemark, ...]]:
        found: dict[FunctionName, dict[tuple[RemarkKind, str], list[_Work]]] = defaultdict(lambda: defaultdict(list))
        for work in self._works.values():
            kind = work_kind(work.place.event.name, work.directions, work.has_execution)
            if kind is not None and work.place.function is not None:
                found[work.place.function][kind, work.place.event.name].append(work)
        return {
            function: tuple(_remark(kind, name, works) for (kind, name), works in sorted(by_kind.items()))
            for function, by_kind in found.items()
        }


def _rows(operators: Mapping[str, _OperatorSums], is_known: bool) -> tuple[OperatorTotals, ...]:
    return tuple(
        OperatorTotals(
            name=name,
            calls=sums.calls,
            self_host_ns=sums.self_host_ns,
            own_device_ns=sums.own_device_ns if is_known else None,
            device_ns=sums.device_ns if is_known else None,
        )
        for name, sums in sorted(operators.items())
    )


def _remark(kind: RemarkKind, name: str, works: Sequence[_Work]) -> OperatorRemark:
    directions: set[Direction] = set().union(*(work.directions for work in works))
    return OperatorRemark(
        kind=kind,
        operator=name,
        calls=len(works),
        host_ns=sum(work.place.event.end_ns - work.place.event.start_ns for work in works),
        directions=tuple(sorted(directions)),
    )
