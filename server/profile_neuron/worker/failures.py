"""What user code raised, as data: one sentence and the lines of the project that led to it."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING

from profile_neuron.core.model import Failure, Frame, State
from profile_neuron.worker.compiler import compiler_failure

if TYPE_CHECKING:
    from collections.abc import Container
    from types import TracebackType

_MESSAGE_LIMIT = 300
# A recursion shows its start and its end.
_FRAME_LIMIT = 16


class RunStopped(Exception):
    """A run that cannot go on, with the state it ends in."""

    def __init__(self, state: State, failure: Failure, at_import: bool = False, again: bool = False) -> None:
        super().__init__(failure.reason)
        self.state = state
        self.failure = failure
        # Whether the user's file itself did not load.
        self.at_import = at_import
        # Whether a new process would have more success.
        self.again = again


class Conflict(RuntimeError):
    """Raised at the user's line where code of theirs and the profiler cannot both have what they need."""


def failure_of(error: BaseException, project: Container[str]) -> Failure:
    """The error's type and first line, and the frames of it that lie in the project, outermost first."""
    frames = _frames(error.__traceback__, project)
    if isinstance(error, SyntaxError) and error.filename in project and error.lineno:
        text = (error.text or "").strip() or linecache.getline(error.filename or "", error.lineno).strip()
        frames.append(Frame(error.filename or "", error.lineno, "", text))
    if len(frames) > _FRAME_LIMIT:
        frames = frames[: _FRAME_LIMIT // 2] + frames[-_FRAME_LIMIT // 2 :]
    reason = f"conflict: {error}" if isinstance(error, Conflict) else compiler_failure(error) or describe(error)
    return Failure(reason, tuple(frames))


def describe(error: BaseException) -> str:
    """Type and first line of the message, and the second where the first one only announces it."""
    name = type(error).__name__
    try:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:  # noqa: BLE001 - the user's own __str__ may raise anything
        message = "(its message cannot be shown)"
    lines = [line.strip() for line in message.split("\n") if line.strip()]
    first = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    if len(first) > _MESSAGE_LIMIT:
        first = f"{first[:_MESSAGE_LIMIT]}…"
    return f"{name}: {first}" if first else name


def raised_in(error: BaseException | None) -> str:
    """The file whose code raised an error, or that does not parse; empty where it is not known."""
    if isinstance(error, SyntaxError):
        return error.filename or ""
    trace = error.__traceback__ if error is not None else None
    path = ""
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        trace = trace.tb_next
    return path


def _frames(trace: TracebackType | None, project: Container[str]) -> list[Frame]:
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename in project:
            text = linecache.getline(code.co_filename, trace.tb_lineno).strip()
            frames.append(Frame(code.co_filename, trace.tb_lineno, code.co_name, text))
        trace = trace.tb_next
    return frames
