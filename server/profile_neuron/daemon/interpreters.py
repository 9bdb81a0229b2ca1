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


def interpreter(root: str, setting: str, exists: Callable[[Path], bool] = os.path.exists) -> str:
    """The setting, else the folder's .venv, else the Python that this server runs in.

    A setting may begin with ~ or ${workspaceFolder}; a relative one counts from the folder. A bare name
    is found on the PATH.
    """
    if setting:
        given = setting.replace("${workspaceFolder}", root)
        if os.sep not in given and "/" not in given and not given.startswith("~"):
            from shutil import which  # which brings archivers along that nobody here needs at the start

            return which(given) or given
        return os.path.join(root, os.path.expanduser(given))  # noqa: PTH111, PTH118 - links are kept as they are
    for name in _IN_ENVIRONMENT:
        if exists(Path(root, ".venv", name)):
            return str(Path(root, ".venv", name))
    return sys.executable
