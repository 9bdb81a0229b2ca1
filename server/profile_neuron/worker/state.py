"""What user code may leave changed in the process, and how it is put back before the next run."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import warnings

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGALRM", "SIGCHLD", "SIGUSR1", "SIGUSR2")


class InterpreterState:
    """The interpreter as it was when this was made."""

    def __init__(self) -> None:
        # Kept apart, so that descriptors 1 and 2 can be put back after user code closed them.
        self._stderr = os.dup(2)
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
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
        for number in (1, 2):
            os.dup2(self._stderr, number)
        sys.stdin, sys.stdout, sys.stderr = self._streams
        if dict(os.environ) != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        sys.path[:] = self._path
        sys.setrecursionlimit(self._recursion_limit)
        warnings.filters[:] = self._filters  # type: ignore[index]
        gc.enable()
        for number, handler in self._handlers.items():
            # Handlers that were not set from Python read as None and cannot be set again.
            if handler is not None and signal.getsignal(number) is not handler:
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, handler)
