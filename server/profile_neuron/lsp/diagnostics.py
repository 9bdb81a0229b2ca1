"""textDocument/publishDiagnostics: what runs could not do and what became slower, at the lines to blame."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lsprotocol import types

from profile_neuron.daemon.screen import Screen
from profile_neuron.lsp import to_proto

if TYPE_CHECKING:
    from profile_neuron.daemon.daemon import Daemon
    from profile_neuron.lsp.server import Server


class Diagnostics:
    """Publishes what changed since it was last published, and takes back what is no longer shown."""

    def __init__(self, server: Server, daemon: Daemon, encoding: str) -> None:
        self._server = server
        self._daemon = daemon
        self._screen = Screen(daemon)
        self._encoding = encoding
        self._published: dict[str, list[types.Diagnostic]] = {}
        # A large file is waited for, and what was worked out before must not be sent after.
        self._lock = asyncio.Lock()

    async def publish(self) -> None:
        """Bring all open files up to date."""
        async with self._lock:
            await self._publish()

    async def _publish(self) -> None:
        current: dict[str, list[types.Diagnostic]] = {}
        for opened in self._daemon.files:
            if not (opened.outcomes or opened.save_problem or opened.results or opened.uri in self._published):
                # Nothing to say, which a large file need not be analysed for.
                continue
            file = await self._daemon.analysed(opened.path)
            if file is not None:
                current[file.uri] = [
                    to_proto.diagnostic(finding, file.client_lines, self._encoding)
                    for finding in self._screen.findings(file)
                ]
        for uri in self._published.keys() - current.keys():
            self._send(uri, [])
        for uri, found in current.items():
            if found != self._published.get(uri, []):
                self._send(uri, found)
        self._published = {uri: found for uri, found in current.items() if found}

    def _send(self, uri: str, found: list[types.Diagnostic]) -> None:
        self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))
