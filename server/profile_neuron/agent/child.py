"""A child process in its own group: how it is started, talked to and ended, and why it died."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from profile_neuron.errors import HostError
from profile_neuron.wire.codec import Decoder, encode
from profile_neuron.wire.stdio import MAGIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from typing import IO

    from profile_neuron.wire.messages import Message

_READ_BYTES = 1 << 16
_END_S = 2.0


class Child:
    """One process of ours with a wire on its stdin and stdout, and its output on stderr."""

    # Ids of those that were started and not ended yet, from the moment they exist.
    running: ClassVar[set[int]] = set()

    def __init__(self, process: subprocess.Popen[bytes], stdout: _Pipe, stderr: _Pipe) -> None:
        self._process = process
        self._stdout = stdout
        self._stderr = stderr
        self._decoder = Decoder()
        self._received: deque[Message] = deque()
        # Waited for in a thread: asyncio's own subprocesses do not count as ended, in some versions, while
        # anything that they started still holds one of their pipes.
        self._exit = asyncio.get_running_loop().run_in_executor(None, process.wait)

    @classmethod
    async def start(cls, command: Sequence[str], cwd: str, env: Mapping[str, str] | None = None) -> Child:
        """Start a program in a session of its own. Raises HostError where it cannot be executed.

        env: its whole environment; None for this process's.
        """
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=env,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise HostError(f"{command[0]} cannot be started in {cwd}: {error.strerror or error}") from error
        cls.running.add(process.pid)
        child = cls(process, await _Pipe.open(process.stdout), await _Pipe.open(process.stderr))
        child._write(MAGIC)
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self._exit.done()

    def send(self, message: Message) -> None:
        """Write one frame; a child that is gone is noticed by receive."""
        self._write(encode(message))

    def _write(self, content: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            # A request is far smaller than what a pipe takes at once.
            self._process.stdin.write(content)

    async def receive(self) -> Message | None:
        """The next message; None when the child closed its side. Raises WireError for bytes that are none."""
        while not self._received:
            piece = await self._stdout.reader.read(_READ_BYTES)
            if not piece:
                return None
            self._received.extend(self._decoder.feed(piece))
        return self._received.popleft()

    async def output(self) -> AsyncIterator[bytes]:
        """What the child and its own children print, as it comes."""
        while piece := await self._stderr.reader.read(_READ_BYTES):
            yield piece

    async def exited(self) -> bool:
        """Whether the process ends by itself, as one does whose wire is closed; its cause of death is its own then."""
        await asyncio.wait([self._exit], timeout=_END_S)
        return not self.alive

    async def end(self) -> str:
        """End the whole group at once and say how the process itself ended."""
        _kill_group(self._process.pid)
        code = await self._exit
        # Once more, for what the process started while it was being ended.
        _kill_group(self._process.pid)
        self.running.discard(self._process.pid)
        self._stdout.close()
        assert self._process.stdin is not None
        self._process.stdin.close()
        return cause_of_death(code)

    def close_output(self) -> None:
        """Read no more of what it prints; something that left its group may still hold the pipe."""
        self._stderr.close()


class _Pipe:
    """The reading end of a child's pipe on the event loop."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.BaseTransport) -> None:
        self.reader = reader
        self._transport = transport

    @classmethod
    async def open(cls, pipe: IO[bytes] | None) -> _Pipe:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        return cls(reader, transport)

    def close(self) -> None:
        self._transport.close()


async def output_of(command: Sequence[str], limit_s: float, limit_bytes: int) -> bytes | None:
    """What a program prints on stdout; None where it cannot be started, takes too long or prints too much."""
    try:
        async with _program(command, subprocess.DEVNULL) as (_, pipe):
            return await asyncio.wait_for(_read_all(pipe, limit_bytes), limit_s)
    except (HostError, asyncio.TimeoutError):
        return None


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended."""

    # None for one that took too long and was ended.
    code: int | None
    # The end of what it printed on stdout and stderr.
    printed: bytes


async def run_program(command: Sequence[str], limit_s: float | None, limit_bytes: int) -> Finished:
    """Run a program in a group of its own, which is ended with it. Raises HostError where it cannot be started.

    limit_s: None for one that ends by itself or with this task. limit_bytes: how much is kept of what it prints; it
    may print more.
    """
    printed = bytearray()
    async with _program(command, subprocess.STDOUT) as (process, pipe):
        exiting = asyncio.get_running_loop().run_in_executor(None, process.wait)
        reading = asyncio.create_task(_read_end(pipe, printed, limit_bytes), name=f"output of {command[0]}")
        try:
            await asyncio.wait([exiting], timeout=limit_s)
            code = exiting.result() if exiting.done() else None
            _kill_group(process.pid)
            # What has left the group may still hold the pipe.
            await asyncio.wait([reading], timeout=_END_S)
        finally:
            reading.cancel()
    return Finished(code, bytes(printed))


@contextlib.asynccontextmanager
async def _program(command: Sequence[str], stderr: int) -> AsyncIterator[tuple[subprocess.Popen[bytes], _Pipe]]:
    """A program without a wire, and its stdout; its group is ended after the block. Raises HostError as Child.start."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd="/",
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise HostError(f"{command[0]} cannot be started: {error.strerror or error}") from error
    Child.running.add(process.pid)
    try:
        pipe = await _Pipe.open(process.stdout)
        try:
            yield process, pipe
        finally:
            pipe.close()
    finally:
        _kill_group(process.pid)
        process.wait()
        Child.running.discard(process.pid)


async def _read_end(pipe: _Pipe, printed: bytearray, limit_bytes: int) -> None:
    while piece := await pipe.reader.read(_READ_BYTES):
        printed += piece
        del printed[:-limit_bytes]


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


async def _read_all(pipe: _Pipe, limit_bytes: int) -> bytes | None:
    printed = b""
    while piece := await pipe.reader.read(_READ_BYTES):
        printed += piece
        if len(printed) > limit_bytes:
            return None
    return printed


def cause_of_death(returncode: int) -> str:
    """A return code in words: exit code 7, signal 9 (SIGKILL)."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"signal {-returncode} ({signal.Signals(-returncode).name})"
    except ValueError:
        return f"signal {-returncode}"
