"""The stacks that faulthandler writes, to lines of threads."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from profile_neuron.core.model import Frame

# The file begins with a line of ours, since nothing else in it says which thread is the main one.
MAIN_THREAD = "main thread "

# Longer names are cut; from Python/traceback.c.
_NAME_LIMIT = 500
_CUT = "..."

_THREAD = re.compile(r"(Current thread|Thread) 0x([0-9a-f]+) .*\(most recent call first\):")
# A name may hold quotes, which are not escaped.
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class Stack:
    """The frames of one thread, outermost first, of which deep ones lack the outermost."""

    is_main: bool
    # The thread that crashed, or that was asked.
    is_current: bool
    # Without text; long names are cut, see is_cut.
    frames: tuple[Frame, ...]


def read_stacks(text: str) -> tuple[Stack, ...]:
    """The threads in the order of the file; what is no thread or frame is passed over.

    Source: Python/traceback.c and Modules/faulthandler.c of CPython 3.10 to 3.14.
    """
    main: int | None = None
    stacks: list[Stack] = []
    for line in text.split("\n"):
        if line.startswith(MAIN_THREAD):
            main = _identity(line.removeprefix(MAIN_THREAD))
        elif (thread := _THREAD.fullmatch(line)) is not None:
            stacks.append(Stack(_identity(thread[2]) == main, thread[1] == "Current thread", ()))
        elif (found := _FRAME.fullmatch(line)) is not None and stacks:
            frame = Frame(_unescaped(found[1]), int(found[2]), _unescaped(found[3]), "")
            stacks[-1] = replace(stacks[-1], frames=(frame, *stacks[-1].frames))
    return tuple(stacks)


def main_thread_line(identity: int) -> str:
    """The line that a stack file begins with."""
    return f"{MAIN_THREAD}{identity:x}\n"


def is_cut(name: str) -> bool:
    """Whether only the start of a name came back."""
    return len(name) == _NAME_LIMIT + len(_CUT) and name.endswith(_CUT)


def is_start_of(name: str, whole: str) -> bool:
    """Whether a name that was cut can be this one."""
    return len(whole) > _NAME_LIMIT and name[:_NAME_LIMIT] == whole[:_NAME_LIMIT]


def _identity(digits: str) -> int | None:
    try:
        return int(digits, 16)
    except ValueError:
        return None


def _unescaped(name: str) -> str:
    """A name with the characters back that are written as numbers; a backslash of its own is not marked as one."""

    def character(escape: re.Match[str]) -> str:
        number = int(escape[1] or escape[2] or escape[3], 16)
        return chr(number) if number <= 0x10FFFF else escape[0]

    return _ESCAPE.sub(character, name)
