"""profileNeuron/heat: how warm the lines of open files are, for a client that marks them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from profile_neuron.daemon.screen import Screen
from profile_neuron.lsp import notifications
from profile_neuron.lsp.notifications import HeatLine, HeatParams

if TYPE_CHECKING:
    from profile_neuron.daemon.daemon import Daemon
    from profile_neuron.lsp.server import Server


class LineHeat:
    """Sends what differs from what was sent last, and once that a file has none any more."""

    def __init__(self, server: Server, daemon: Daemon) -> None:
        self._server = server
        self._daemon = daemon
        self._screen = Screen(daemon)
        # By path; without files that have none.
        self._sent: dict[str, HeatParams] = {}
        # A large file is waited for, and what was worked out before must not be sent after.
        self._lock = asyncio.Lock()

    async def publish(self) -> None:
        """Bring all open files up to date."""
        async with self._lock:
            for path in [file.path for file in self._daemon.files if file.results or file.path in self._sent]:
                await self._publish(path)

    async def _publish(self, path: str) -> None:
        file = await self._daemon.analysed(path)
        if file is None:
            return
        lines = tuple(HeatLine(item.line - 1, item.level, item.is_stale) for item in self._screen.heat(file))
        # Of another version the same lines are sent again: the client may have lost or moved marks in the edit.
        params = HeatParams(file.uri, file.version, lines)
        before = self._sent.get(path)
        if params == before or (before is None and not lines):
            return
        self._server.protocol.notify(notifications.HEAT, notifications.to_json(params))
        if lines:
            self._sent[path] = params
        else:
            del self._sent[path]

    def forget(self, path: str) -> None:
        """A file is closed, and its marks went with it."""
        self._sent.pop(path, None)
