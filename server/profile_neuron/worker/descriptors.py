"""Descriptors of ours, with numbers that user code hardly ever closes."""

from __future__ import annotations

import fcntl
import os
import resource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO

# User code that closes the descriptors it does not know of begins with the low ones, and often ends at a low limit.
_HIGHEST_DESCRIPTOR = 4096
_ROOM_AT_THE_TOP = 16


def high_copy(descriptor: int) -> int:
    """A copy with a high number, not inherited by child processes."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    least = min(limit, _HIGHEST_DESCRIPTOR) if limit > 0 else _HIGHEST_DESCRIPTOR
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, max(3, least - _ROOM_AT_THE_TOP))


def moved_up(stream: BinaryIO, mode: str) -> BinaryIO:
    """The same without a buffer on a high descriptor; the low one is closed."""
    moved: BinaryIO = os.fdopen(high_copy(stream.fileno()), mode, buffering=0)  # type: ignore[assignment]
    stream.close()
    return moved
