"""One request in the worker, watched until its answer: phases and their limits, memory, compilers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import TYPE_CHECKING

from profile_neuron.agent import reasons
from profile_neuron.agent.child import Child
from profile_neuron.agent.phases import PhaseClock
from profile_neuron.agent.processes import descendants, is_program, oom_kills, used_bytes
from profile_neuron.agent.stack import ask_for_stack, left_frames
from profile_neuron.core.model import Failure
from profile_neuron.errors import WireError
from profile_neuron.wire.messages import Captured, RunFailed, RunProgress

if TYPE_CHECKING:
    from collections.abc import Callable

    from profile_neuron.core.model import Frame
    from profile_neuron.wire.messages import Message, RunRequest

log = logging.getLogger(__name__)

_COMPILER = "neuronx-cc"
# How often the worker's processes are looked at, and how much of the time that may take at most.
_LOOK_S = 0.25
_LOOK_SHARE = 0.05


class Watch:
    """Waits for the answer to a request that the worker has got; ends no process itself."""

    def __init__(self, child: Child, request: RunRequest, send: Callable[[Message], None]) -> None:
        self._child = child
        self._request = request
        self._send = send
        self._now_s = asyncio.get_running_loop().time
        self._clock = PhaseClock(request.limits, self._now_s())
        self._next_look_s = self._now_s()
        self._oom_kills = oom_kills()
        # The last that the worker said of its phase; not passed on while a compiler runs.
        self._progress: RunProgress | None = None
        self._is_compiling = False
        # The worker itself gave the answer, and lives.
        self.has_answered = False

    async def answer(self) -> Captured | RunFailed:
        """The worker's answer, or why there is none; then its process is of no more use."""
        receiving: asyncio.Task[Message | None] | None = None
        try:
            while True:
                if receiving is None:
                    receiving = asyncio.create_task(self._child.receive(), name="answer")
                await asyncio.wait([receiving], timeout=max(0.0, min(_LOOK_S, self._clock.left_s(self._now_s()))))
                end = None
                if receiving.done():
                    end = await self._take(receiving)
                    receiving = None
                end = end or await self._look()
                if end is not None:
                    return end
        finally:
            if receiving is not None:
                receiving.cancel()
                with contextlib.suppress(asyncio.CancelledError, WireError):
                    await receiving

    async def _take(self, received: asyncio.Task[Message | None]) -> Captured | RunFailed | None:
        try:
            message = received.result()
        except WireError as error:
            return self._ended(Failure(f"the worker broke the wire: {error}"))
        match message:
            case None:
                return await self._ended_early()
            case RunProgress(run_id=self._request.run_id):
                self._clock.enter(message.phase, self._now_s())
                self._progress = message
                if not self._is_compiling:
                    self._send(message)
            case Captured() | RunFailed() if message.run_id == self._request.run_id:
                self.has_answered = True
                return message
            case _:
                log.warning("a %s message came from the worker out of turn", type(message).__name__)
        return None

    async def _look(self) -> RunFailed | None:
        """End the run where it has passed a limit; see whether it compiles."""
        if self._clock.left_s(self._now_s()) <= 0:
            return self._ended(reasons.timeout(self._clock.phase, self._clock.limit_s, await self._asked_frames()))
        start_s = self._now_s()
        if start_s < self._next_look_s:
            return None
        # Orphans of the worker have become our own children.
        pids = descendants(os.getpid(), Child.running - {self._child.pid})
        self._set_compiling(any(is_program(pid, _COMPILER) for pid in pids))
        limit_bytes = self._request.limits.memory_bytes
        if limit_bytes is not None and used_bytes(pids, limit_bytes) > limit_bytes:
            return self._ended(reasons.over_memory(limit_bytes, await self._asked_frames()))
        now_s = self._now_s()
        self._next_look_s = now_s + max(_LOOK_S, (now_s - start_s) / _LOOK_SHARE)
        return None

    def _set_compiling(self, is_on: bool) -> None:
        self._clock.set_compiling(is_on, self._now_s())
        if is_on == self._is_compiling:
            return
        self._is_compiling = is_on
        if is_on:
            self._send(RunProgress(self._request.run_id, "compile"))
        elif self._progress is not None:
            self._send(self._progress)

    async def _ended_early(self) -> RunFailed:
        """The worker's side of the wire is closed."""
        phase = self._clock.phase
        if not await self._child.exited():
            return self._ended(reasons.wire_closed(phase, await self._asked_frames()))
        cause = await self._child.end()
        before, after = self._oom_kills, oom_kills()
        ended_for_memory = None if before is None or after is None else after > before
        return self._ended(reasons.crashed(phase, cause, left_frames(self._request, True), ended_for_memory))

    async def _asked_frames(self) -> tuple[Frame, ...]:
        await ask_for_stack(self._child, self._request.run_folder)
        return left_frames(self._request, False)

    def _ended(self, failure: Failure) -> RunFailed:
        return RunFailed(self._request.run_id, "failed", failure, retire=True)
