"""Which Python runs the user's code, and with what."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Where a virtual environment keeps its interpreter.
_IN_ENVIRONMENT = ("bin/python", "Scripts/python.exe")


@dataclass(frozen=True, slots=True)
class Place:
    """What an agent and its warm worker are for; another place needs another agent."""

    root: str
    python: str
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python, and where it comes from in words."""

    path: str
    source: str

    @property
    def problem(self) -> str:
        """Why it cannot be started, as far as the disk tells, and what to do; empty for nothing."""
        if not os.path.isfile(self.path):  # noqa: PTH113 - may be a bare name, which is no path
            what = "is not there"
        elif not os.access(self.path, os.X_OK):
            what = "cannot be executed"
        else:
            return ""
        return f"{self.path} {what}; choose a Python with the setting profileNeuron.interpreter"


def interpreter(
    root: str, setting: str, exists: Callable[[Path], bool] = os.path.exists, *, active: str = "", fallback: str = ""
) -> Interpreter:
    """The setting, else the one that is active in the editor, else the folder's .venv, else the fallback.

    A setting may begin with ~ or ${workspaceFolder}; a relative one counts from the folder. A bare name
    is found on the PATH. Without a fallback it is the Python that this server runs in.
    """
    if setting:
        return Interpreter(_named(root, setting), "the setting profileNeuron.interpreter")
    if active:
        return Interpreter(active, "the Python extension")
    for name in _IN_ENVIRONMENT:
        if exists(Path(root, ".venv", name)):
            return Interpreter(str(Path(root, ".venv", name)), "the folder's .venv")
    if fallback:
        return Interpreter(fallback, "python3 on the PATH")
    return Interpreter(sys.executable, "the Python that this server runs in")


def _named(root: str, setting: str) -> str:
    given = setting.replace("${workspaceFolder}", root)
    if os.sep not in given and "/" not in given and not given.startswith("~"):
        from shutil import which  # which brings archivers along that nobody here needs at the start

        return which(given) or given
    return os.path.join(root, os.path.expanduser(given))  # noqa: PTH111, PTH118 - links are kept as they are
