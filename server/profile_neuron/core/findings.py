"""What a run could not do, and what became slower, as remarks at a line, one code for each kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from profile_neuron.core import units
from profile_neuron.core.compare import difference_ns, is_slower, row_change
from profile_neuron.core.render import basis_text, delta_text
from profile_neuron.core.work_text import row_remarks, tiny_executions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from profile_neuron.core.model import Change, Comparison, Frame, FunctionView, ShownRow, ShownState

Severity = Literal["hint", "information", "warning"]

# Performance is not an error of the code, so none of these is one.
DEFAULT_SEVERITIES: dict[str, Severity] = {
    "run-failed": "information",
    "timeout": "information",
    "no-inputs": "hint",
    "device-busy": "hint",
    "regression": "warning",
    "cpu-fallback": "information",
    "host-sync": "hint",
    "transfer": "hint",
    "tiny-executions": "hint",
    "missing-synchronize": "information",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A remark at a line of a file."""

    line: int
    code: str
    severity: Severity
    text: str
    # Other places in the project that belong to it, outermost first.
    related: tuple[Frame, ...]
    # The function that it is about; empty for the file as a whole.
    qualname: str
    run_id: str


def findings(path: str, views: Iterable[FunctionView], severities: dict[str, str]) -> tuple[Finding, ...]:
    """Findings of all functions of a file, in source order. severities: by code, off for none at all."""
    found = []
    for view in views:
        failure = view.failure
        if failure is None or view.state not in ("failed", "noInputs", "busy"):
            found += _regressions(view, severities)
            found += _device_findings(view, severities)
            continue
        code = _code(view.state, failure.reason)
        severity = severities.get(code, DEFAULT_SEVERITIES[code])
        if severity == "off" or view.failure_line is None:
            continue
        related = tuple(frame for frame in failure.frames if frame.path != path)
        text = failure.reason
        if view.state == "failed" and failure.frames:
            text = f"profiling {view.spec.qualname} failed: {failure.reason}"
        found.append(
            Finding(view.failure_line, code, _severity(severity), text, related, view.spec.qualname, _run_id(view))
        )
    return tuple(found)


def _code(state: ShownState, reason: str) -> str:
    match state:
        case "noInputs":
            return "no-inputs"
        case "busy":
            return "device-busy"
    return "timeout" if reason.startswith(("timeout:", "compile-failed: timeout")) else "run-failed"


def unparsable(line: int | None, reason: str, severities: dict[str, str]) -> tuple[Finding, ...]:
    """The finding of a file that was saved and does not parse."""
    severity = severities.get("run-failed", DEFAULT_SEVERITIES["run-failed"])
    if severity == "off":
        return ()
    text = f"not-runnable: {reason}" + ("; nothing was run, save again when it parses" if line is not None else "")
    return (Finding(line or 1, "run-failed", _severity(severity), text, (), "", ""),)


def _regressions(view: FunctionView, severities: dict[str, str]) -> list[Finding]:
    """That a function became slower: at the line that is to blame if there is only one, else at its name."""
    severity = severities.get("regression", DEFAULT_SEVERITIES["regression"])
    compared = view.comparison
    if severity == "off" or view.state != "fresh" or compared is None or compared.total is None:
        return []
    if not is_slower(compared.total):
        return []
    text = f"{view.spec.qualname} is slower: {_times(compared.total)} vs {compared.choice}"
    line = view.spec.def_line
    match list(_slower_rows(view, compared, compared.total)):
        case [(row, change)]:
            line = row.line
            text += f"; this line: {_times(change)}" if change is not None else "; this line is new"
    return [Finding(line, "regression", _severity(severity), text, (), view.spec.qualname, _run_id(view))]


def _device_findings(view: FunctionView, severities: dict[str, str]) -> Iterator[Finding]:
    """What of a function keeps a NeuronCore waiting, or starts it more often than it has to."""
    result = view.result
    if result is None or view.state != "fresh" or result.device_kind != "neuron":
        return
    # What several lines share stands at each of them, and is told once.
    told = [row for row in view.rows if not row.shared or row.line == row.shared[0]]
    remarks = [(row.line, kind, text) for row in told for kind, text in row_remarks(row.cost)]
    own = [(row.line, row.cost) for row in view.rows if not row.shared]
    tiny = [(line, "tiny-executions", text) for line, text in tiny_executions(own)]
    for line, code, text in (*remarks, *tiny):
        severity = severities.get(code, DEFAULT_SEVERITIES[code])
        if severity != "off":
            yield Finding(line, code, _severity(severity), text, (), view.spec.qualname, _run_id(view))


def _slower_rows(view: FunctionView, compared: Comparison, total: Change) -> Iterator[tuple[ShownRow, Change | None]]:
    """Rows that are slower or new and take at least half of what the function takes more."""
    for row in view.rows:
        found = row_change(compared, row)
        if found is None:
            continue
        change = found.change
        more_ns = row.cost.total_ns if change is None else difference_ns(change)
        if (change is None or is_slower(change)) and 2 * more_ns >= difference_ns(total):
            yield row, change


def _times(change: Change) -> str:
    delta = f"{delta_text(change)}{basis_text(change)}"
    return f"{units.duration(change.previous_ns)} → {units.duration(change.ns)}, {delta}"


def _severity(name: str) -> Severity:
    return "hint" if name == "hint" else "warning" if name == "warning" else "information"


def _run_id(view: FunctionView) -> str:
    return view.result.run_id if view.result is not None else ""
