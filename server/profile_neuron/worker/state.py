"""What user code may leave changed in the process, and how it is put back before the next run."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import random
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any, TextIO

from profile_neuron.worker import torch_host

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGALRM", "SIGCHLD", "SIGUSR1", "SIGUSR2")
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


class ProcessState:
    """The settings of interpreter and torch as they were when this was made, and where their random numbers stood."""

    def __init__(self) -> None:
        self._interpreter = InterpreterState()
        self._torch = torch_host.TorchState()
        self._python_random = random.getstate()
        self._torch_random = torch_host.random_state()
        numpy = _numpy_random()
        self._numpy_random = None if numpy is None else numpy.get_state()

    def apply(self) -> None:
        """Make the settings these ones; random numbers go on as they are."""
        self._interpreter.apply()
        self._torch.apply()

    def apply_with_random(self) -> None:
        """Make the settings these ones, and random numbers begin where they stood."""
        self.apply()
        random.setstate(self._python_random)
        torch_host.set_random_state(self._torch_random)
        numpy = _numpy_random()
        if numpy is not None and self._numpy_random is not None:
            numpy.set_state(self._numpy_random)


def left_running() -> str:
    """What is on that no state can apply again, such as a timer; empty where there is nothing."""
    if sys.getprofile() is not None or threading.getprofile() is not None:
        return "a profile function"
    if any(signal.getitimer(timer) != (0.0, 0.0) for timer in _TIMERS):
        return "a timer"
    if torch_host.left_open():
        return "a mode of torch"
    return ""


class InterpreterState:
    """The interpreter's settings as they were when this was made."""

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        self._arguments = list(sys.argv)
        self._recursion_limit = sys.getrecursionlimit()
        self._filters = list(warnings.filters)
        self._collects = gc.isenabled()
        numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
        self._handlers = {number: signal.getsignal(number) for number in numbers}
        self._folder: str | None = None
        # It may have been removed.
        with contextlib.suppress(OSError):
            self._folder = str(Path.cwd())

    def apply(self) -> None:
        """Make the settings these ones."""
        if dict(os.environ) != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        sys.path[:] = self._path
        sys.argv = list(self._arguments)
        sys.setrecursionlimit(self._recursion_limit)
        warnings.filters[:] = self._filters  # type: ignore[index]
        (gc.enable if self._collects else gc.disable)()
        for number, handler in self._handlers.items():
            # Handlers that were not set from Python read as None and cannot be set again.
            if handler is not None and signal.getsignal(number) is not handler:
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, handler)
        if self._folder is not None:
            with contextlib.suppress(OSError):
                os.chdir(self._folder)


class Streams:
    """The standard streams and descriptors as they were when this was made."""

    def __init__(self) -> None:
        # Kept apart, so that descriptors 1 and 2 can be put back after user code closed them.
        self._stderr = os.dup(2)
        self._null = os.open(os.devnull, os.O_RDONLY)
        self._streams = [sys.stdin, sys.stdout, sys.stderr]

    def restore(self) -> None:
        """Put them back, and end what user code left running beside its threads: tracing, profiling, timers."""
        sys.settrace(None)
        sys.setprofile(None)
        threading.settrace(None)
        threading.setprofile(None)
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        for number, descriptor in enumerate((self._null, self._stderr, self._stderr)):
            os.dup2(descriptor, number)
            if not _is_usable(self._streams[number]):
                self._streams[number] = _stream(number)
        sys.stdin, sys.stdout, sys.stderr = self._streams

    def are_replaced(self) -> bool:
        """Whether user code put others in their place."""
        descriptors = enumerate((self._null, self._stderr, self._stderr))
        is_kept = all(_is_same_file(number, descriptor) for number, descriptor in descriptors)
        return not is_kept or [sys.stdin, sys.stdout, sys.stderr] != self._streams


def _numpy_random() -> Any:
    """numpy's own random numbers, where user code has loaded them."""
    return sys.modules.get("numpy.random")


def _is_same_file(one: int, other: int) -> bool:
    try:
        return os.path.sameopenfile(one, other)
    except OSError:
        return False


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
