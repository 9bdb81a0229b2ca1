"""The file in a run folder that the interpreter writes its stack to, when it crashes or when the agent asks."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from profile_neuron.core import run_folder
from profile_neuron.core.fault_stack import main_thread_line
from profile_neuron.wire.stack_signal import stack_signal
from profile_neuron.worker.descriptors import high_copy

if TYPE_CHECKING:
    from collections.abc import Iterator

# What ends the process where user code starts a timer, or limits its time, without a handler.
_TIMER_SIGNALS = (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGXCPU)


class StackFile:
    """faulthandler's file while a run is on.

    Its handlers are C code that neither takes the interpreter's lock nor allocates, so they answer also where user
    code holds the lock or ignores every other signal. User code that uses faulthandler itself takes its place; then the
    line of a crash is lost, and nothing else.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None
        # Device and number of the file, since user code may close our descriptor and get its number for another file.
        self._identity = (0, 0)
        # What user code forks has our handlers too, and must not write its own end into the file.
        os.register_at_fork(after_in_child=self._let_go)

    @contextlib.contextmanager
    def kept_in(self, folder: str) -> Iterator[None]:
        """Keep the file in a run folder; where the process goes on it is of no use and removed."""
        path = Path(folder) / run_folder.STACK
        try:
            self._descriptor = _open_high(path)
            status = os.fstat(self._descriptor)
            self._identity = (status.st_dev, status.st_ino)
            os.write(self._descriptor, main_thread_line(threading.main_thread().ident or 0).encode())
            faulthandler.enable(self._descriptor)
            number = stack_signal()
            if number is not None:
                faulthandler.register(number, self._descriptor, all_threads=True)
            for ending in _TIMER_SIGNALS:
                faulthandler.register(ending, self._descriptor, all_threads=True, chain=True)
        except (OSError, ValueError, RuntimeError):
            # The run is worth more than the line that it may end at.
            pass
        try:
            yield
        finally:
            if self._descriptor is not None:
                self._close()
                path.unlink(missing_ok=True)

    def _close(self) -> None:
        faulthandler.disable()
        number = stack_signal()
        if number is not None:
            faulthandler.unregister(number)
        for ending in _TIMER_SIGNALS:
            faulthandler.unregister(ending)
        if self._is_ours():
            os.close(self._descriptor)  # type: ignore[arg-type]
        self._descriptor = None

    def _let_go(self) -> None:
        """Have what is written go nowhere; the handlers stay, since they may be the user's own by now."""
        if self._is_ours():
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._descriptor, inheritable=False)  # type: ignore[arg-type]
            os.close(null)
            self._descriptor = None

    def _is_ours(self) -> bool:
        if self._descriptor is None:
            return False
        try:
            status = os.fstat(self._descriptor)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity


def _open_high(path: Path) -> int:
    low = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    try:
        return high_copy(low)
    finally:
        os.close(low)
