"""What user code may leave changed in the process, and how it is put back before the next run."""

from __future__ import annotations

import builtins
import contextlib
import decimal
import gc
import io
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
import tracemalloc
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from profile_neuron.worker import torch_host
from profile_neuron.worker.descriptors import high_copy

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_BUILTINS = vars(builtins)
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
# What user code sets in the process: how it is read and how it is put back.
_SETTINGS: tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...] = (
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (sys.getswitchinterval, sys.setswitchinterval),
    (getattr(sys, "get_int_max_str_digits", int), getattr(sys, "set_int_max_str_digits", bool)),
    (threading.stack_size, threading.stack_size),
    (gc.isenabled, lambda is_on: (gc.enable if is_on else gc.disable)()),
    (gc.get_threshold, lambda thresholds: gc.set_threshold(*thresholds)),
    (gc.get_debug, gc.set_debug),
    (
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        lambda mask: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
    ),
    (lambda: os.getpriority(os.PRIO_PROCESS, 0), lambda value: _set_priority(value)),
    (lambda: _umask(), os.umask),
    (lambda: locale.setlocale(locale.LC_ALL), lambda name: locale.setlocale(locale.LC_ALL, name)),
    (lambda: decimal.getcontext().copy(), lambda context: decimal.setcontext(context.copy())),
    (tracemalloc.is_tracing, lambda is_on: (tracemalloc.start if is_on else tracemalloc.stop)()),
    (socket.getdefaulttimeout, socket.setdefaulttimeout),
    (
        lambda: multiprocessing.get_start_method(allow_none=True),
        lambda method: multiprocessing.set_start_method(method, force=True),
    ),
    (lambda: (logging.root.manager.disable, logging.root.level), lambda levels: _set_logging(*levels)),
)
# What it replaces: names in modules.
_ATTRIBUTES = (
    (warnings, "filters"),
    (warnings, "showwarning"),
    (sys, "excepthook"),
    (sys, "unraisablehook"),
    (sys, "displayhook"),
    (sys, "dont_write_bytecode"),
    (sys, "path"),
    (sys, "meta_path"),
    (sys, "path_hooks"),
    (threading, "excepthook"),
    (tempfile, "tempdir"),
)


class ProcessState:
    """The settings of interpreter and torch as they were when this was made, and where their random numbers stood."""

    def __init__(self) -> None:
        self._interpreter = InterpreterState()
        self._torch = torch_host.TorchState()
        self._python_random = random.getstate()
        self._torch_random = torch_host.random_state()
        numpy = _numpy_random()
        self._numpy_random = None if numpy is None else numpy.get_state()

    def apply(self) -> bool:
        """Make the settings these ones; random numbers go on as they are.

        False where one of them cannot be put back in this process.
        """
        is_done = self._interpreter.apply()
        self._torch.apply()
        return is_done

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
        self._arguments = list(sys.argv)
        self._lists = [(place, list(place)) for place in _lists()]
        self._path_finders = dict(sys.path_importer_cache)
        self._builtins = dict(_BUILTINS)
        self._attributes = [(owner, name, getattr(owner, name)) for owner, name in _ATTRIBUTES if hasattr(owner, name)]
        self._settings = [(put, get()) for get, put in _SETTINGS]
        self._limits = {number: resource.getrlimit(number) for number in _LIMITS}
        self._handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        self._modules = _standard_modules()
        self._folder: str | None = None
        # It may have been removed.
        with contextlib.suppress(OSError):
            self._folder = str(Path.cwd())

    def apply(self) -> bool:
        """Make the settings these ones; False where the system does not let one of them be put back."""
        # First, since what follows uses them.
        _put_builtins(self._builtins)
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
        for owner, name, value in self._attributes:
            setattr(owner, name, value)
        for place, content in self._lists:
            if place != content:
                place[:] = content
        if not sys.path_importer_cache:
            sys.path_importer_cache.update(self._path_finders)
        sys.argv = list(self._arguments)
        if dict(os.environ) != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
            time.tzset()
        self._apply_handlers()
        if self._folder is not None:
            with contextlib.suppress(OSError):
                os.chdir(self._folder)
        # Each of them, also where one cannot be put back.
        return all([self._apply_limits(), *(_is_put(put, value) for put, value in self._settings)])

    def _apply_handlers(self) -> None:
        for number, handler in self._handlers.items():
            # Handlers that were not set from Python read as None and cannot be set again.
            if handler is not None and signal.getsignal(number) is not handler:
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, handler)

    def _apply_limits(self) -> bool:
        is_done = True
        for number, pair in self._limits.items():
            if resource.getrlimit(number) != pair:
                try:
                    resource.setrlimit(number, pair)
                except (OSError, ValueError):
                    # A hard limit goes down only.
                    is_done = False
        return is_done


class Streams:
    """The standard streams and descriptors as they were when this was made."""

    def __init__(self) -> None:
        # Kept apart, so that descriptors 1 and 2 can be put back after user code closed them.
        self._stderr = high_copy(2)
        null = os.open(os.devnull, os.O_RDONLY)
        self._null = high_copy(null)
        os.close(null)
        self._streams = [sys.stdin, sys.stdout, sys.stderr]

    def restore(self) -> None:
        """Put them back, and end what user code left running beside its threads: tracing, profiling, timers."""
        sys.settrace(None)
        sys.setprofile(None)
        threading.settrace(None)
        threading.setprofile(None)
        signal.set_wakeup_fd(-1)
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


def _lists() -> tuple[list[Any], ...]:
    """The lists of the interpreter and of libraries that user code adds to and takes from."""
    return (sys.path, sys.meta_path, sys.path_hooks, warnings.filters, gc.callbacks, logging.root.handlers)  # type: ignore[return-value]


def _standard_modules() -> dict[str, ModuleType]:
    """What is loaded of Python itself and of torch, which user code may have taken away or replaced for itself."""
    names = {*sys.stdlib_module_names, "torch"} - {"__main__"}
    return {name: module for name, module in list(sys.modules.items()) if name.partition(".")[0] in names}


def _put_builtins(content: dict[str, Any]) -> None:
    # With methods and syntax alone, since any name may be gone.
    for name in [*_BUILTINS]:
        if name not in content:
            del _BUILTINS[name]
    _BUILTINS.update(content)


def _is_put(put: Callable[[Any], object], value: Any) -> bool:
    try:
        put(value)
    except (OSError, ValueError):
        return False
    return True


def _umask() -> int:
    # It can only be read by setting it.
    value = os.umask(0o77)
    os.umask(value)
    return value


def _set_priority(value: int) -> None:
    if os.getpriority(os.PRIO_PROCESS, 0) != value:
        os.setpriority(os.PRIO_PROCESS, 0, value)


def _set_logging(disabled: int, level: int) -> None:
    logging.disable(disabled)
    logging.root.setLevel(level)


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
