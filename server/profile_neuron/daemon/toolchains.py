"""What each interpreter has, as the last run with it said, while its installation stays the same."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import TYPE_CHECKING

from profile_neuron.core.model import Toolchain
from profile_neuron.core.plain import from_plain, to_plain

if TYPE_CHECKING:
    from pathlib import Path


class Toolchains:
    """One small file per interpreter, so that a restart knows which results are still good without running it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # What cannot be kept, until the server ends.
        self._unkept: dict[str, Toolchain] = {}

    def known(self, python: str) -> Toolchain | None:
        """What an interpreter has; None where that is not known, or where packages came or went since."""
        if python in self._unkept:
            return self._unkept[python]
        try:
            kept = json.loads(self._file_of(python).read_text(encoding="ascii"))
            toolchain = from_plain(Toolchain, kept["toolchain"])
            if kept["python"] == python and kept["stamp"] == _stamp(python, toolchain):
                return toolchain
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        return None

    def stamp(self, python: str) -> tuple[int, int | None]:
        """Changes when the interpreter is replaced, or a package comes or goes; None for what is not known yet."""
        toolchain = self._unkept.get(python)
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            kept = json.loads(self._file_of(python).read_text(encoding="ascii"))
            toolchain = from_plain(Toolchain, kept["toolchain"])
        with contextlib.suppress(OSError):
            if toolchain is None:
                return os.stat(python).st_mtime_ns, None  # noqa: PTH116 - follows links
            interpreter_ns, folder_ns = _stamp(python, toolchain)
            return interpreter_ns, folder_ns
        return 0, None

    def learn(self, python: str, toolchain: Toolchain) -> None:
        """Keep what a run said; where the disk does not let us, in memory."""
        file = self._file_of(python)
        unfinished = file.with_name(f"{file.name}.{os.getpid()}")
        try:
            kept = {"python": python, "stamp": _stamp(python, toolchain), "toolchain": to_plain(toolchain)}
            unfinished.write_text(json.dumps(kept), encoding="ascii")
            unfinished.replace(file)
            self._unkept.pop(python, None)
        except OSError:
            self._unkept[python] = toolchain

    def _file_of(self, python: str) -> Path:
        return self._folder / hashlib.sha256(python.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _stamp(python: str, toolchain: Toolchain) -> list[int]:
    """Changes when the interpreter is replaced, or a package is installed or removed. Raises OSError."""
    # A distribution that comes or goes is an entry of this folder that comes or goes.
    folder = toolchain.site_packages or os.path.dirname(python)  # noqa: PTH120 - as given, without resolving links
    return [os.stat(python).st_mtime_ns, os.stat(folder).st_mtime_ns]  # noqa: PTH116 - follows links
