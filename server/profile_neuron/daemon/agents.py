"""The agents that are up: one for each workspace folder, interpreter and environment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from profile_neuron.daemon.agent_client import AgentClient
from profile_neuron.daemon.hosts import LocalHost

if TYPE_CHECKING:
    from collections.abc import Iterable

    from profile_neuron.daemon.interpreters import Place


class Agents:
    """Starts agents when they are first needed and ends them all."""

    def __init__(self) -> None:
        self._clients: dict[Place, AgentClient] = {}
        # A start whose run was cancelled goes on beside the next one.
        self._lock = asyncio.Lock()

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes of the agents that are up."""
        return tuple(client.pid for client in self._clients.values())

    async def ready(self, place: Place) -> AgentClient:
        """The agent for a place. Raises HostError or AgentError where none comes up."""
        async with self._lock:
            client = self._clients.get(place)
            if client is not None and client.is_gone:
                # Killed since its last run, of which the next one need not know.
                await self.end([place])
                client = None
            if client is None:
                # A worker holds much memory, so one whose settings were replaced does not stay.
                await self.end([other for other in self._clients if other.root == place.root])
                client = self._clients[place] = await AgentClient.start(LocalHost(place.python, place.environment))
            return client

    async def of_root(self, place: Place) -> AgentClient:
        """An agent that is up for the folder of a place, as its run may be on, else one for the place.

        Raises HostError or AgentError where none comes up.
        """
        up = (client for other, client in self._clients.items() if other.root == place.root and not client.is_gone)
        return next(up, None) or await self.ready(place)

    async def end(self, places: Iterable[Place]) -> None:
        """End the agents of some places, with everything that they started."""
        clients = [client for place in places if (client := self._clients.pop(place, None)) is not None]
        await asyncio.gather(*(client.close() for client in clients))

    async def end_root(self, root: str) -> None:
        """End the agents of a workspace folder."""
        await self.end([place for place in self._clients if place.root == root])

    async def end_all(self) -> None:
        """End all agents."""
        await self.end(list(self._clients))
