"""profileNeuron/status: what the status item of our extension says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from profile_neuron.core.status import status
from profile_neuron.daemon.screen import now
from profile_neuron.lsp import notifications, to_proto
from profile_neuron.lsp.notifications import InterpreterInUse, StatusParams

if TYPE_CHECKING:
    from profile_neuron.daemon.daemon import Daemon
    from profile_neuron.lsp.server import Server


class StatusItem:
    """Sends what differs from what was sent last."""

    def __init__(self, server: Server, daemon: Daemon) -> None:
        self._server = server
        self._daemon = daemon
        self._sent: StatusParams | None = None
        # The disk is waited for, and what was worked out before must not be sent after.
        self._lock = asyncio.Lock()

    async def publish(self) -> None:
        """Bring the item up to date."""
        async with self._lock:
            interpreters = tuple(
                InterpreterInUse(to_proto.uri(root) if root else "", found.path, found.source, problem)
                for root, found, problem in await self._daemon.interpreters_in_use()
            )
            item = status(self._daemon.situation(), now())
            params = StatusParams(item.text, item.is_busy, "\n".join(item.detail), interpreters)
            if params != self._sent:
                self._sent = params
                self._server.protocol.notify(notifications.STATUS, notifications.to_json(params))
