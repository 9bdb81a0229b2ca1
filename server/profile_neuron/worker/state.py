"""What user code may leave changed in the process, and how it is put back before the next run."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import signal
import sys
import threading
import warnings
from typing import TextIO

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGALRM", "SIGCHLD", "SIGUSR1", "SIGUSR2")


class InterpreterState:
    """The interpreter as it was when this was made."""

    def __init__(self) -> None:
        # Kept apart, so that descriptors 1 and 2 can be put back after user code closed them.
        self._stderr = os.dup(2)
        self._null = os.open(os.devnull, os.O_RDONLY)
        self._streams = [sys.stdin, sys.stdout, sys.stderr]
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        self._recursion_limit = sys.getrecursionlimit()
        self._filters = list(warnings.filters)
        numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
        self._handlers = {number: signal.getsignal(number) for number in numbers}

    def restore(self) -> None:
        """Put everything back that user code changed."""
        sys.settrace(None)
        sys.setprofile(None)
        threading.settrace(None)
        threading.setprofile(None)
        for number, descriptor in enumerate((self._null, self._stderr, self._stderr)):
            os.dup2(descriptor, number)
            if not _is_usable(self._streams[number]):
                self._streams[number] = _stream(number)
        sys.stdin, sys.stdout, sys.stderr = self._streams
        if dict(os.environ) != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        sys.path[:] = self._path
        sys.setrecursionlimit(self._recursion_limit)
        warnings.filters[:] = self._filters  # type: ignore[index]
        gc.enable()
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        for number, handler in self._handlers.items():
            # Handlers that were not set from Python read as None and cannot be set again.
            if handler is not None and signal.getsignal(number) is not handler:
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, handler)


def _is_usable(stream: TextIO) -> bool:
    """Whether user code has left a stream open and on its descriptor; one can also be detached from it."""
    try:
        return not stream.closed and stream.fileno() >= 0
    except (ValueError, OSError, AttributeError):
        return False


def _stream(number: int) -> TextIO:
    """A new stream on a standard descriptor, which it does not close."""
    raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    if number == 0:
        return io.TextIOWrapper(io.BufferedReader(raw))
    return io.TextIOWrapper(io.BufferedWriter(raw), errors="backslashreplace", line_buffering=True)
