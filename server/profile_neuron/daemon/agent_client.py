"""One agent, from the server's side: start, hello, send, receive, end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from typing import TYPE_CHECKING, Any

from profile_neuron import __version__
from profile_neuron.errors import AgentError, AgentLostError, HostError, WireError
from profile_neuron.wire.codec import Decoder, encode
from profile_neuron.wire.messages import (
    PROTOCOL_VERSION,
    Cancel,
    Environment,
    EnvironmentFailed,
    EnvironmentRequest,
    Hello,
    Message,
    Opened,
    OpenFailed,
    OpenRequest,
    RunDone,
    RunFailed,
    RunRequest,
    ViewerEnded,
)
from profile_neuron.wire.stdio import MAGIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from profile_neuron.daemon.hosts import LocalHost

log = logging.getLogger(__name__)

_HELLO_S = 60.0
_CLOSE_S = 5.0
# Exit codes from here on tell of a signal, as those of a shell and of an agent's keeper do.
_KILLED = 128


class AgentClient:
    """A running agent; close it, or let this process end, and everything it started ends too."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._decoder = Decoder()
        self._received: deque[Message] = deque()
        self._log_lines: deque[str] = deque(maxlen=20)
        # A stream has one reader at a time, and one may close while a run is on.
        self._reading = asyncio.Lock()
        self._log_task = asyncio.create_task(self._read_log(), name="agent log")

    @classmethod
    async def start(cls, host: LocalHost) -> AgentClient:
        """Start an agent and exchange hellos. Raises HostError or AgentError where that fails."""
        # The terminal's signals are for us; the agent ends when its wire closes.
        options: dict[str, Any] = {"start_new_session": True} if os.name == "posix" else {}
        try:
            process = await asyncio.create_subprocess_exec(
                *host.command(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=host.cwd(),
                env={**os.environ, **dict(host.environment)},
                **options,
            )
        except OSError as error:
            raise HostError(
                f"{host.python} cannot be started ({error.strerror or error}); name another interpreter"
            ) from error
        client = cls(process)
        try:
            await client._say_hello(host)
        except BaseException:
            await client.close()
            raise
        return client

    @property
    def pid(self) -> int:
        """The process that was started, which on Linux is the agent's keeper."""
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        """The agent has ended by itself, and all that it sent was read."""
        return self._stdout.at_eof()

    async def run(self, request: RunRequest) -> AsyncIterator[Message]:
        """Messages of one run; the last is RunDone or RunFailed."""
        await self._send(request)
        while True:
            message = await self._receive(_is_of_runs)
            yield message
            if isinstance(message, (RunDone, RunFailed)) and message.run_id == request.run_id:
                return

    async def cancel(self, run_id: str) -> None:
        """Ask for the end of a run, which then answers with the state cancelled."""
        await self._send(Cancel(run_id))

    async def environment(self, details: bool = False) -> Environment:
        """What the worker's interpreter has. Raises AgentError where no worker comes up."""
        await self._send(EnvironmentRequest(details))
        while True:
            message = await self._receive(_is_of_runs)
            if isinstance(message, Environment):
                return message
            if isinstance(message, EnvironmentFailed):
                raise AgentError(message.reason)

    async def open(self, request: OpenRequest) -> Opened | OpenFailed:
        """Have a capture shown, also while a run is on. Raises AgentLostError."""
        await self._send(request)

        def is_answer(item: Message) -> bool:
            return isinstance(item, (Opened, OpenFailed)) and item.open_id == request.open_id

        message = await self._receive(is_answer)
        assert isinstance(message, (Opened, OpenFailed))
        return message

    async def viewer_end(self) -> str:
        """Wait until the viewer that the agent started is gone; gives why it is. Raises AgentLostError."""
        message = await self._receive(lambda item: isinstance(item, ViewerEnded))
        assert isinstance(message, ViewerEnded)
        return message.reason

    async def close(self) -> None:
        """Close the wire and wait for the agent to end, which ends the worker."""
        self._stdin.close()
        # What it still sends is read and dropped: a process with a full pipe would not end, and some
        # versions of asyncio do not see the end of one whose pipe was not read to its end.
        drain = asyncio.create_task(self._drain(), name="agent drain")
        done, _ = await asyncio.wait([drain], timeout=_CLOSE_S)
        if not done:
            # Not killed, or nobody would be left to end what it has started.
            self._process.terminate()
        await self._process.wait()
        await drain
        # One whose keeper was killed closes its log a moment later.
        await asyncio.wait([self._log_task], timeout=_CLOSE_S)
        self._log_task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._log_task

    async def _say_hello(self, host: LocalHost) -> None:
        self._stdin.write(MAGIC)
        await self._send(Hello(PROTOCOL_VERSION, "server", __version__, ""))
        try:
            hello = await asyncio.wait_for(self._receive(), _HELLO_S)
        except asyncio.TimeoutError as error:
            # Nobody is to wait for that three times over.
            raise HostError(
                f"{host.python} did not start an agent within {_HELLO_S:g} s; profile again, or name another "
                "interpreter"
            ) from error
        except AgentLostError as error:
            code = await self._exit_code()
            if code is None or not 0 <= code < _KILLED:
                raise
            said = self._last_words() or f"it ended with exit code {code}"
            raise HostError(f"{host.python} cannot be used ({said}); name another interpreter") from error
        if not isinstance(hello, Hello) or hello.protocol != PROTOCOL_VERSION:
            raise AgentError(
                f"the agent in {host.python} speaks another protocol; install profile-neuron {__version__} there"
            )

    async def _send(self, message: Message) -> None:
        with contextlib.suppress(ConnectionError):
            self._stdin.write(encode(message))
            await self._stdin.drain()

    async def _receive(self, is_meant: Callable[[Message], bool] = lambda _: True) -> Message:
        """The first message of a kind; others stay for whoever waits for them."""
        while (found := self._take(is_meant)) is None:
            async with self._reading:
                # Somebody else may have read it while the stream was taken.
                if (found := self._take(is_meant)) is not None:
                    return found
                piece = await self._stdout.read(1 << 16)
            if not piece:
                await asyncio.wait([self._log_task], timeout=1.0)
                said = self._last_words()
                raise AgentLostError(
                    f"the agent ended early: {said}" if said else "the agent ended early; profile again"
                )
            try:
                self._received.extend(self._decoder.feed(piece))
            except WireError as error:
                raise AgentLostError(f"the agent sent something that is not a message: {error}") from error
        return found

    def _last_words(self) -> str:
        """The last line of its log, without what it noted in passing, which is not why it ended."""
        return next((line for line in reversed(self._log_lines) if not line.startswith("agent: INFO")), "")

    async def _exit_code(self) -> int | None:
        """How it ended, where it has."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait(), _CLOSE_S)
        return self._process.returncode

    def _take(self, is_meant: Callable[[Message], bool]) -> Message | None:
        for message in self._received:
            if is_meant(message):
                self._received.remove(message)
                return message
        return None

    async def _drain(self) -> None:
        async with self._reading:
            while await self._stdout.read(1 << 16):
                pass

    async def _read_log(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            text = line.decode("utf-8", "replace").rstrip()
            self._log_lines.append(text)
            log.debug("%s", text)


def _is_of_runs(message: Message) -> bool:
    """Whether it is not for somebody who opens a capture."""
    return not isinstance(message, (Opened, OpenFailed, ViewerEnded))
