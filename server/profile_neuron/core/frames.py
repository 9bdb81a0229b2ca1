"""The Python frames of an exported trace, and what each operator has around it."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from profile_neuron.core.model import Event, PythonFrame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from profile_neuron.core.model import FrameworkTrace

_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d{1,9})\): (?P<name>.+)", re.DOTALL)
_OF_TORCH = re.compile(r"(?:^|/(?:site|dist)-packages/)torch(?:_neuronx)?/")
# What torch writes for a name with a character outside of printable ASCII.
LOST_NAME = "unknown"


class FunctionName(NamedTuple):
    """How a trace names a function."""

    # Shortened by the entry of sys.path that it was found under; with slashes on all systems.
    file: str
    # Of the first decorator, or of def. Of a frame that was open when profiling began, or of a generator that goes on,
    # it is the line that it was at; the trace does not tell which.
    line: int
    name: str


class Files:
    """Which frames are of functions of the user, and of which file."""

    def __init__(self, paths: Iterable[str] | None) -> None:
        self._paths = None if paths is None else sorted(set(paths))
        self._found: dict[str, tuple[str, ...]] = {}
        self._functions: dict[str, FunctionName | None] = {}

    def function(self, frame: str) -> FunctionName | None:
        """The function of a frame that is listed, by the name of the frame."""
        if frame not in self._functions:
            self._functions[frame] = self._parsed(frame)
        return self._functions[frame]

    def paths(self, file: str) -> tuple[str, ...]:
        """The given files that a shortened name can stand for."""
        if file not in self._found:
            self._found[file] = tuple(path for path in self._paths or () if path == file or path.endswith(f"/{file}"))
        return self._found[file]

    def _parsed(self, frame: str) -> FunctionName | None:
        found = _FRAME.fullmatch(frame)
        if found is None:
            return None
        file = found["file"].replace("\\", "/")
        if _is_of_torch(file) or (self._paths is not None and not self.paths(file)):
            return None
        return FunctionName(file, int(found["line"]), found["name"])


def _is_of_torch(file: str) -> bool:
    """Whether code is torch's own, or was made by it and has no file: <eval_with_key>.3."""
    return file.startswith("<") or _OF_TORCH.search(file) is not None


@dataclass(slots=True)
class OpenFrame:
    """A frame with what is around it."""

    frame: PythonFrame
    # No later than that of the frame which called it, nor than the start of the next one that is called there.
    end_ns: int
    # The listed function that it is of; None for another one, which is looked through.
    function: FunctionName | None
    # Listed functions that are open, its own included, each once; and the innermost of them.
    functions: frozenset[FunctionName]
    innermost: FunctionName | None
    # A frame of the same function is around it.
    is_recursion: bool
    # It or one around it has lost its name.
    has_lost_name: bool


@dataclass(slots=True)
class Place:
    """An operator, or something else that is named by what ran on the device, with what is around it."""

    event: Event
    # None outside of all frames.
    frame: OpenFrame | None
    # The operator around it.
    outer: Place | None
    # It is one with a known time.
    is_operator: bool
    # Of the operators directly inside.
    inner_ns: int = 0

    @property
    def function(self) -> FunctionName | None:
        """The innermost listed function that it is in."""
        return self.frame.innermost if self.frame is not None else None

    def chain(self) -> Iterator[Place]:
        """Itself and what is around it, innermost first."""
        place: Place | None = self
        while place is not None:
            yield place
            place = place.outer


def place_in_frames(trace: FrameworkTrace, files: Files) -> tuple[list[Place], list[OpenFrame]]:
    """All that can ask the device for something, and all frames; both by thread and start."""
    tells_callers = any(frame.parent is not None for frame in trace.frames)
    places: list[Place] = []
    frames: list[OpenFrame] = []
    for timeline in _timelines(trace):
        opened = _Frames(files, tells_callers)
        operators: list[Place] = []
        for item in timeline:
            if isinstance(item, PythonFrame):
                frames.append(opened.open(item))
                continue
            event, is_operator = item
            while operators and operators[-1].event.end_ns <= event.start_ns:
                operators.pop()
            outer = operators[-1] if operators else None
            place = Place(event, opened.at(event.start_ns), outer, is_operator)
            places.append(place)
            if is_operator:
                operators.append(place)
                if outer is not None:
                    # Events of one thread may overlap by a little.
                    outer.inner_ns += min(event.end_ns, outer.event.end_ns) - event.start_ns
    return places, frames


def _timelines(trace: FrameworkTrace) -> Iterator[list[PythonFrame | tuple[Event, bool]]]:
    """For each thread its frames, and its events with whether they are operators, by start.

    Of those with the same start frames come first, then the longer one, then the one that was opened first.
    """
    threads: dict[int, list[tuple[tuple[int, int, int, int], PythonFrame | tuple[Event, bool]]]] = defaultdict(list)
    for position, frame in enumerate(trace.frames):
        order = position if frame.number is None else frame.number
        threads[frame.thread].append(((frame.start_ns, 0, -frame.end_ns, order), frame))
    for events, is_operator in ((trace.operators, True), (trace.annotations, False), (trace.places, False)):
        for event in events:
            threads[event.thread].append(((event.start_ns, 1, -event.end_ns, event.order), (event, is_operator)))
    for thread in sorted(threads):
        yield [item for _, item in sorted(threads[thread], key=lambda entry: entry[0])]


class _Frames:
    """The frames that are open on one thread.

    Who called whom is told by the numbers of frames where there are any. One whose return the profiler missed ends with
    its caller, and where its caller calls again (pytorch#189794).
    """

    def __init__(self, files: Files, tells_callers: bool) -> None:
        self._files = files
        self._tells_callers = tells_callers
        self._opened: list[OpenFrame] = []

    def at(self, time_ns: int) -> OpenFrame | None:
        """The innermost frame at a time, which is not before any other that was asked for."""
        while self._opened and self._opened[-1].end_ns <= time_ns:
            self._opened.pop()
        return self._opened[-1] if self._opened else None

    def open(self, frame: PythonFrame) -> OpenFrame:
        """The frame with what is around it; those that it shows to have ended do so."""
        caller = self._caller(frame)
        function = self._files.function(frame.name)
        around: frozenset[FunctionName] = caller.functions if caller is not None else frozenset()
        opened = OpenFrame(
            frame=frame,
            end_ns=frame.end_ns if caller is None else max(frame.start_ns, min(frame.end_ns, caller.end_ns)),
            function=function,
            functions=around if function is None or function in around else around | {function},
            innermost=function if function is not None or caller is None else caller.innermost,
            is_recursion=function in around,
            has_lost_name=frame.name == LOST_NAME or (caller is not None and caller.has_lost_name),
        )
        self._opened.append(opened)
        return opened

    def _caller(self, frame: PythonFrame) -> OpenFrame | None:
        depth = self._depth(frame)
        if depth is None:
            return self.at(frame.start_ns)
        for ended in self._opened[depth:]:
            ended.end_ns = min(ended.end_ns, frame.start_ns)
        del self._opened[depth:]
        return self._opened[-1] if self._opened else None

    def _depth(self, frame: PythonFrame) -> int | None:
        """How many of the open frames are around a frame, by the number of its caller; None where that is not told."""
        if frame.parent is None:
            return 0 if self._tells_callers else None
        for depth in range(len(self._opened), 0, -1):
            if self._opened[depth - 1].frame.number == frame.parent:
                return depth
        return None
