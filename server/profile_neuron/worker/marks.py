"""Which definitions the decorator ran for during an import, and which of them can still be reached."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from profile_neuron.core.model import Failure
from profile_neuron.core.replacement import Afresh
from profile_neuron.worker.failures import RunStopped
from profile_neuron.worker.wrapping import innermost_function

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

    from profile_neuron.decorator import Options
    from profile_neuron.wire.messages import RunRequest


@dataclass(frozen=True, slots=True)
class Mark:
    """One application of the decorator."""

    # Held only for local functions. A module's or class's own functions are held by their module; one that
    # is not was replaced by a later definition and must not run.
    held: object | None
    reference: weakref.ref[Any] | None
    options: Options
    # The line that applied the decorator, and the first line of the function's code; 0 where not in the file.
    line: int
    function_line: int

    @property
    def decorated(self) -> object | None:
        """What the decorator got; for a property that is gone from its class its function; None if gone."""
        return self.held if self.reference is None else self.reference()

    def is_of(self, request: RunRequest) -> bool:
        """Whether this is the requested definition."""
        at_decorator = request.first_line <= self.line <= request.def_line
        return at_decorator or self.function_line == request.first_line


class Marks:
    """The marks of one file's import, in order; of several closures of one definition the last."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._marks: list[Mark] = []

    def add(self, decorated: object, options: Options, frame: FrameType) -> None:
        """Note one application; for decorator.on_mark."""
        # The decorator may be applied inside of a module that re-exports it.
        caller: FrameType | None = frame
        while caller is not None and caller.f_code.co_filename != self._path:
            caller = caller.f_back
        line = caller.f_lineno if caller is not None else 0
        function = innermost_function(decorated)
        function_line = 0
        if function is not None and function.__code__.co_filename == self._path:
            function_line = function.__code__.co_firstlineno
        if not line and not function_line:
            return
        if function is None or "<locals>" in function.__qualname__:
            mark = Mark(decorated, None, options, line, function_line)
            self._marks = [old for old in self._marks if not (old.held is not None and _same_place(old, mark))]
        else:
            mark = Mark(None, _reference(decorated, function), options, line, function_line)
        self._marks.append(mark)

    def moved(self, lines: Mapping[int, int]) -> Marks:
        """The same marks at new lines, by old ones. Raises Afresh where a new line is not known."""
        moved = Marks(self._path)
        known = {0: 0, **lines}
        for mark in self._marks:
            if mark.line not in known or mark.function_line not in known:
                raise Afresh(f"the new place of line {mark.line} is not known")
            line, function_line = known[mark.line], known[mark.function_line]
            moved._marks.append(replace(mark, line=line, function_line=function_line))
        return moved

    def find(self, request: RunRequest) -> Mark:
        """The mark of the requested definition. Raises RunStopped where there is none, or it was replaced."""
        # One definition may be executed several times, as in a loop; the last one is what the module has.
        found = [mark for mark in self._marks if mark.is_of(request)]
        if not found:
            raise RunStopped(
                "failed",
                Failure(
                    f"not-runnable: importing the file did not execute this definition of {request.qualname}; "
                    "only what runs during import can be profiled"
                ),
            )
        # A class that a later one replaced lives until the collector comes, and its methods with it.
        gc.collect()
        if found[-1].decorated is None:
            raise RunStopped(
                "failed",
                Failure(f"not-runnable: this definition of {request.qualname} was replaced by a later one"),
            )
        return found[-1]


def _reference(decorated: object, function: object) -> weakref.ref[Any]:
    try:
        return weakref.ref(decorated)
    except TypeError:
        # A property cannot be referred to weakly; its function can.
        return weakref.ref(function)


def _same_place(one: Mark, other: Mark) -> bool:
    return (one.line, one.function_line) == (other.line, other.function_line)
