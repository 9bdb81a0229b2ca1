"""A process of ours that runs what may fail: how a worker comes up, and what it prints."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import profile_neuron
from profile_neuron import __version__
from profile_neuron.agent.output import Output
from profile_neuron.errors import WireError
from profile_neuron.wire.messages import PROTOCOL_VERSION, Hello

if TYPE_CHECKING:
    from collections.abc import Callable

    from profile_neuron.agent.child import Child
    from profile_neuron.wire.messages import RunOutput

WORKER = Path(profile_neuron.__file__).parent / "worker" / "__main__.py"
HELLO_S = 60.0


class Piped:
    """A process of ours and the pump for what it prints."""

    def __init__(self, child: Child, send: Callable[[RunOutput], None]) -> None:
        self.child = child
        self.output = Output(send)
        self._pump = asyncio.create_task(self._take_output(), name=f"output of {child.pid}")

    async def output_of_run(self, limit_s: float) -> None:
        """Wait until everything that a run printed by itself has come; user code may have closed the descriptor."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.output.ended(), limit_s)

    async def output_end(self, limit_s: float) -> None:
        """Wait until the pipe closes; a process that left the group may keep it open."""
        await asyncio.wait([self._pump], timeout=limit_s)
        self._pump.cancel()
        self.child.close_output()
        self.output.close()

    async def _take_output(self) -> None:
        async for piece in self.child.output():
            self.output.feed(piece)


async def hello(child: Child, limit_s: float) -> str:
    """Wait for the first message of a new worker; gives what is wrong with it, empty where nothing is."""
    try:
        message = await asyncio.wait_for(child.receive(), limit_s)
    except asyncio.TimeoutError:
        return f"did not say hello within {limit_s:g} s"
    except WireError as error:
        return f"did not say hello ({error})"
    if message is None:
        # Not ended by us, or its own cause of death would be lost.
        await child.exited()
        return f"could not start ({await child.end()})"
    if not isinstance(message, Hello):
        return f"began with a {type(message).__name__} message"
    if message.protocol != PROTOCOL_VERSION:
        return f"speaks another protocol; install profile-neuron {__version__} there"
    return ""
