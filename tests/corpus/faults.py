"""Deliberate faults of a line clock, each of which the corpus must notice."""

from __future__ import annotations

import ast
import opcode
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from profile_neuron.worker.line_clock import LineClock


def faulty(clock: type[LineClock], name: str) -> type[LineClock]:
    """A clock like the given one, with one fault."""
    return FAULTS[name](clock)


def _no_frame_stack(clock: type[LineClock]) -> type[LineClock]:
    """A call takes the place of its caller, whose line does not come back when it returns."""

    class Faulty(clock):  # type: ignore[misc, valid-type]
        def enter(self, code: CodeType, line: int | None, is_entry: bool) -> None:
            self._drop()
            super().enter(code, line, is_entry)

        def leave(self) -> None:
            self._drop()
            # A place for the caller's next line.
            self._stack().frames.append(None)

        def _drop(self) -> None:
            stack = self._stack()
            while stack.frames:
                self._close(stack)
                stack.frames.pop()

    return Faulty


def _no_unwind(clock: type[LineClock]) -> type[LineClock]:
    """A frame that ends with an exception stays on the stack."""

    class Faulty(clock):  # type: ignore[misc, valid-type]
        def unwind(self) -> None:
            pass

        def _on_event(self, frame: FrameType, event: str, argument: object) -> Any:
            if event == "return" and not _ends_with_exception(frame):
                self.leave()
                return self._on_event
            return super()._on_event(frame, event, argument)

    return Faulty


def _ends_with_exception(frame: FrameType) -> bool:
    """Whether a frame is left other than by return, yield or await; the event itself looks the same."""
    # Python 3.10 goes back one instruction when it suspends at an await.
    last, *following = (opcode.opname[code] for code in frame.f_code.co_code[frame.f_lasti :: 2][:2])
    return last not in ("RETURN_VALUE", "YIELD_VALUE") and following != ["YIELD_FROM"]


def _def_line(clock: type[LineClock]) -> type[LineClock]:
    """Every line is the one on which its function is defined."""

    class Faulty(clock):  # type: ignore[misc, valid-type]
        def line(self, code: CodeType, line: int) -> None:
            super().line(code, code.co_firstlineno)

    return Faulty


def _last_line(clock: type[LineClock]) -> type[LineClock]:
    """Every line is the last one of its statement."""

    class Faulty(clock):  # type: ignore[misc, valid-type]
        def line(self, code: CodeType, line: int) -> None:
            super().line(code, _ends(code.co_filename).get(line, line))

    return Faulty


@cache
def _ends(path: str) -> dict[int, int]:
    """For each line the last one of the innermost statement that it belongs to."""
    ends: dict[int, int] = {}
    # Outer statements come first, so that inner ones replace what these say.
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.stmt):
            last = _header_end(node)
            ends.update(dict.fromkeys(range(node.lineno, last + 1), last))
    return ends


def _header_end(node: ast.stmt) -> int:
    """Last line of a statement; of one with a body, the last before the body."""
    end = node.end_lineno or node.lineno
    starts = [
        min([child.lineno, *(item.lineno for item in getattr(child, "decorator_list", ()))])
        for child in ast.iter_child_nodes(node)
        if isinstance(child, ast.stmt)
    ]
    return max(node.lineno, min(starts) - 1) if starts else end


def _no_thread_hook(clock: type[LineClock]) -> type[LineClock]:
    """Only the thread that makes the calls is followed."""

    def is_calling() -> bool:
        return threading.current_thread() is threading.main_thread()

    class Faulty(clock):  # type: ignore[misc, valid-type]
        def enter(self, code: CodeType, line: int | None, is_entry: bool) -> None:
            if is_calling():
                super().enter(code, line, is_entry)

        def line(self, code: CodeType, line: int) -> None:
            if is_calling():
                super().line(code, line)

        def leave(self) -> None:
            if is_calling():
                super().leave()

    return Faulty


FAULTS: dict[str, Callable[[type[LineClock]], type[LineClock]]] = {
    "no-frame-stack": _no_frame_stack,
    "no-unwind": _no_unwind,
    "def-line": _def_line,
    "last-line": _last_line,
    "no-thread-hook": _no_thread_hook,
}
