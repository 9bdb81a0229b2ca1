"""Which functions of project files are entered outside of the profiled part, where the line clock sees them."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator
    from types import CodeType, FrameType

# Of inspect: what has fast locals is a function, so that the bodies of modules and classes are not.
_CO_OPTIMIZED = 1


class Reach:
    """Common part of both ways: the project's code objects that were entered since start."""

    def __init__(self) -> None:
        self._project: Container[str] = ()
        # All code that was seen, held, so that no other code object can get its identity.
        self._seen: dict[int, CodeType] = {}
        self._entered: list[CodeType] = []
        # False once user code took our place, so that nothing is known of what it entered.
        self.complete = True

    def start(self, project: Container[str]) -> None:
        """Begin anew. The one that is used stays the same: threads of an earlier run may still tell it."""
        self._project = project
        self._seen.clear()
        self._entered.clear()
        self.complete = True
        self._install()

    def stop(self) -> None:
        """Put back what was there before start; harmless where nothing was started."""
        raise NotImplementedError

    def look(self) -> bool:
        """Whether all that was entered up to now is known."""
        raise NotImplementedError

    @property
    def entered(self) -> tuple[CodeType, ...]:
        """The project's code objects that were entered."""
        return tuple(self._entered)

    def _install(self) -> None:
        raise NotImplementedError

    def _note(self, code: CodeType) -> None:
        self._seen[id(code)] = code
        if code.co_filename in self._project:
            self._entered.append(code)


_settrace = sys.settrace


class SettraceReach(Reach):
    """By the call events of sys.settrace and threading.settrace, for Python 3.10 and 3.11."""

    def __init__(self) -> None:
        super().__init__()
        self._before: tuple[Any, Any] | None = None

    def stop(self) -> None:
        self.look()
        if self._before is not None:
            sys.settrace = _settrace
            _settrace(self._before[0])
            threading.settrace(self._before[1])
            self._before = None

    def look(self) -> bool:
        if self._before is not None and not sys.gettrace() == threading.gettrace() == self._on_call:
            self.complete = False
        return self.complete

    def _install(self) -> None:
        self._before = (sys.gettrace(), threading.gettrace())
        threading.settrace(self._on_call)
        _settrace(self._on_call)
        sys.settrace = self._passed_on

    def _passed_on(self, function: Any) -> None:
        """Takes the place of sys.settrace, through which threading installs ours in new threads."""
        if function != self._on_call:
            self.complete = False
        _settrace(function)

    def _on_call(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if id(code) not in self._seen:
            self._note(code)


# The type checker reads the code as the oldest supported Python, which has no _monitoring.
_monitoring: Any = getattr(sys, "monitoring", None)
_TOOL_NAME = "profile-neuron reach"


class MonitoringReach(Reach):
    """By sys.monitoring, for Python 3.12 and newer: each code object costs one call."""

    def __init__(self) -> None:
        super().__init__()
        self._tool: int | None = None

    def stop(self) -> None:
        self.look()
        if self._tool is not None and self._is_installed():
            # What user code put in our place is not ours to remove.
            _monitoring.set_events(self._tool, 0)
            _monitoring.register_callback(self._tool, _monitoring.events.PY_START, None)
            _monitoring.free_tool_id(self._tool)
        self._tool = None

    def look(self) -> bool:
        if self._tool is not None and not self._is_installed():
            self.complete = False
        return self.complete

    def _install(self) -> None:
        # As the line clock, which is on at other times.
        self._tool = next((tool for tool in (4, 3, 2, 1, 0, 5) if _monitoring.get_tool(tool) is None), None)
        if self._tool is None:
            self.complete = False
            return
        event = _monitoring.events.PY_START
        _monitoring.use_tool_id(self._tool, _TOOL_NAME)
        _monitoring.register_callback(self._tool, event, self._on_start)
        _monitoring.set_events(self._tool, event)
        # Code that told us in an earlier run is to tell us again.
        _monitoring.restart_events()

    def _is_installed(self) -> bool:
        return bool(
            _monitoring.get_tool(self._tool) == _TOOL_NAME
            and _monitoring.get_events(self._tool) & _monitoring.events.PY_START
        )

    def _on_start(self, code: CodeType, offset: int) -> Any:
        if id(code) not in self._seen:
            self._note(code)
        return _monitoring.DISABLE


def new_reach() -> Reach:
    """The way for this interpreter."""
    return MonitoringReach() if sys.version_info >= (3, 12) else SettraceReach()


def function_lines(codes: Iterable[CodeType]) -> dict[str, tuple[int, ...]]:
    """First lines of the functions among some code objects, by path, sorted.

    A function's is the line of its first decorator. Bodies of modules and classes are left out, and comprehensions,
    which belong to the function around them.
    """
    found: dict[str, set[int]] = {}
    for path, line in _functions(codes):
        found.setdefault(path, set()).add(line)
    return {path: tuple(sorted(lines)) for path, lines in found.items()}


def _functions(codes: Iterable[CodeType]) -> Iterator[tuple[str, int]]:
    for code in codes:
        if code.co_flags & _CO_OPTIMIZED and (code.co_name == "<lambda>" or not code.co_name.startswith("<")):
            yield code.co_filename, code.co_firstlineno
