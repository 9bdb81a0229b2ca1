"""workspace/inlayHint/refresh and workspace/codeLens/refresh, merged, and only to clients that know them.

What is sent unasked, such as diagnostics, goes with them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.capabilities import get_capability

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from concurrent.futures import Future

    from profile_neuron.lsp.server import Server

log = logging.getLogger(__name__)

_MERGED_S = 0.25
# While runs follow each other, their states change faster than anybody reads.
_UNHURRIED_S = 0.5

_KINDS = {
    types.WORKSPACE_INLAY_HINT_REFRESH: "workspace.inlay_hint.refresh_support",
    types.WORKSPACE_CODE_LENS_REFRESH: "workspace.code_lens.refresh_support",
}


class Refresh:
    """Sends what is urgent at once after a quiet time, and then at most once per quarter of a second."""

    def __init__(self, server: Server, publish: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        self._server = server
        # What is sent unasked, each by itself: one that fails takes none of the others along.
        self._publish = publish
        self._kinds = [
            method for method, name in _KINDS.items() if get_capability(server.client_capabilities, name, False)
        ]
        # Sent and not answered yet; another one is only due then.
        self._unanswered: set[str] = set()
        self._due: set[str] = set()
        self._complained: set[str] = set()
        # Until a client has said that it is initialized, it must not be sent anything.
        self._is_open = False
        self._last_s = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._publish_timer: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """The client is ready for requests."""
        self._is_open = True

    def request(self, urgent: bool) -> None:
        """Something else is to be shown; what is not urgent waits for others to come."""
        if not self._is_open:
            return
        loop = asyncio.get_running_loop()
        earliest_s = self._last_s + _MERGED_S
        at_s = max(loop.time(), earliest_s) if urgent else max(loop.time(), self._last_s) + _UNHURRIED_S
        if self._timer is not None:
            if self._timer.when() <= at_s:
                return
            self._timer.cancel()
        # Also what is due at once waits for the end of the event that it belongs to.
        self._timer = loop.call_at(at_s, self._send)

    def edited(self) -> None:
        """A text is another: what is sent unasked may be too. The client asks for the rest by itself."""
        if self._publish_timer is None and self._is_open:
            self._publish_timer = asyncio.get_running_loop().call_later(_MERGED_S, self.publish)

    def publish(self) -> None:
        """Bring up to date what is sent unasked."""
        self._publish_timer = None
        for publish in self._publish:
            self._server.start(publish(), f"publish {publish.__qualname__}")

    def close(self) -> None:
        """Send nothing any more."""
        self._is_open = False
        for timer in (self._timer, self._publish_timer):
            if timer is not None:
                timer.cancel()

    def _send(self) -> None:
        self._timer = None
        self._last_s = asyncio.get_running_loop().time()
        self.publish()
        for method in self._kinds:
            if method in self._unanswered:
                self._due.add(method)
            else:
                self._send_one(method)

    def _send_one(self, method: str) -> None:
        self._unanswered.add(method)
        self._server.protocol.send_request(method).add_done_callback(lambda future: self._answered(method, future))

    def _answered(self, method: str, future: Future[Any]) -> None:
        self._unanswered.discard(method)
        if future.cancelled():
            return
        error = future.exception()
        if error is not None and method not in self._complained:
            self._complained.add(method)
            log.warning("the client answered %s with an error: %s", method, error)
        if method in self._due:
            self._due.discard(method)
            self.request(urgent=True)
