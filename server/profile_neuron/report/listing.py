"""The files below a folder by path, size and time of last change; nothing is opened, and no link is followed."""

from __future__ import annotations

import os
import stat
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profile_neuron.capture.session_dir import ListedFile, shown_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_ENTRIES = 20_000


@dataclass(frozen=True, slots=True)
class Listing:
    """What a folder holds, as far as it could be seen."""

    # Sorted by path. Bytes of a name that are no text are surrogates, as os.fsdecode makes them.
    files: tuple[ListedFile, ...]
    # Why files may be missing here, one sentence each.
    gaps: tuple[str, ...] = ()


def list_files(folder: Path, most: int = MOST_ENTRIES) -> Listing:
    """The regular files below a folder, nearer ones first where there are too many.

    most: how many entries are looked at, folders and links among them. What vanishes meanwhile is left out. A folder
    that does not exist holds nothing, and one that is a link itself is read.
    """
    walk = _Walk(str(folder), most)
    files = sorted(walk.files(), key=lambda file: file.path)
    return Listing(tuple(files), tuple(walk.gaps()))


class _Walk:
    """One way through a tree, level by level."""

    def __init__(self, root: str, most: int) -> None:
        self._root = root
        self._most = most
        self._left = most
        # Relative, with a slash behind; empty for the root.
        self._pending = deque([""])
        self._is_cut = False
        self._unreadable: list[str] = []

    def files(self) -> Iterator[ListedFile]:
        while self._pending:
            below = self._pending.popleft()
            try:
                yield from self._entries(below)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                folder = os.path.join(self._root, below)  # noqa: PTH118
                self._unreadable.append(f"{shown_path(folder)} cannot be read ({error.strerror})")

    def gaps(self) -> Iterator[str]:
        if self._is_cut:
            yield (
                f"{shown_path(self._root)} holds more than {self._most} files and folders, of which the rest was not "
                "looked at; give every run an output directory of its own"
            )
        if self._unreadable:
            more = f", nor can {len(self._unreadable) - 1} more" if len(self._unreadable) > 1 else ""
            yield f"{self._unreadable[0]}{more}; see that you may read all of it"

    def _entries(self, below: str) -> Iterator[ListedFile]:
        with os.scandir(os.path.join(self._root, below)) as entries:  # noqa: PTH118 - of many thousand files
            for entry in entries:
                if self._left == 0:
                    self._is_cut = True
                    self._pending.clear()
                    return
                self._left -= 1
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISDIR(found.st_mode):
                    self._pending.append(f"{below}{entry.name}/")
                elif stat.S_ISREG(found.st_mode):
                    yield ListedFile(below + entry.name, found.st_size, found.st_mtime_ns)
