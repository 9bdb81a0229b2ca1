"""Processes that user code started and that outlived the worker, in whatever session they moved to.

On Linux the agent is made the reaper of its descendants: what loses its parent becomes the agent's own child
and can be found and ended. Other systems have no such thing; there only the worker's group is ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

from profile_neuron.agent.processes import parents

if TYPE_CHECKING:
    from collections.abc import Collection

log = logging.getLogger(__name__)

# From linux/prctl.h.
_PR_SET_CHILD_SUBREAPER = 36
# Ending a process hands its own children to us, so it is done again until there are none; a process that
# forks faster than it can be killed must not hold us for ever.
_ROUNDS = 100


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        log.warning("orphans cannot be adopted: %s", os.strerror(ctypes.get_errno()))


def end_orphans(ours: Collection[int]) -> int:
    """Kill and reap every child but ours, and what that leaves behind; gives how many there were."""
    ended = 0
    for _ in range(_ROUNDS):
        own = os.getpid()
        orphans = [pid for pid, parent in parents().items() if parent == own and pid not in ours]
        if not orphans:
            break
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        ended += len(orphans)
    return ended
