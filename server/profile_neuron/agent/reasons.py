"""Why a run ended before its answer, in one sentence that names the user's line and what to do."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from profile_neuron.core import units
from profile_neuron.core.model import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from profile_neuron.core.model import Frame
    from profile_neuron.wire.messages import Phase

_PHASES: Mapping[Phase, str] = {
    "start": "importing torch",
    "import": "importing the file",
    "inputs": "building the inputs",
    "compile": "compiling",
    "warm-up": "the warm-up calls",
    "capture": "the profiled calls",
    "read": "reading out the profiler",
}
_RAISE_RUN = "raise the limit with --timeout, in an editor run.timeout"
_RAISE: Mapping[Phase, str] = {
    "start": "look at what slows this machine down",
    "import": "raise the limit with --import-timeout, in an editor run.importTimeout",
    "inputs": _RAISE_RUN,
    "warm-up": _RAISE_RUN,
    "capture": _RAISE_RUN,
    "read": "profile fewer calls with repeats= of the decorator",
}
_SIGKILL = "signal 9 "


def timeout(phase: Phase, limit_s: float, frames: tuple[Frame, ...]) -> Failure:
    """A limit was passed."""
    if phase == "compile":
        reason = f"compile-failed: timeout: neuronx-cc ran longer than {limit_s:g} s{_at(frames)}"
        return Failure(f"{reason}; raise the limit with --compile-timeout, in an editor run.compileTimeout", frames)
    reason = f"timeout: {_PHASES[phase]} took longer than {limit_s:g} s{_at(frames)}"
    return Failure(f"{reason}; {_RAISE[phase]}", frames)


def crashed(phase: Phase, cause: str, frames: tuple[Frame, ...], ended_for_memory: bool | None) -> Failure:
    """The worker ended by itself; whether the system ended it for want of memory may not be known."""
    if cause.startswith(_SIGKILL) and ended_for_memory:
        reason = f"out of memory: the system ended the worker during {_PHASES[phase]}{_at(frames)}"
        return Failure(f"{reason}; use smaller inputs, or end other programs", frames)
    reason = f"crashed: the worker ended with {cause} during {_PHASES[phase]}{_at(frames)}"
    if cause.startswith(_SIGKILL) and ended_for_memory is None:
        reason += "; somebody else, or the system for want of memory, may have ended it"
    return Failure(reason, frames)


def over_memory(limit_bytes: int, frames: tuple[Frame, ...]) -> Failure:
    """The run used more memory than it may."""
    reason = f"out of memory: the run used more than {units.size(limit_bytes)} (run.memoryLimit){_at(frames)}"
    return Failure(f"{reason}; use smaller inputs, or raise the limit with --memory-limit", frames)


def wire_closed(phase: Phase, frames: tuple[Frame, ...]) -> Failure:
    """The worker lives, and can no longer be heard."""
    reason = f"crashed: the wire to the worker was closed during {_PHASES[phase]}{_at(frames)}"
    return Failure(f"{reason}; close only descriptors that your code has opened", frames)


def _at(frames: Sequence[Frame]) -> str:
    """The innermost of some frames."""
    if not frames:
        return ""
    frame = frames[-1]
    return f", at {PurePath(frame.path).name}:{frame.line} ({frame.function})"
