"""Processes below another one and what they take, as Linux tells in /proc; other systems tell nothing here."""

from __future__ import annotations

import contextlib
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_PROC = Path("/proc")
# What a script may be started with.
_INTERPRETERS = ("python", "sh", "bash", "dash")
_ZOMBIE = "Z"


def parents() -> dict[int, int]:
    """The parent of every process; empty where that is not told."""
    found = {}
    for entry in _PROC.glob("[0-9]*"):
        fields = _status_fields(int(entry.name))
        if fields:
            found[int(entry.name)] = int(fields[1])
    return found


def descendants(root: int, without: Collection[int] = ()) -> list[int]:
    """What a process has started, and what that has started, in whatever session; some are left out with all of theirs.

    Asked several times per second, so the whole table is read only where the system does not list children.
    """
    table = {} if _lists_children() else parents()
    found = [root]
    for pid in found:
        started = [child for child, parent in table.items() if parent == pid] if table else _children(pid)
        found += [child for child in started if child not in without]
    return found[1:]


def used_bytes(pids: Iterable[int], limit_bytes: int) -> int:
    """Resident memory of some processes together.

    Pages that several of them share are counted for each at first, which is quick. Where that passes the limit, each
    page is counted once, which takes long for a large process.
    """
    pids = tuple(pids)
    quick = sum(resident for resident, _ in map(_resident_bytes, pids))
    return quick if quick <= limit_bytes else sum(map(_proportional_bytes, pids))


def is_program(pid: int, name: str) -> bool:
    """Whether a process runs the program, or the script, of a name."""
    fields = _status_fields(pid)
    if not fields or fields[0] == _ZOMBIE:
        return False
    try:
        arguments = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")[:2]
        # The kernel names the process of a script after the script.
        command = (_PROC / str(pid) / "comm").read_text(errors="replace").rstrip("\n")
    except OSError:
        return False
    program, *rest = [os.fsdecode(argument).rpartition("/")[2] for argument in arguments]
    return name in (command, program) or (program.rstrip("0123456789.") in _INTERPRETERS and name in rest)


def oom_kills(proc: Path = _PROC, cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """How many processes the system has ended for want of memory, in our cgroup or else altogether; None if unknown."""
    for path in _oom_counters(proc, cgroups):
        try:
            lines = path.read_text().split("\n")
        except OSError:
            continue
        for line in lines:
            name, _, number = line.partition(" ")
            if name == "oom_kill" and number.isdigit():
                return int(number)
    return None


def _oom_counters(proc: Path, cgroups: Path) -> list[Path]:
    try:
        groups = (proc / "self" / "cgroup").read_text().split("\n")
    except OSError:
        groups = []
    found = []
    for group in groups:
        _, _, rest = group.partition(":")
        controllers, _, name = rest.partition(":")
        if not controllers:
            found.append(cgroups / name.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            found.append(cgroups / "memory" / name.lstrip("/") / "memory.oom_control")
    return [*found, proc / "vmstat"]


@cache
def _lists_children() -> bool:
    return (_PROC / "self" / "task" / str(os.getpid()) / "children").exists()


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        tasks = list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return found
    for task in tasks:
        # A thread may end at any moment.
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def _status_fields(pid: int) -> list[str]:
    """State, parent and what follows; empty for a process that is gone."""
    try:
        # The name in the second field is in brackets and may hold spaces and brackets itself.
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _resident_bytes(pid: int) -> tuple[int, int]:
    """All resident memory, and the part of it that other processes may have too."""
    try:
        fields = (_PROC / str(pid) / "statm").read_text().split()
    except OSError:
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(fields[1]) * page, int(fields[2]) * page


def _proportional_bytes(pid: int) -> int:
    """Resident memory in which a page of several processes counts in parts."""
    try:
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().split("\n"):
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    resident, shared = _resident_bytes(pid)
    return resident - shared
