"""What keeps a device waiting in words: the operator, what it costs on the host, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profile_neuron.core import units
from profile_neuron.core.fusible import fusible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from profile_neuron.core.model import LineCost, OperatorRemark, RemarkKind, RowCost


def row_remarks(cost: RowCost | LineCost) -> Iterator[tuple[RemarkKind, str]]:
    """Code and text of each remark of a line."""
    for remark in cost.remarks:
        yield remark.kind, remark_text(remark)


def remark_text(remark: OperatorRemark) -> str:
    """One sentence without its period."""
    times = "" if remark.calls == 1 else f" {units.count(remark.calls)} times in a call"
    host = units.duration(remark.host_ns)
    match remark.kind:
        case "cpu-fallback":
            return (
                f"{remark.operator} runs on the CPU instead of the device{times}, {host} with its copies; use "
                "operators that the device has, or do it once outside of this function"
            )
        case "host-sync":
            return (
                f"{remark.operator} waits{times} until the device has done all that was started, {host}; keep the "
                "number in a tensor, or read it once at the end"
            )
        case "missing-synchronize":
            return (
                f"{remark.operator} is read while the device may still be at work, so it tells how long starting took; "
                "call torch.neuron.synchronize() before it"
            )
    way = _way(remark.directions)
    help_text = (
        "make it on the device, once outside of this function"
        if "from device" not in remark.directions
        else "leave it on the device, or copy once at the end; the host waits for it"
    )
    return f"{remark.operator} copies {way}{times}, {host} on the host; {help_text}"


def tiny_executions(costs: Iterable[tuple[int, RowCost | LineCost]]) -> Iterator[tuple[int, str]]:
    """Line and text of each part of a function that starts the device several times where one call of torch does it.

    costs: of the lines of a function, in order.
    """
    # What a line calls says it at its own lines, or is not of the user's making.
    own = [(line, cost) for line, cost in costs if cost.self_ns == cost.total_ns]
    steps = [(line, cost, operator.name) for line, cost in own for operator in cost.operators]
    for found in fusible([name for _, _, name in steps]):
        of_it = {line: cost for line, cost, _ in steps[found.start : found.stop]}
        starts = sum(cost.executions or 0 for cost in of_it.values())
        ns = sum(cost.total_ns for cost in of_it.values())
        if starts > 1:
            yield (
                next(iter(of_it)),
                f"{found.what}, in {units.count(starts)} executions ({', '.join(found.names)}) of "
                f"{units.duration(ns)} together; {found.call} starts the device once",
            )


def executions_text(count: float | None) -> str:
    """How often the device was started: 6 executions; empty where that is not known, or never."""
    if not count:
        return ""
    text = units.count(count)
    return f"{text} execution{'' if text == '1' else 's'}"


def _way(directions: Iterable[str]) -> str:
    match sorted(directions):
        case ["to device"]:
            return "from the host to the device"
        case ["from device"]:
            return "from the device to the host"
    return "between host and device"
