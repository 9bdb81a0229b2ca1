"""Small files that are the user's alone: written whole, and believed only where nobody else can have written them."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in place of an earlier one, readable and writable by nobody but the user. Raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix="unfinished-", dir=path.parent)
    unfinished = Path(name)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        unfinished.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


def own_bytes(path: Path) -> bytes:
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
