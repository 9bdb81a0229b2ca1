"""The processes that the servers of a test started, however far they went, and what each of them is."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.contract.test_agent import ended

Role = Literal["server", "agent", "worker", "report", "other"]
# In the environment of a server, and so of all that it starts.
MARK = "PN_TORTURE"
_LOOK_AGAIN_S = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it was when it was looked at."""

    pid: int
    parent: int
    role: Role
    command: str


def marked(mark: str) -> list[Process]:
    """Living processes whose mark begins like this."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # Empty for what has ended and waits for its parent.
            if any(part.startswith(wanted) for part in (entry / "environ").read_bytes().split(b"\0")):
                command = (entry / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ").strip()
                found.append(Process(int(entry.name), _stat(entry)[1], _role(command), command))
        except OSError:
            continue
    parents = {process.pid: process.role for process in found}
    # What a worker forks looks like one.
    return [
        Process(one.pid, one.parent, "other", f"fork of {one.command}")
        if one.role in ("worker", "report") and parents.get(one.parent) != "agent"
        else one
        for one in found
    ]


def find(mark: str, role: Role, limit_s: float) -> int | None:
    """A process of a role; waits for one to be started. None where there is none after a time."""
    deadline = time.monotonic() + limit_s
    while True:
        found = [process.pid for process in marked(mark) if process.role == role]
        if found:
            return max(found)
        if time.monotonic() >= deadline:
            return None
        # Nothing tells of the start of somebody else's process.
        time.sleep(_LOOK_AGAIN_S)


def kill(pid: int) -> bool:
    """End a process as an out-of-memory killer does; False where it had ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def left(mark: str, limit_s: float) -> list[Process]:
    """What is still there after a time; what ends within it is waited for."""
    deadline = time.monotonic() + limit_s
    while found := marked(mark):
        if not ended(found[0].pid, max(0.0, deadline - time.monotonic())):
            return marked(mark)
    return []


def zombies(parents: set[int]) -> list[int]:
    """Children of some processes that have ended and that nobody has waited for."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = _stat(entry)
        except OSError:
            continue
        if state == "Z" and parent in parents:
            found.append(int(entry.name))
    return found


def _stat(entry: Path) -> tuple[str, int]:
    """State and parent of a process."""
    # The name in the second field is in brackets and may hold spaces and brackets itself.
    fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return fields[0], int(fields[1])


def _role(command: str) -> Role:
    for role, part in _PARTS.items():
        if part in command:
            return role
    return "other"


_PARTS: dict[Role, str] = {
    "worker": "/worker/__main__.py",
    "report": "profile_neuron.report.__main__",
    "agent": "profile_neuron.agent.__main__",
    "server": " serve",
}
