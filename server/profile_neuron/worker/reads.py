"""Which files user code reads while a module is executed: a later execution would read them again."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Container

# What is no file that a person changes.
_SYSTEM = ("/dev/", "/proc/", "/sys/")
_COMPILED = (".pyc", ".so")


class Reads:
    """Files that were opened for reading between start and stop, as Python's audit events tell; C tells nothing."""

    def __init__(self) -> None:
        self._is_on = False
        self._paths: set[str] = set()
        # Stays for as long as the process.
        sys.addaudithook(self._on_event)

    def start(self) -> None:
        """Forget what was read before."""
        self._paths.clear()
        self._is_on = True

    def stop(self, foreign: tuple[str, ...], known: Container[str]) -> dict[str, object]:
        """The files that were read, by path, with what tells whether they are still the same.

        foreign: folders whose files are left out. known: files that are compared in another way.
        """
        self._is_on = False
        paths = sorted(self._paths)
        return {path: stamp(path) for path in paths if path not in known and not path.startswith(foreign)}

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_on or event != "open":
            return
        name, _, flags = arguments
        if isinstance(name, (str, bytes)) and not (isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY):
            try:
                path = os.path.abspath(os.fsdecode(name))  # noqa: PTH100 - resolving costs, and is not needed
            except OSError:
                # The working directory is gone.
                return
            if not path.startswith(_SYSTEM) and not path.endswith(_COMPILED):
                self._paths.add(path)


def stamp(path: str) -> object:
    """What changes when a file does; None where there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)
