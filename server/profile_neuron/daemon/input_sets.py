"""Which of its named inputs each function is run with, as the user chose, kept in the user's state folder."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from profile_neuron.daemon.private_files import own_bytes, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from profile_neuron.core.model import FunctionSpec

# Device, number, time and size of a file, by which its content is known again.
_Stamp = tuple[int, int, int, int]


class InputSets:
    """The user's choices, one file each, so that two servers never lose each other's.

    A function is its root, path and qualified name as given.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # As read last, and choices that could not be kept.
        self._read: dict[Path, tuple[_Stamp, str]] = {}
        self._unkept: dict[Path, str] = {}

    def chosen(self, root: str, path: str, qualname: str) -> str:
        """The name that was chosen; empty for the first. Costs one look at the disk."""
        file = self._file_of(root, path, qualname)
        if file in self._unkept:
            return self._unkept[file]
        try:
            status = file.stat()
            stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
            known = self._read.get(file)
            if known is None or known[0] != stamp:
                known = self._read[file] = (stamp, _name(own_bytes(file), [root, path, qualname]))
        except OSError:
            return ""
        return known[1]

    def current(self, root: str, path: str, function: FunctionSpec) -> str:
        """The same, as long as the function's decorator has inputs of that name behind the first."""
        name = self.chosen(root, path, function.qualname) if function.input_sets else ""
        return name if name in function.input_sets[1:] else ""

    def choose(self, root: str, path: str, qualname: str, name: str) -> None:
        """Keep a choice in place of an earlier one. Raises OSError; it then holds as long as this object."""
        file = self._file_of(root, path, qualname)
        # As ASCII, which also carries paths whose bytes are not text.
        text = json.dumps({"function": [root, path, qualname], "name": name})
        self._unkept[file] = name
        write_whole(file, text.encode("ascii"))
        del self._unkept[file]

    def _file_of(self, root: str, path: str, qualname: str) -> Path:
        # No path and no name holds a zero.
        text = "\0".join((root, path, qualname))
        return self._folder / hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _name(content: bytes, function: list[str]) -> str:
    """The name in a file; empty where it is damaged or, as a copy, of another function."""
    try:
        kept = json.loads(content)
    # A damaged file may also nest too deeply for the parser.
    except (ValueError, RecursionError):
        return ""
    if not isinstance(kept, dict) or kept.get("function") != function:
        return ""
    name = kept.get("name")
    return name if isinstance(name, str) else ""
