"""Operators that keep the device waiting: what ran on the CPU instead, what copies, what waits for a number.

Told by what the trace holds of them, and by the names that torch-neuronx itself gives; where nothing is known of the
device, by these names alone. Nothing is concluded from how long something took.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from profile_neuron.core.device_time import PlacedExecution, Unplaced
    from profile_neuron.core.model import DeviceTrace, Direction, RemarkKind, RunRecord
    from profile_neuron.core.placing import Operator, Outermost

# Operators that need a number of the device before Python can go on.
_WAITING = {
    "aten::_local_scalar_dense", "aten::allclose", "aten::equal", "aten::is_nonzero", "aten::item",
    "aten::masked_select", "aten::nonzero", "aten::unique",
}  # fmt: skip
# Operators whose very work is a copy.
_COPYING = {"aten::_to_copy", "aten::clone", "aten::contiguous", "aten::copy_", "aten::lift_fresh", "aten::to"}

USUAL_CAUSES = (
    "nothing was synchronised before the profiler stopped",
    "every operator ran on the CPU",
    "the back end writes what the device did elsewhere",
)


def operator_name(name: str) -> str:
    """An operator without its overload and with its namespace, as the trace's host events have it."""
    return without_overload(name if "::" in name else f"aten::{name}")


def work_kind(operator: str, directions: Collection[Direction], has_execution: bool) -> RemarkKind | None:
    """What an operator does that keeps the device waiting, by its copies and what it starts; None for nothing.

    directions: of the copies that it makes, with the operators inside.
    """
    if not directions:
        return None
    is_read = "from device" in directions
    if operator in _WAITING:
        return "host-sync" if is_read else None
    # An operator of mathematics that reads back what it works on and starts nothing does its work on the host.
    if is_read and not has_execution and operator not in _COPYING:
        return "cpu-fallback"
    return "transfer"


def without_overload(name: str) -> str:
    """An operator as the host names it: aten::mul of aten::mul.Tensor; other names as they are."""
    namespace, separator, rest = name.rpartition("::")
    return f"{namespace}::{rest.partition('.')[0]}" if separator else name


@dataclass(slots=True)
class _Work:
    """What one operator that a line dispatches made of the device."""

    place: Operator
    outermost: Outermost
    directions: set[Direction] = field(default_factory=set)
    has_execution: bool = False
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class WorkRemark:
    """An operator that kept the device waiting once, with where it stands."""

    kind: RemarkKind
    operator: str
    host_ns: int
    directions: frozenset[Direction]
    place: Operator


class HostWork:
    """Gathers it from operators and executions of the profiled calls."""

    def __init__(self, fallback_operators: Iterable[str]) -> None:
        self._fallbacks = {operator_name(name) for name in fallback_operators}
        self._works: dict[tuple[int, int], _Work] = {}

    def see(self, operator: Operator) -> None:
        """An operator of the host."""
        if operator.listed and operator.name in self._fallbacks:
            work = self._work(operator)
            if work is not None:
                work.is_named = True

    def see_execution(self, placed: PlacedExecution) -> None:
        """An execution, or a copy."""
        for place in placed.places:
            work = self._work(place)
            if work is None:
                continue
            if placed.execution.direction is None:
                work.has_execution = True
            elif placed.execution.direction != "on device":
                work.directions.add(placed.execution.direction)

    def remarks(self) -> Iterator[WorkRemark]:
        """In the order in which the operators were seen."""
        for work in self._works.values():
            outermost = work.outermost
            # It may run on the device with other types or shapes.
            is_fallback = work.is_named and not work.has_execution
            kind = "cpu-fallback" if is_fallback else work_kind(outermost.name, work.directions, work.has_execution)
            if kind is not None:
                directions = frozenset(work.directions)
                yield WorkRemark(kind, outermost.name, outermost.duration_ns, directions, work.place)

    def _work(self, place: Operator) -> _Work | None:
        outermost = place.outermost
        if outermost is None:
            return None
        key = (outermost.thread, outermost.order)
        work = self._works.get(key)
        if work is None:
            work = self._works[key] = _Work(place, outermost)
        return work


def causes(record: RunRecord, found: DeviceTrace | None, unplaced: Unplaced) -> str:
    """Why a run on a NeuronCore has no device time, as far as it can be told."""
    if found is not None and unplaced.count:
        return f"none of {unplaced.count} executions is linked to an operator of the function"
    capture = record.device
    if capture is not None and capture.api == "april":
        return "the profiler of this torch-neuronx puts no device time into its trace"
    if capture is not None and capture.api == "none":
        return "this torch-neuronx has no profiling API that is known (torch_neuronx.profiling); install a newer one"
    why = f"the profiler gave no event of the device; {', or '.join(USUAL_CAUSES[1:])}"
    if capture is not None and capture.mode == "runtime":
        why += "; AWS's examples capture the device as well, which profile.mode device does"
    return why
