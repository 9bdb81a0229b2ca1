"""Work-done progress of runs that take longer than a moment, and its cancel button."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.capabilities import get_capability

if TYPE_CHECKING:
    from concurrent.futures import Future

    from profile_neuron.daemon.editor import RunNews
    from profile_neuron.lsp.server import Server

_QUIET_S = 1.0


class RunProgress:
    """One token per run, which is the run's id."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._is_known = bool(get_capability(server.client_capabilities, "window.work_done_progress", False))
        self._news: RunNews | None = None
        self._begun: set[str] = set()
        self._started_s = 0.0
        self._last_s = 0.0
        # How long the last run of each function took.
        self._seconds: dict[object, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def started(self, news: RunNews) -> None:
        """A run is on; it is shown if it is still on in a second."""
        self._news = news
        self._started_s = asyncio.get_running_loop().time()
        if self._is_known:
            self._timer = asyncio.get_running_loop().call_later(_QUIET_S, self._create, news.run_id)

    def progressed(self, news: RunNews) -> None:
        """A run went on."""
        self._news = news
        now_s = asyncio.get_running_loop().time()
        if news.run_id in self._begun and (now_s - self._last_s >= _QUIET_S / 4 or not news.done):
            self._report(news.run_id)

    def ended(self, news: RunNews, summary: str) -> None:
        """A run is over."""
        if self._timer is not None:
            self._timer.cancel()
        self._seconds[news.function] = asyncio.get_running_loop().time() - self._started_s
        self._news = None
        if news.run_id in self._begun:
            self._begun.discard(news.run_id)
            self._notify(news.run_id, types.WorkDoneProgressEnd(message=summary))

    def _report(self, run_id: str) -> None:
        self._last_s = asyncio.get_running_loop().time()
        # Without a percentage: how long the phases take is not known before.
        self._notify(run_id, types.WorkDoneProgressReport(message=self._message()))

    def _tick(self, run_id: str) -> None:
        """Show that time passes while nothing else happens, as in a long compilation."""
        if run_id not in self._begun:
            return
        loop = asyncio.get_running_loop()
        if loop.time() - self._last_s >= _QUIET_S / 2:
            self._report(run_id)
        self._timer = loop.call_later(_QUIET_S, self._tick, run_id)

    def _create(self, run_id: str) -> None:
        params = types.WorkDoneProgressCreateParams(run_id)
        self._server.protocol.send_request(types.WINDOW_WORK_DONE_PROGRESS_CREATE, params).add_done_callback(
            lambda future: self._begin(run_id, future)
        )

    def _begin(self, run_id: str, future: Future[Any]) -> None:
        news = self._news
        if future.cancelled() or future.exception() is not None or news is None or news.run_id != run_id:
            return
        self._begun.add(run_id)
        self._notify(
            run_id,
            types.WorkDoneProgressBegin(
                title=f"Profiling {news.function.qualname}", cancellable=True, message=self._message()
            ),
        )
        self._timer = asyncio.get_running_loop().call_later(_QUIET_S, self._tick, run_id)

    def _message(self) -> str:
        news = self._news
        if news is None:
            return ""
        calls = f" {min(news.done + 1, news.total)}/{news.total}" if news.total else ""
        seconds = asyncio.get_running_loop().time() - self._started_s
        last = self._seconds.get(news.function)
        return f"{news.phase}{calls} · {seconds:.0f} s" + (f" (last: {last:.0f} s)" if last is not None else "")

    def _notify(self, token: str, value: Any) -> None:
        self._server.progress(types.ProgressParams(token, value))
