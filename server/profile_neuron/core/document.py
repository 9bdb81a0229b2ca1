"""Line costs as the JSON document that other programs read, schema 1; the README describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from profile_neuron.core.compare import is_slower, is_told, row_change

if TYPE_CHECKING:
    from collections.abc import Iterable

    from profile_neuron.core.model import (
        Change,
        DeviceKind,
        Failure,
        Frame,
        FunctionCosts,
        FunctionSpec,
        FunctionView,
        LineCosts,
        State,
    )

SCHEMA = 1


def document(device_kind: DeviceKind, device_name: str, functions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The whole document around its functions."""
    return {
        "schema": SCHEMA,
        "device": {"kind": device_kind, "name": device_name},
        "functions": list(functions),
    }


def run_functions(costs: LineCosts, run_folder: str = "", compared: FunctionView | None = None) -> list[dict[str, Any]]:
    """The profiled function, then the undecorated project functions that ran in its calls.

    Decorated ones that it called have numbers of their own from runs of their own. compared: the profiled function
    beside an earlier result.
    """
    target, *others = costs.functions
    # What was asked for may end on another device than its neighbours.
    device = {"device_kind": costs.device_kind}
    first = {**function(target), **device}
    if compared is not None:
        first["comparison"] = comparison(compared)
    if run_folder:
        first["run_folder"] = run_folder
    during = f"{target.path}::{target.qualname}"
    return [first, *({**function(other), **device, "during": during} for other in others if not other.decorated)]


def function(costs: FunctionCosts) -> dict[str, Any]:
    """One function; numbers in ns, None where unknown."""
    return {
        "path": costs.path,
        "qualname": costs.qualname,
        "name": costs.name,
        "line": costs.line,
        "decorated": costs.decorated,
        "state": costs.state,
        "reason": costs.reason,
        "frames": frames(costs.frames),
        "calls": costs.calls,
        "device_ns": costs.device_ns,
        "host_ns": costs.host_ns,
        "unattributed_ns": costs.unattributed_ns,
        "spread_ns": costs.spread_ns,
        "measure": costs.measure,
        "lower_bound": costs.is_lower_bound,
        "may_include_queueing": costs.may_include_queueing,
        "executions": _count_or_none(costs.executions),
        "lines": [
            {
                "line": line.line,
                "self_ns": line.self_ns,
                "total_ns": line.total_ns,
                "spread_ns": line.spread_ns,
                "host_ns": line.total_ns if costs.measure == "host" else line.host_ns,
                "executions": _count_or_none(line.executions),
                "operators": [{"name": item.name, "calls": _count(item.calls)} for item in line.operators],
                "remarks": [
                    {
                        "code": item.kind,
                        "operator": item.operator,
                        "calls": _count(item.calls),
                        "host_ns": item.host_ns,
                        "directions": list(item.directions),
                    }
                    for item in line.remarks
                ],
            }
            for line in costs.lines
        ],
        "shared": [
            {"lines": list(group.lines), "ns": group.ns, "executions": _count_or_none(group.executions)}
            for group in costs.shared
        ],
        "operators": [
            {
                "name": row.name,
                "calls": _count(row.calls),
                "self_host_ns": row.self_host_ns,
                "device_ns": row.device_ns,
            }
            for row in costs.operators
        ],
        "warnings": list(costs.warnings),
        "provenance": costs.provenance,
    }


def comparison(view: FunctionView) -> dict[str, Any] | None:
    """A function beside its baseline, each line of a row at its first one; None where there is nothing to say.

    verdict: slower, faster or new; None for what is noise and what is not known.
    """
    compared = view.comparison
    if compared is None:
        return None
    changes = [(row.line, found) for row in view.rows if (found := row_change(compared, row)) is not None]
    return {
        "with": compared.choice,
        "finished_s": None if compared.baseline is None else compared.baseline.finished_s,
        "reason": compared.reason or None,
        **_change(compared.total),
        "lines": [
            {"line": line, **_change(found.change), **({} if found.change else {"verdict": "new"})}
            for line, found in changes
        ],
        "removed": [{"text": row.text, "total_ns": row.total_ns} for row in compared.removed],
    }


def _change(change: Change | None) -> dict[str, Any]:
    if change is None:
        return {
            "previous_ns": None,
            "previous_fastest_ns": None,
            "fastest_ns": None,
            "noise": None,
            "verdict": None,
        }
    verdict = None if not is_told(change) else "slower" if is_slower(change) else "faster"
    return {
        "previous_ns": change.previous_ns,
        "previous_fastest_ns": change.previous_fastest_ns,
        "fastest_ns": change.fastest_ns,
        "noise": change.noise,
        "verdict": verdict,
    }


def frames(items: Iterable[Frame]) -> list[dict[str, Any]]:
    """Lines of a traceback, outermost first."""
    return [{"path": item.path, "line": item.line, "function": item.function, "text": item.text} for item in items]


def _count_or_none(calls: float | None) -> float | int | None:
    return None if calls is None else _count(calls)


def _count(calls: float) -> float | int:
    return int(calls) if calls == int(calls) else calls


def failed_function(path: str, spec: FunctionSpec, state: State, failure: Failure) -> dict[str, Any]:
    """A function whose run has no result."""
    return {
        "path": path,
        "qualname": spec.qualname,
        "name": None,
        "line": spec.def_line,
        "decorated": True,
        "state": state,
        "reason": failure.reason,
        "frames": frames(failure.frames),
        "calls": None,
        "device_ns": None,
        "host_ns": None,
        "unattributed_ns": None,
        "spread_ns": None,
        "measure": "host",
        "lower_bound": False,
        "may_include_queueing": False,
        "executions": None,
        "lines": [],
        "shared": [],
        "operators": [],
        "warnings": [],
        "provenance": "",
    }
