"""What there is to show of functions as the short texts of an editor: inlay hints and code lenses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from profile_neuron.core import units
from profile_neuron.core.compare import difference_ns, is_told, row_change, whole_ns
from profile_neuron.core.model import NO_OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from profile_neuron.core.model import Change, DeviceKind, FunctionCosts, FunctionView, Holder, Result, ShownRow

# The server's commands that a lens can call; lsp/commands.py has one function for each.
Verb = Literal["profileFunction", "cancel", "showReport", "showLog", "goToFailure", "addInputs", "openInExplorer"]

DEVICE_TIME_UNKNOWN = "device time unknown"

# Starting an execution takes tens of microseconds on the host, which says nothing.
_HOST_BOUND_NS = 100_000
# What an editor shows of a hint for certain.
HINT_WIDTH = 40
# A failure's first words are a lens; the rest is in its diagnostic.
_REASON_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Hint:
    """The text behind a line."""

    line: int
    # Whose hint it is, and of which of its rows.
    view: FunctionView
    row: ShownRow
    shows_delta: bool = True

    @property
    def text(self) -> str:
        """Made when it is asked for: of a thousand hints an editor shows sixty."""
        text = row_text(self.view, self.row)
        delta = row_delta(self.view, self.row) if self.shows_delta else ""
        # The time says more than the delta does.
        return f"{text} {delta}" if delta and len(text) + 1 + len(delta) <= HINT_WIDTH else text


@dataclass(frozen=True, slots=True)
class Lens:
    """A text above the line of the decorator, with what a click on it does."""

    line: int
    title: str
    verb: Verb
    qualname: str
    occurrence: int
    # Whether it is of a profile that the user's own program captured, and the function may lack the decorator.
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class HintSettings:
    """Which hints are shown; the defaults are those of the settings."""

    min_share: float = 1.0
    min_time_ns: int = 1000
    max_per_function: int = 30
    show_stale: bool = True
    show_delta: bool = True


def hints(views: Iterable[FunctionView], settings: HintSettings) -> tuple[Hint, ...]:
    """Hints of all functions, sorted by line, at most one per line.

    Lines of a decorated function inside of another one belong to the inner one where that has numbers.
    """
    by_line: dict[int, Hint] = {}
    # In source order, so that an inner function comes after the one around it.
    for view in views:
        shown = _function_hints(view, settings)
        if view.rows and _has_hints(view, settings):
            for line in [line for line in by_line if view.spec.def_line <= line <= view.spec.last_line]:
                del by_line[line]
        by_line |= {hint.line: hint for hint in shown}
    return tuple(hint for _, hint in sorted(by_line.items()))


def lenses(views: Iterable[FunctionView], now_s: float) -> tuple[Lens, ...]:
    """Lenses of all functions in source order, at most three for each."""
    return tuple(
        Lens(view.spec.decorator_line, title, verb, view.spec.qualname, view.occurrence)
        for view in views
        for title, verb in _function_lenses(view, now_s)
    )


def row_text(view: FunctionView, row: ShownRow) -> str:
    """The hint of one row."""
    assert view.result is not None
    time = _with_device(view.result, units.duration(row.cost.total_ns))
    fallback_ns = sum(remark.host_ns for remark in row.cost.remarks if remark.kind == "cpu-fallback")
    if fallback_ns:
        text = f"cpu fallback · {units.duration(fallback_ns)}"
        return text if view.is_current else f"~{text}"
    if is_host_bound(view.result, row):
        time = f"host {units.duration(row.cost.host_ns or 0)}"
        return time if view.is_current else f"~{time}"
    if not view.is_current:
        return f"~{time}"
    share = units.share(row.cost.total_ns, whole_ns(view.result))
    if row.shared:
        return " · ".join(part for part in (f"≈{time}", share, "shared") if part)
    return " · ".join(part for part in (time, share, operator_count(row)) if part)


def is_host_bound(result: Result, row: ShownRow) -> bool:
    """Whether a row of device times has none, and its operators took time on the host alone."""
    return result.costs.measure == "device" and not row.cost.total_ns and not row.shared and bool(row.cost.host_ns)


def row_delta(view: FunctionView, row: ShownRow) -> str:
    """What became of a row since the baseline: ▲12 %, ▼8 %, new; empty where that is noise or not known."""
    found = row_change(view.comparison, row)
    if found is None or not view.is_current:
        return ""
    return "new" if found.change is None else delta_text(found.change)


def delta_text(change: Change) -> str:
    """A change in whole percent: ▲12 % slower, ▼8 % faster; empty where it is no more than noise."""
    if not is_told(change):
        return ""
    before, difference = change.previous_fastest_ns or 0, difference_ns(change)
    percent = (200 * abs(difference) + before) // (2 * before)
    # What takes any time at all has not lost all of it.
    return f"▲{percent} %" if difference > 0 else f"▼{min(percent, 99)} %"


def basis_text(change: Change) -> str:
    """What a change is told by, with a space before it; empty where the averages, which are shown, say the same."""
    averages = replace(change, previous_fastest_ns=change.previous_ns, fastest_ns=change.ns)
    return "" if delta_text(averages) == delta_text(change) else " by the fastest calls"


def operator_count(row: ShownRow) -> str:
    """How many operators a row runs in a call: 1 op, 3 ops; empty for none."""
    calls = sum(operator.calls for operator in row.cost.operators)
    if not calls:
        return ""
    text = units.count(calls)
    return f"{text} op{'' if text == '1' else 's'}"


def total_text(result: Result) -> str:
    """The time of a function, with the device that it is of."""
    if NO_OPERATORS in result.costs.warnings:
        return NO_OPERATORS
    if result.device_kind == "neuron" and result.costs.measure == "host":
        return DEVICE_TIME_UNKNOWN
    return _with_device(result, units.duration(whole_ns(result)))


def measure_name(costs: FunctionCosts, device_kind: DeviceKind) -> str:
    """What times are of, for a reader: cpu, device, or host where those of the device are not known."""
    return "device" if costs.measure == "device" else "cpu" if device_kind == "cpu" else "host"


def age(seconds: float) -> str:
    """How long ago: just now, 3 min ago, 2 h ago, 5 days ago."""
    # A clock may have been set back.
    seconds = max(0.0, seconds)
    for limit, unit_s, unit in ((3600, 60, "min"), (86400, 3600, "h")):
        if seconds < limit:
            count = int(seconds // unit_s)
            return f"{count} {unit} ago" if count else "just now"
    days = int(seconds // 86400)
    return f"{days} day{'' if days == 1 else 's'} ago"


def failure_title(reason: str) -> str:
    """The code or the exception that a reason begins with, or its first words."""
    reason = "".join(char if char.isprintable() else " " for char in reason.split("\n", 1)[0]).strip()
    head = reason.split(":", 1)[0].strip()
    if " " not in head and head:
        reason = head.rpartition(".")[2] or head
    return reason if len(reason) <= _REASON_WIDTH else f"{reason[: _REASON_WIDTH - 1].rstrip()}…"


def _with_device(result: Result, time: str) -> str:
    if result.costs.measure == "host":
        return f"{measure_name(result.costs, result.device_kind)} {time}"
    return f"≥{time}" if result.costs.is_lower_bound else time


def _has_hints(view: FunctionView, settings: HintSettings) -> bool:
    return view.result is not None and not view.inputs_changed and (view.is_current or settings.show_stale)


def _function_hints(view: FunctionView, settings: HintSettings) -> list[Hint]:
    if view.result is None or not _has_hints(view, settings):
        return []
    whole = whole_ns(view.result)
    least_ns = max(settings.min_time_ns, settings.min_share * whole / 100)
    # A fallback is worth a look however little it costs the device.
    large = [row for row in view.rows if row.cost.total_ns >= least_ns or _is_told_of_host(view.result, row, least_ns)]
    large.sort(key=lambda row: -max(row.cost.total_ns, row.cost.host_ns or 0))
    return [Hint(row.line, view, row, settings.show_delta) for row in large[: settings.max_per_function]]


def _is_told_of_host(result: Result, row: ShownRow, least_ns: float) -> bool:
    """Whether a row is shown for what it does on the host."""
    if any(remark.kind == "cpu-fallback" for remark in row.cost.remarks):
        return True
    return is_host_bound(result, row) and (row.cost.host_ns or 0) >= max(least_ns, _HOST_BOUND_NS)


def _function_lenses(view: FunctionView, now_s: float) -> list[tuple[str, Verb]]:
    result = view.result
    again: tuple[str, Verb] = ("Profile again", "profileFunction")
    opening: list[tuple[str, Verb]] = []
    if result is not None and result.device_kind == "neuron" and result.run_folder:
        opening = [("Open in Neuron Explorer", "openInExplorer")]
    if view.activity is not None:
        ahead = view.activity.ahead
        title = _activity_title(view, now_s) if ahead is None else f"Queued ({ahead} ahead)" if ahead else "Queued"
        return [(title, "showLog"), ("Cancel", "cancel")]
    match view.state:
        case "untrusted":
            known: list[tuple[str, Verb]] = [(_result_title(view, now_s), "showReport")] if result else []
            return [("Trust this workspace to profile", "profileFunction"), *known]
        case "failed":
            at = f", line {view.failure_line}" if view.failure_line is not None else ""
            why = failure_title(view.failure.reason if view.failure else "")
            title = f"Profile failed: {why}{at}" if why else f"Profile failed{at}"
            return [(title, "goToFailure"), ("Show log", "showLog"), ("Retry", "profileFunction")]
        case "busy":
            why = view.failure.reason if view.failure else ""
            return [(failure_title(why).replace("device-busy", "Device busy"), "showLog"), ("Retry", "profileFunction")]
        case "noInputs":
            return [("No inputs for this function", "goToFailure"), ("Add inputs…", "addInputs")]
        case "cancelled":
            last = f" (last: {total_text(result)})" if result else ""
            return [(f"Cancelled{last}", "showReport" if result else "showLog"), again]
        case "fresh":
            return [(_result_title(view, now_s), "showReport"), *opening, ("Re-profile", "profileFunction")]
        case "stale":
            return [(_result_title(view, now_s), "showReport"), *opening, again]
    return [("Profile on Neuron" if view.device_kind == "neuron" else "Profile on the CPU", "profileFunction")]


def holders_text(holders: Iterable[Holder]) -> str:
    """Who holds the device: pid 4123, 2 cores; empty for nobody that is known."""
    known = list(holders)
    if not known:
        return ""
    cores = len({core for holder in known for core in holder.cores})
    more = f" and {len(known) - 1} more" if len(known) > 1 else ""
    return f"pid {known[0].pid}{more}" + (f", {cores} core{'' if cores == 1 else 's'}" if cores else "")


def _activity_title(view: FunctionView, now_s: float) -> str:
    activity = view.activity
    assert activity is not None
    match activity.phase:
        case "busy":
            who = holders_text(activity.holders)
            return f"Device busy ({who}), waiting" if who else "Device busy, waiting"
        case "compile":
            last = f" (last: {activity.last_s:.0f} s)" if activity.last_s is not None else ""
            return f"Compiling… {max(0.0, now_s - activity.began_s):.0f} s{last}"
        case "warm-up" | "capture":
            number = min(activity.done + 1, activity.total)
            return f"Profiling… {number}/{activity.total}" if activity.total else "Profiling…"
        case "" | "start":
            return "Starting…"
        case "import":
            return "Importing…"
        case "inputs":
            return "Building inputs…"
    return "Profiling…"


def _result_title(view: FunctionView, now_s: float) -> str:
    result = view.result
    assert result is not None
    if view.is_current:
        compared = view.comparison
        delta = delta_text(compared.total) if compared is not None and compared.total is not None else ""
        total = total_text(result)
        if result.costs.measure == "device" and total != NO_OPERATORS:
            total += " device, may include queueing" if result.costs.may_include_queueing else " device"
        return f"{total} · {delta} vs {compared.choice}" if compared and delta else total
    why = "inputs changed" if view.inputs_changed else view.reasons[0] if view.reasons else "older"
    return f"{total_text(result)} ({why}, {age(now_s - result.finished_s)})"
