"""Where user code was when the worker died or had to be ended, from the stack that the worker left."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import profile_neuron
from profile_neuron.core import run_folder
from profile_neuron.core.fault_stack import is_cut, is_start_of, read_stacks
from profile_neuron.core.project import ProjectFiles
from profile_neuron.core.text import decode, split_lines
from profile_neuron.errors import SourceError
from profile_neuron.wire.stack_signal import stack_signal

if TYPE_CHECKING:
    from profile_neuron.agent.child import Child
    from profile_neuron.core.model import Frame
    from profile_neuron.wire.messages import RunRequest

# How long the worker may take to write, and how long the file must not have grown to be taken for complete.
_WRITE_S = 1.0
_QUIET_S = 0.05
_FILE_LIMIT_BYTES = 1 << 20
# A recursion shows its start and its end.
_FRAME_LIMIT = 16


async def ask_for_stack(child: Child, folder: str) -> None:
    """Have a worker that is about to be ended write its stack, and wait until it has; one that cannot leaves none."""
    number = stack_signal()
    path = Path(folder) / run_folder.STACK
    # One that has no such file yet would be ended by the signal.
    if number is None or not path.exists():
        return
    # The file is gone, or the process, where the run has ended by itself in this moment.
    with contextlib.suppress(OSError):
        before = size = path.stat().st_size
        os.kill(child.pid, number)
        for _ in range(round(_WRITE_S / _QUIET_S)):
            await asyncio.sleep(_QUIET_S)
            last, size = size, path.stat().st_size
            if size == last > before:
                return


def left_frames(request: RunRequest, has_crashed: bool) -> tuple[Frame, ...]:
    """The project's frames of the stack that a run left, outermost first; empty where there is none.

    Those of the main thread, but after a crash rather those of the thread that crashed, if it has any.
    """
    try:
        with (Path(request.run_folder) / run_folder.STACK).open("rb") as file:
            text = file.read(_FILE_LIMIT_BYTES).decode("ascii", "replace")
    except OSError:
        return ()
    stacks = [stack for stack in read_stacks(text) if stack.is_main or stack.is_current]
    stacks.sort(key=lambda stack: stack.is_current != has_crashed)
    project = _project_files(request)
    for stack in stacks:
        named = [replace(frame, path=_whole_path(frame.path, request)) for frame in stack.frames]
        frames = [frame for frame in named if frame.path in project]
        if len(frames) > _FRAME_LIMIT:
            frames = frames[: _FRAME_LIMIT // 2] + frames[-_FRAME_LIMIT // 2 :]
        if frames:
            return tuple(replace(frame, text=_line_text(frame, request)) for frame in frames)
    return ()


def _project_files(request: RunRequest) -> ProjectFiles:
    folders = sysconfig.get_paths()
    excluded = {folders[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    excluded.add(str(Path(profile_neuron.__file__).parent))
    return ProjectFiles(request.project_roots, excluded, os.path.exists)


def _whole_path(path: str, request: RunRequest) -> str:
    """A path that was cut is known again only where it is that of the profiled file, and is empty otherwise."""
    if not is_cut(path):
        return path
    return request.path if is_start_of(path, request.path) else ""


def _line_text(frame: Frame, request: RunRequest) -> str:
    """The line in the file as it is now; empty where the profiled file is another one by now."""
    try:
        source = Path(frame.path).read_bytes()
        if frame.path == request.path and hashlib.sha256(source).hexdigest() != request.sha256:
            return ""
        lines = split_lines(decode(source))
    except (OSError, ValueError, SourceError):
        return ""
    return lines[frame.line - 1].strip() if 0 < frame.line <= len(lines) else ""
