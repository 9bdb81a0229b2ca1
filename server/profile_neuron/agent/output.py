"""What a worker and its children print: the start of it goes on to the server, the rest into a file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from typing import TYPE_CHECKING, BinaryIO

from profile_neuron.agent.device import has_refusal
from profile_neuron.core import units
from profile_neuron.folders import cache_folder
from profile_neuron.wire.messages import RunOutput
from profile_neuron.wire.stdio import end_of_output

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# What one run may send to the server.
_LINES = 2_000
_BYTES = 1_000_000
_LINE_BYTES = 1 << 16
# What one run may leave in a file, and how many such files stay.
_LOG_BYTES = 64_000_000
_LOGS = 10
_LAST_LINE_CHARACTERS = 300
# Source: the profiling guide of SDK 2.32.
_DROPPED = re.compile(rb"\b([0-9]{1,18}) (?:trace )?events were dropped")
# Sources: NeuronBindings.cpp and CPUFallbackExecutor.cpp of TorchNeuron, April 2026.
_FALLBACK = re.compile(rb"'([\w:.]{1,200})'(?: fell back to CPU|[^\n']{0,200} executed via CPU fallback)")


class Output:
    """The output of one process, in pieces; holds at most the start of one line."""

    def __init__(self, send: Callable[[RunOutput], None]) -> None:
        self._send = send
        self._rest = b""
        # What was printed last, which often says why a process ended.
        self.last_line = ""
        # Names of operators that the Neuron runtime ran on the CPU; it says so once for each in a process.
        self.fallback_operators: set[str] = set()
        self.begin("")

    def begin(self, run_id: str) -> None:
        """What comes from now on belongs to a run, until finish."""
        self._run_id = run_id
        self._end_mark = end_of_output(run_id).encode() + b"\n" if run_id else b""
        self._ended = asyncio.Event()
        self._lines_left, self._bytes_left = _LINES, _BYTES
        # Lines that were not sent.
        self._withheld = 0
        self._log: _Log | None = None
        # The Neuron runtime said that it has no core for us.
        self.is_refused = False
        # How many events it said that its buffers did not hold.
        self.dropped_events = 0

    async def ended(self) -> None:
        """Wait until all has come that a run printed by itself, which the worker marks."""
        await self._ended.wait()

    def feed(self, piece: bytes) -> None:
        """Take up what was printed next."""
        text, self._rest = self._rest + piece, b""
        if self._end_mark and self._end_mark in text:
            before, _, text = text.partition(self._end_mark)
            # A last line that has no end stands before the mark on its line.
            self._take(before if not before or before.endswith(b"\n") else before + b"\n")
            self._ended.set()
        lines, end, self._rest = text.rpartition(b"\n")
        self._take(lines + end)
        if len(self._rest) > _LINE_BYTES:
            # A line without an end is passed on in pieces, but not the start of a mark.
            cut = self._rest.find(b"\x1e", -len(self._end_mark)) if self._end_mark else -1
            cut = len(self._rest) if cut < 0 else cut
            self._take(self._rest[:cut])
            self._rest = self._rest[cut:]

    def close(self) -> None:
        """Take up that nothing more will come."""
        if self._rest:
            self._take(self._rest + b"\n")
            self._rest = b""

    def finish(self) -> None:
        """The run is over: say how much of what it printed was not sent, and where it is."""
        if self._withheld:
            self._send(RunOutput(self._run_id, self._remainder()))
        if self._log is not None:
            self._log.close()
        self._log = None
        # Of what still comes between two runs no more is sent than was left.
        self._run_id, self._end_mark = "", b""

    def _take(self, block: bytes) -> None:
        """Whole lines, or a piece of a long one."""
        if not block:
            return
        if self._run_id:
            self._take_remarks(block)
        last = block.rstrip().rpartition(b"\n")[2]
        if last:
            self.last_line = _text(last)[:_LAST_LINE_CHARACTERS]
        if self._lines_left:
            lines = block.removesuffix(b"\n").split(b"\n")
            count = self._fitting(lines)
            if count:
                self._send(RunOutput(self._run_id, "\n".join(map(_text, lines[:count]))))
            if count == len(lines):
                return
            self._lines_left = 0
            block = b"\n".join(lines[count:]) + block[len(block.removesuffix(b"\n")) :]
        self._withhold(block)

    def _take_remarks(self, block: bytes) -> None:
        """Note what the Neuron runtime says among the rest."""
        self.is_refused = self.is_refused or has_refusal(block)
        if b"were dropped" in block:
            self.dropped_events += sum(int(count) for count in _DROPPED.findall(block))
        if b"CPU" in block:
            self.fallback_operators.update(name.decode("ascii", "replace") for name in _FALLBACK.findall(block))

    def _fitting(self, lines: list[bytes]) -> int:
        """How many of some lines may still be sent."""
        count = 0
        for line in lines[: self._lines_left]:
            if len(line) > self._bytes_left:
                break
            self._bytes_left -= len(line)
            count += 1
        self._lines_left -= count
        return count

    def _withhold(self, block: bytes) -> None:
        if not self._run_id:
            return
        self._withheld += block.count(b"\n")
        if self._log is None:
            self._log = _Log(self._run_id)
        self._log.write(block)

    def _remainder(self) -> str:
        start = f"… and {self._withheld} more lines"
        if self._log is None or self._log.reason:
            return f"{start}, which could not be kept ({self._log.reason if self._log else 'no file'})"
        if self._log.left_bytes <= 0:
            return f"{start}, of which the first {units.size(_LOG_BYTES)} are in {self._log.path}"
        return f"{start}, in {self._log.path}"


class _Log:
    """A file for what is not sent, private to the user and not too large."""

    def __init__(self, run_id: str) -> None:
        self.left_bytes = _LOG_BYTES
        # Why it cannot be written; empty where it can.
        self.reason = ""
        self._file: BinaryIO | None = None
        try:
            folder = cache_folder("logs")
            _remove_old_logs(folder)
            self.path = folder / f"{run_id}.log"
            self._file = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb")
        except OSError as error:
            self.reason = error.strerror or str(error)

    def write(self, block: bytes) -> None:
        if self._file is None:
            return
        try:
            self._file.write(block[: max(0, self.left_bytes)])
        except OSError as error:
            self.reason = error.strerror or str(error)
            self.close()
        self.left_bytes -= len(block)

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None


def _remove_old_logs(folder: Path) -> None:
    """Make room for one more."""
    logs = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime_ns)
    for path in logs[: max(0, len(logs) - _LOGS + 1)]:
        path.unlink(missing_ok=True)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
