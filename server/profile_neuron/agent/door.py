"""The agent's own socket, at which other programs of the same user ask it to let go of the device."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from profile_neuron.errors import WireError
from profile_neuron.folders import socket_folder
from profile_neuron.wire.codec import Decoder, encode
from profile_neuron.wire.messages import ReleaseRequest
from profile_neuron.wire.stdio import MAGIC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from profile_neuron.wire.messages import Released

log = logging.getLogger(__name__)

_READ_BYTES = 1 << 16
# How long whoever knocks may take to say what for.
_REQUEST_S = 5.0


class Door:
    """Open while the agent lives; one that is killed leaves its socket, which then refuses and is removed."""

    def __init__(self, release: Callable[[], Awaitable[Released]]) -> None:
        self._release = release
        self._server: asyncio.AbstractServer | None = None
        self._path: Path | None = None

    @classmethod
    async def open(cls, known_pid: int, release: Callable[[], Awaitable[Released]]) -> Door:
        """Listen below the user's folder for sockets, under the number of a process; stays shut where that fails."""
        door = cls(release)
        try:
            folder = socket_folder()
            # Under its name it never refuses: a number that comes again belonged to an agent that is gone.
            unnamed = folder / f"{known_pid}.new"
            door._server = await asyncio.start_unix_server(door._answer, unnamed)
            unnamed.chmod(0o600)
            door._path = unnamed.rename(folder / str(known_pid))
        except OSError as error:
            log.warning("this agent can be asked for its NeuronCores by nobody: %s", error)
        return door

    def close(self) -> None:
        """Listen no longer."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            decoder = Decoder()
            while piece := await asyncio.wait_for(reader.read(_READ_BYTES), _REQUEST_S):
                for message in decoder.feed(piece):
                    if isinstance(message, ReleaseRequest):
                        writer.write(MAGIC + encode(await self._release()))
                        await writer.drain()
                    return
        except (WireError, OSError, asyncio.TimeoutError) as error:
            log.warning("somebody asked this agent in a way that it does not understand: %s", error)
        finally:
            writer.close()
