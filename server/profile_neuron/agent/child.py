"""A child process in its own group: how it is started, talked to and ended, and why it died."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from typing import TYPE_CHECKING

from profile_neuron.errors import HostError
from profile_neuron.wire.codec import Decoder, encode
from profile_neuron.wire.stdio import MAGIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from profile_neuron.wire.messages import Message

_READ_BYTES = 1 << 16
# A line of output longer than this is passed on in pieces.
_LINE_LIMIT_BYTES = 1 << 16
_END_S = 2.0


class Child:
    """One process of ours with a wire on its stdin and stdout, and its output on stderr."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._stderr = process.stderr
        self._decoder = Decoder()
        self._received: deque[Message] = deque()

    @classmethod
    async def start(cls, command: Sequence[str], cwd: str) -> Child:
        """Start a program in a session of its own. Raises HostError where it cannot be executed."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=cwd,
                start_new_session=True,
                limit=_LINE_LIMIT_BYTES,
            )
        except OSError as error:
            raise HostError(f"{command[0]} cannot be started in {cwd}: {error.strerror or error}") from error
        child = cls(process)
        child._stdin.write(MAGIC)
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def send(self, message: Message) -> None:
        """Write one frame; a child that is gone is noticed by receive."""
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._stdin.write(encode(message))
            await self._stdin.drain()

    async def receive(self) -> Message | None:
        """The next message; None when the child closed its side. Raises WireError for bytes that are none."""
        while not self._received:
            piece = await self._stdout.read(_READ_BYTES)
            if not piece:
                return None
            self._received.extend(self._decoder.feed(piece))
        return self._received.popleft()

    async def output(self) -> AsyncIterator[str]:
        """Lines of what the child and its own children print, without their ends."""
        while True:
            try:
                line = await self._stderr.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                line = error.partial
                if not line:
                    return
            except asyncio.LimitOverrunError as error:
                line = await self._stderr.readexactly(error.consumed)
            yield line.decode("utf-8", "replace").rstrip("\r\n")

    async def end(self) -> str:
        """End the whole group at once and say how the process itself ended."""
        self._kill_group()
        return await self.ended()

    async def ended(self) -> str:
        """Wait for the process, end what it left of its group, and say how it ended."""
        try:
            code = await asyncio.wait_for(self._process.wait(), _END_S)
        except asyncio.TimeoutError:
            self._kill_group()
            code = await self._process.wait()
        self._kill_group()
        return cause_of_death(code)

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def cause_of_death(returncode: int) -> str:
    """A return code in words: exit code 7, signal 9 (SIGKILL)."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"signal {-returncode} ({signal.Signals(-returncode).name})"
    except ValueError:
        return f"signal {-returncode}"
