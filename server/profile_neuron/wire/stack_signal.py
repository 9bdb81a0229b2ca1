"""The signal at which a worker writes down which line of which thread is running."""

from __future__ import annotations

import signal


def stack_signal() -> int | None:
    """A signal that hardly anything else uses; None where the system has none to spare."""
    # The last two real-time signals are taken by some libraries. BSD and macOS have no such signals, but one that asks
    # a program for its state and by default does nothing.
    highest: int | None = getattr(signal, "SIGRTMAX", None)
    return getattr(signal, "SIGINFO", None) if highest is None else highest - 2
