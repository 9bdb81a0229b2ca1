"""Which folders the user allowed to run code of, kept in the user's state folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from pathlib import Path


class TrustRecord:
    """The user's answers, one file each, so that two servers never spoil each other's.

    A root is its path as given: another spelling of the same folder is another question.
    """

    def __init__(self, folder: Path) -> None:
        # Private to the user: whoever can write there can give trust.
        self._folder = folder

    def answer(self, root: str) -> bool | None:
        """What the user answered for a root; None where nothing was answered, or the answer cannot be relied on."""
        try:
            kept = json.loads(_own_bytes(self._file_of(root)))
        # A damaged file may also nest too deeply for the parser.
        except (OSError, ValueError, RecursionError):
            return None
        # The name of the file is a part of a hash only, and files can be copied.
        if not isinstance(kept, dict) or kept.get("root") != root:
            return None
        trusted = kept.get("trusted")
        return trusted if isinstance(trusted, bool) else None

    def keep(self, root: str, trusted: bool) -> None:
        """Keep an answer in place of an earlier one. Raises OSError."""
        # As ASCII, which also carries paths whose bytes are not text.
        text = json.dumps({"root": root, "trusted": trusted})
        # Readable and writable by nobody but the user, and written whole before it takes the place of another.
        descriptor, name = tempfile.mkstemp(prefix="unfinished-", dir=self._folder)
        unfinished = Path(name)
        try:
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(text)
            unfinished.replace(self._file_of(root))
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise

    def _file_of(self, root: str) -> Path:
        # Every str can be encoded this way, and no two of them alike.
        return self._folder / hashlib.sha256(root.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _own_bytes(path: Path) -> bytes:
    """The content of a plain file of this user. Raises OSError for a file that is anything else."""
    # Asked of what is open, since a name may change its file; without waiting, should it be a pipe.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is not a file")
        if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        return file.read()
