"""Takes the wire away from user code: descriptors 0 and 1 become harmless, the wire gets its own.

This module is imported before anything else in an agent or worker, so it needs only os and sys.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io import FileIO
    from typing import BinaryIO

# Precedes the first frame, so that what a shell or sitecustomize printed earlier does no harm.
MAGIC = b"\nprofile-neuron wire 1\n"


def take_over() -> tuple[FileIO, FileIO]:
    """The wire's reader and writer; afterwards stdin is empty and stdout goes to stderr.

    The new descriptors are not inherited by child processes.
    """
    reader = os.fdopen(os.dup(0), "rb", buffering=0)
    writer = os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    # Lines appear when they are written, although a pipe is on the other side.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    return reader, writer


def end_of_output(run_id: str) -> str:
    """The line by which a worker marks, among what user code printed, that a run is over."""
    return f"\x1eprofile-neuron end of run {run_id}"


def write_all(writer: BinaryIO, content: bytes) -> None:
    """Write to the wire's unbuffered end, which may take a part of it at a time."""
    rest = memoryview(content)
    while rest:
        rest = rest[writer.write(rest) :]
