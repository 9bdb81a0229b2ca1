"""Which project line runs when: one profiler range stays open for the running line of each frame.

The ranges of callers stay open around those of the functions they call, so an operator's enclosing ranges
are its stack of project lines. A range is named by a number only, since names of files would not survive
the trace; the table of numbers goes into the run folder. Nothing is rewritten and no mode is pushed, so
torch.compile sees the same code as without the clock.
"""

from __future__ import annotations

import opcode
import sys
import threading
from collections import Counter
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, Protocol

from profile_neuron.core.run_folder import CALL_RANGE, WARMUP_RANGE, line_range
from profile_neuron.worker.failures import Conflict

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import CodeType, FrameType


class Range(Protocol):
    """A profiler range that can be entered again after it was left."""

    def __enter__(self) -> Any: ...
    def __exit__(self, *error: Any) -> Any: ...


RangeOpener = Callable[[str], Range]
# Gets the profiled call that is on, None for a warm-up one, and the numbers of the open ranges, outermost first.
Marker = Callable[["int | None", "tuple[int, ...]"], None]


class LineClock:
    """Common part of both clocks: the stack of each thread, the numbers of lines, entries of functions."""

    name = ""

    def __init__(self, opener: RangeOpener, project: Container[str], marker: Marker | None = None) -> None:
        """marker: told whenever other lines run from now on, on the thread where they do."""
        self._opener = opener
        self._project = project
        self._marker = marker
        self._call_number: int | None = None
        self._threads = threading.local()
        self._lock = threading.Lock()
        # Numbers of lines by identity of their code object: code objects of two files can be equal.
        self._numbers: dict[tuple[int, int], int] = {}
        self._is_project: dict[int, bool] = {}
        self._codes: dict[int, CodeType] = {}
        self.lines: list[tuple[CodeType, int]] = []
        self._entries: list[Counter[int]] = []
        self._in_call = False
        # A line range that could not be closed: user code stopped the profiler or closed it itself.
        self.broken = False

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """Put back what was there before start, on this thread and for new ones."""
        raise NotImplementedError

    def still_installed(self) -> bool:
        """Whether user code has left our hooks in place."""
        raise NotImplementedError

    def call(self, number: int | None) -> AbstractContextManager[None]:
        """Around one call: only inside are ranges opened and entries counted.

        Without a number it is a warm-up call, whose ranges lie in no call's range and so count nowhere.
        """
        self._call_number = number
        if number is None:
            return _Call(self, self._opener(WARMUP_RANGE), self._forget_entries)
        return _Call(self, self._opener(f"{CALL_RANGE}{number}"), lambda: None)

    def entries(self) -> list[tuple[CodeType, int]]:
        """How often each project code object was entered during the calls."""
        total: Counter[int] = Counter()
        for counter in list(self._entries):
            total.update(counter)
        return [(self._codes[key], count) for key, count in total.items()]

    @property
    def thread_count(self) -> int:
        """How many threads project code ran on."""
        return len(self._entries)

    def entered(self) -> list[CodeType]:
        """The project code objects that were entered or resumed while the clock was on, warm-up included."""
        return [code for key, code in list(self._codes.items()) if self._is_project.get(key)]

    def tracks(self, code: CodeType) -> bool:
        """Whether a code object belongs to the project."""
        known = self._is_project.get(id(code))
        if known is None:
            known = code.co_filename in self._project
            # Held, so that no other code object can get its identity.
            self._codes[id(code)] = code
            self._is_project[id(code)] = known
        return known

    # What the event sources tell. Each thread's frames are strictly nested, generators included: a frame
    # leaves the stack when it yields and enters it again when it is resumed.

    def enter(self, code: CodeType, line: int | None, is_entry: bool) -> None:
        """A frame starts, or goes on at a line after a suspension."""
        stack = self._stack()
        stack.frames.append(None)
        if self._in_call:
            if is_entry:
                stack.entries[id(code)] += 1
            if line is not None:
                self.line(code, line)

    def line(self, code: CodeType, line: int) -> None:
        """The running frame of this thread comes to a line."""
        stack = self._stack()
        if not stack.frames:
            return
        self._close(stack)
        if self._in_call:
            number = self._numbers.get((id(code), line))
            if number is None:
                number = self._number(code, line)
            free = stack.free.get(number)
            opened = free.pop() if free else self._opener(line_range(number))
            opened.__enter__()
            stack.frames[-1] = (number, opened)
            self._mark(stack)

    def leave(self) -> None:
        """The running frame of this thread returns or is suspended."""
        stack = self._stack()
        if stack.frames:
            self._close(stack)
            stack.frames.pop()
            if self._in_call:
                self._mark(stack)

    def unwind(self) -> None:
        """The running frame of this thread ends with an exception."""
        self.leave()

    def abandon(self) -> None:
        """Close what this thread has open, innermost first, where our hooks were taken away in a call."""
        stack = self._stack()
        while stack.frames:
            self._close(stack)
            stack.frames.pop()

    def _forget_entries(self) -> None:
        for counter in list(self._entries):
            counter.clear()

    def _close(self, stack: _Stack) -> None:
        top = stack.frames[-1]
        if top is not None:
            number, opened = top
            stack.frames[-1] = None
            try:
                opened.__exit__(None, None, None)
            except RuntimeError:
                self.broken = True
            else:
                stack.free.setdefault(number, []).append(opened)

    def _mark(self, stack: _Stack) -> None:
        if self._marker is not None:
            self._marker(self._call_number, tuple([frame[0] for frame in stack.frames if frame is not None]))

    def _number(self, code: CodeType, line: int) -> int:
        with self._lock:
            number = self._numbers.setdefault((id(code), line), len(self.lines))
            if number == len(self.lines):
                self._codes[id(code)] = code
                self.lines.append((code, line))
            return number

    def _stack(self) -> _Stack:
        try:
            stack: _Stack = self._threads.stack
            return stack
        except AttributeError:
            new = self._threads.stack = _Stack()
            self._entries.append(new.entries)
            return new


class _Stack:
    """One thread's running project frames, innermost last, each with its open range if it has one."""

    __slots__ = ("entries", "frames", "free")

    def __init__(self) -> None:
        self.frames: list[tuple[int, Range] | None] = []
        # Ranges to be used again, by line number: making one costs more than entering it.
        self.free: dict[int, list[Range]] = {}
        self.entries: Counter[int] = Counter()


class _Call:
    __slots__ = ("_after", "_clock", "_range")

    def __init__(self, clock: LineClock, opened: Range, after: Callable[[], None]) -> None:
        self._clock = clock
        self._range = opened
        self._after = after

    def __enter__(self) -> None:
        self._range.__enter__()
        self._clock._in_call = True
        # What runs before the first line is of none.
        self._clock._mark(self._clock._stack())

    def __exit__(self, *error: object) -> None:
        self._clock._in_call = False
        self._clock.abandon()
        try:
            self._range.__exit__(None, None, None)
        except RuntimeError:
            self._clock.broken = True
        self._after()


_settrace = sys.settrace


class SettraceClock(LineClock):
    """By sys.settrace and threading.settrace, for Python 3.10 and 3.11."""

    name = "settrace"

    def __init__(self, opener: RangeOpener, project: Container[str], marker: Marker | None = None) -> None:
        super().__init__(opener, project, marker)
        self._running = False
        self._before: tuple[Any, Any] = (None, None)
        self._starts: dict[int, int] = {}

    def start(self) -> None:
        self._before = (sys.gettrace(), threading.gettrace())
        self._running = True
        # For threads that start from now on.
        threading.settrace(self._on_call)
        _settrace(self._on_call)
        # Without our function operators would stand on the line that was the last to be seen.
        sys.settrace = self._refuse

    def stop(self) -> None:
        self._running = False
        sys.settrace = _settrace
        _settrace(self._before[0])
        threading.settrace(self._before[1])

    def _refuse(self, function: Any) -> None:
        """Takes the place of sys.settrace, through which threading installs ours in new threads."""
        if function != self._on_call:
            raise Conflict(
                "sys.settrace was called inside a function that profile-neuron is profiling, and its line clock "
                "needs the trace function; run without a debugger, coverage or tracing of your own"
            )
        _settrace(function)

    def still_installed(self) -> bool:
        return sys.gettrace() == self._on_call

    def _on_call(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if not self._running or not self.tracks(code):
            return None
        start = self._starts.get(id(code))
        if start is None:
            start = self._starts[id(code)] = _entry_offset(code)
        if frame.f_lasti <= start:
            self.enter(code, None, True)
        else:
            self.enter(code, frame.f_lineno, False)
        return self._on_event

    def _on_event(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self.line(frame.f_code, frame.f_lineno)
        elif event == "return":
            # Also the end by an exception, which the event's argument cannot tell from returning None.
            self.unwind()
        return self._on_event


def _entry_offset(code: CodeType) -> int:
    """The last instruction offset that a frame of this code shows when it has not yet begun."""
    resume = opcode.opmap.get("RESUME")
    if resume is None:
        # Up to Python 3.10 nothing was executed yet.
        return -1
    return next((offset for offset in range(0, len(code.co_code), 2) if code.co_code[offset] == resume), 0)


# The type checker reads the code as the oldest supported Python, which has no _monitoring.
_monitoring: Any = getattr(sys, "monitoring", None)


class MonitoringClock(LineClock):
    """By sys.monitoring, for Python 3.12 and newer: code outside of the project costs nothing."""

    name = "monitoring"

    def __init__(self, opener: RangeOpener, project: Container[str], marker: Marker | None = None) -> None:
        super().__init__(opener, project, marker)
        self._tool = -1
        self._local: dict[int, CodeType] = {}
        self._resume_lines: dict[tuple[int, int], int | None] = {}

    def start(self) -> None:
        # 3 and 4 are not reserved for any kind of tool; the rest only if those are taken.
        for tool in (4, 3, 2, 1, 0, 5):
            if _monitoring.get_tool(tool) is None:
                _monitoring.use_tool_id(tool, "profile-neuron")
                self._tool = tool
                break
        else:
            raise RuntimeError("all tool ids of sys.monitoring are taken; end the other tools and try again")
        events = _monitoring.events
        for event, handler in self._handlers().items():
            _monitoring.register_callback(self._tool, event, handler)
        # Unwinding and throwing exist only for all code at once.
        _monitoring.set_events(self._tool, events.PY_START | events.PY_RESUME | events.PY_THROW | events.PY_UNWIND)
        _monitoring.restart_events()

    def stop(self) -> None:
        if not self.still_installed():
            # User code took the tool's place; what it put there is not ours to remove.
            return
        _monitoring.set_events(self._tool, 0)
        for code in self._local.values():
            _monitoring.set_local_events(self._tool, code, 0)
        self._local.clear()
        for event in self._handlers():
            _monitoring.register_callback(self._tool, event, None)
        _monitoring.free_tool_id(self._tool)

    def still_installed(self) -> bool:
        return bool(_monitoring.get_tool(self._tool) == "profile-neuron")

    def _handlers(self) -> dict[int, Callable[..., Any]]:
        events = _monitoring.events
        return {
            events.PY_START: self._on_start,
            events.PY_RESUME: self._on_resume,
            events.PY_THROW: self._on_throw,
            events.LINE: self._on_line,
            events.PY_RETURN: self._on_leave,
            events.PY_YIELD: self._on_leave,
            events.PY_UNWIND: self._on_unwind,
        }

    def _on_start(self, code: CodeType, offset: int) -> Any:
        if not self.tracks(code):
            return _monitoring.DISABLE
        self._follow(code)
        self.enter(code, None, True)
        return None

    def _on_resume(self, code: CodeType, offset: int) -> Any:
        if not self.tracks(code):
            return _monitoring.DISABLE
        self._follow(code)
        self.enter(code, self._line_at(code, offset), False)
        return None

    def _on_throw(self, code: CodeType, offset: int, error: BaseException) -> Any:
        if self.tracks(code):
            self._follow(code)
            self.enter(code, self._line_at(code, offset), False)

    def _on_line(self, code: CodeType, line: int) -> Any:
        self.line(code, line)

    def _on_leave(self, code: CodeType, offset: int, value: object) -> Any:
        self.leave()

    def _on_unwind(self, code: CodeType, offset: int, error: BaseException) -> Any:
        if self.tracks(code):
            self.unwind()

    def _follow(self, code: CodeType) -> None:
        if id(code) not in self._local:
            self._local[id(code)] = code
            events = _monitoring.events
            _monitoring.set_local_events(self._tool, code, events.LINE | events.PY_RETURN | events.PY_YIELD)

    def _line_at(self, code: CodeType, offset: int) -> int | None:
        """The line a suspended frame goes on at: no line event comes before it reaches another one."""
        key = (id(code), offset)
        if key not in self._resume_lines:
            found = None
            for start, end, line in code.co_lines():
                if start <= offset < end:
                    found = line
            self._resume_lines[key] = found
        return self._resume_lines[key]


def default_clock() -> type[LineClock]:
    """The clock for this interpreter."""
    return MonitoringClock if sys.version_info >= (3, 12) else SettraceClock
