"""What is going on and what came of the last run, in the few words of a status item and in whole sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from profile_neuron.core.hover import moment
from profile_neuron.core.render import holders_text, total_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profile_neuron.core.hover import Now
    from profile_neuron.core.model import Activity, Result, ShownState

_NAMED = 5
_FAILED = {"noInputs": "no inputs", "busy": "device busy"}


@dataclass(frozen=True, slots=True)
class EndedRun:
    """How a run of a function ended."""

    name: str
    finished_s: float
    # None where it has none; then how it ended instead, and why.
    result: Result | None
    state: ShownState = "fresh"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that decides what a status item says."""

    # Why nothing is run, one sentence; empty where functions are run.
    off_because: str = ""
    # A person hid what is shown at lines and above functions.
    is_hidden: bool = False
    # The function of which a run is on, and how far that is.
    running: str = ""
    activity: Activity | None = None
    # Functions that wait for theirs, the next one first.
    waiting: tuple[str, ...] = ()
    # The last run that ended by itself; None before the first.
    last: EndedRun | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """A status item."""

    text: str
    is_busy: bool
    # Sentences.
    detail: tuple[str, ...]


def status(situation: Situation, now: Now) -> Status:
    """What the item says: of the run that is on, else why there is none, else of the last one."""
    is_busy = situation.activity is not None or bool(situation.waiting)
    return Status(_text(situation, now), is_busy, tuple(_sentences(situation, now)))


def _text(situation: Situation, now: Now) -> str:
    if situation.activity is not None:
        return f"Neuron {_phase(situation.activity, now)}"
    if situation.off_because:
        return "Neuron off"
    if situation.waiting:
        return "Neuron queued"
    last = situation.last
    if last is None:
        return "Neuron"
    if last.result is None:
        return f"Neuron ✗ {_FAILED.get(last.state, 'failed')}"
    name = "cpu" if last.result.device_kind == "cpu" else "Neuron"
    return f"{name} ✓ {total_text(last.result).removeprefix('cpu ')}"


def _phase(activity: Activity, now: Now) -> str:
    match activity.phase:
        case "busy":
            return "busy"
        case "compile":
            return f"compiling {_seconds(activity, now)}"
        case "warm-up" | "capture" if activity.total:
            return f"profiling {min(activity.done + 1, activity.total)}/{activity.total}"
        case "" | "start":
            return "starting"
        case "import":
            return "importing"
        case "inputs":
            return "building inputs"
    return "profiling"


def _seconds(activity: Activity, now: Now) -> str:
    return f"{max(0.0, now.s - activity.began_s):.0f} s"


def _sentences(situation: Situation, now: Now) -> Iterator[str]:
    if situation.activity is not None:
        yield _doing(situation.running, situation.activity, now)
    if situation.waiting:
        yield _waiting(situation.waiting)
    if situation.off_because:
        yield situation.off_because
    if situation.last is not None:
        yield _came_of(situation.last, now)
    if situation.is_hidden:
        yield "Results are hidden in the text; toggle inline results to see them."


def _doing(name: str, activity: Activity, now: Now) -> str:
    match activity.phase:
        case "busy":
            holders = holders_text(activity.holders)
            return f"{name} waits for a NeuronCore{f', held by {holders}' if holders else ''}."
        case "compile":
            last = f", last time {activity.last_s:.0f} s" if activity.last_s is not None else ""
            return f"{name} has been compiling for {_seconds(activity, now)}{last}."
        case "warm-up" if activity.total:
            return f"{name} is warming up, call {min(activity.done + 1, activity.total)} of {activity.total}."
        case "capture" if activity.total:
            return f"{name} is being profiled, call {min(activity.done + 1, activity.total)} of {activity.total}."
        case "" | "start":
            return f"A worker starts for {name}."
        case "import":
            return f"The file of {name} is being imported."
        case "inputs":
            return f"The inputs of {name} are being built."
    return f"{name} is being profiled."


def _waiting(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"{shown} {'waits' if len(names) == 1 else 'wait'} to be run."


def _came_of(last: EndedRun, now: Now) -> str:
    when = moment(last.finished_s, now)
    if last.result is not None:
        return f"{last.name}: {total_text(last.result)} {when}, on {last.result.device_name}."
    reason = last.reason.split("\n", 1)[0].strip().rstrip(".")
    how = {"noInputs": "had no inputs", "busy": "found no free NeuronCore"}.get(last.state, "failed")
    return f"{last.name} {how} {when}{f': {reason}' if reason else ''}."
