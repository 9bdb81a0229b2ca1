"""A small process above the agent that ends what is left of it when it is killed.

An agent ends its orphans itself, but not when it is killed by the one signal that cannot be caught. On Linux the
program is therefore two processes: the keeper, which its starter knows, and the agent as its only child. What the
agent leaves behind becomes the keeper's, which then ends it; and where the keeper is killed, the agent is told so and
ends as if its wire was closed. Only who kills both at once leaves something. Other systems have no such thing; there
the agent is alone, and when it is killed its worker ends with the wire, but what user code started stays.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING

from profile_neuron.agent.orphans import adopt_orphans, end_orphans

if TYPE_CHECKING:
    from io import FileIO

# How long an agent may take that a signal asks to end.
_GRACE_S = 2
# From linux/prctl.h.
_PR_SET_PDEATHSIG = 1


def become_agent_below_a_keeper(*wire: FileIO) -> None:
    """Return as the agent; the process that calls this becomes its keeper and leaves the wire to it."""
    if sys.platform != "linux":
        return
    adopt_orphans()
    keeper = os.getpid()
    agent = os.fork()
    if agent:
        for end in wire:
            end.close()
        _keep(agent)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != keeper:
        os._exit(1)


def _keep(agent: int) -> None:
    """Wait for the agent, end what it left, and end as it did."""
    # Who reads the agent's log is to see its end.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)

    def end_agent(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(agent, signal.SIGKILL if number == signal.SIGALRM else signal.SIGTERM)
        signal.alarm(_GRACE_S)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, end_agent)
    _, status = os.waitpid(agent, 0)
    end_orphans(())
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)
