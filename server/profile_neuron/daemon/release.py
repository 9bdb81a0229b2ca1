"""Asks agents, those of other programs as well, to let go of the NeuronCores that their idle workers hold."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profile_neuron.errors import WireError
from profile_neuron.folders import socket_folder
from profile_neuron.wire.codec import Decoder, encode
from profile_neuron.wire.messages import Released, ReleaseRequest
from profile_neuron.wire.stdio import MAGIC

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

log = logging.getLogger(__name__)

_READ_BYTES = 1 << 16
# Ending a worker with all that it started takes a few seconds at most.
_ANSWER_S = 15.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the NeuronCores that are held here."""

    # At least one.
    sentences: tuple[str, ...]
    is_still_held: bool


async def release(pids: Collection[int] | None = None) -> Outcome:
    """Have idle workers ended that hold NeuronCores, and say what became of them; those in a run stay.

    pids: the processes of certain agents; None for all agents of this user. Raises OSError where nobody can be asked.
    """
    sockets = [] if sys.platform == "win32" else _sockets(pids)
    answers = await asyncio.gather(*map(_ask, sockets))
    told = [answer for answer in answers if answer is not None and (isinstance(answer, str) or answer.pid is not None)]
    sentences = tuple(answer if isinstance(answer, str) else _sentence(answer) for answer in told)
    is_still_held = any(isinstance(answer, str) or answer.running for answer in told)
    return Outcome(sentences or ("nothing is held",), is_still_held)


def _sockets(pids: Collection[int] | None) -> list[Path]:
    found = [path for path in socket_folder().iterdir() if path.name.isascii() and path.name.isdigit()]
    chosen = [path for path in found if pids is None or int(path.name) in pids]
    return sorted(chosen, key=lambda path: int(path.name))


async def _ask(socket: Path) -> Released | str | None:
    """The answer of one agent, or a sentence on why there is none; None for an agent that is gone."""
    try:
        reader, writer = await asyncio.open_unix_connection(socket)
    except (ConnectionRefusedError, FileNotFoundError):
        # Left by an agent that was killed.
        socket.unlink(missing_ok=True)
        return None
    except OSError as error:
        return f"the agent {socket.name} cannot be asked ({error.strerror}); end it with: kill {socket.name}"
    try:
        writer.write(MAGIC + encode(ReleaseRequest()))
        answer = await asyncio.wait_for(_answer(reader), _ANSWER_S)
    except (WireError, OSError, asyncio.TimeoutError) as error:
        log.debug("the agent %s: %r", socket.name, error)
        answer = None
    finally:
        writer.close()
    if answer is None and socket.exists():
        return f"the agent {socket.name} does not answer; end it with: kill {socket.name}"
    return answer


async def _answer(reader: asyncio.StreamReader) -> Released | None:
    decoder = Decoder()
    while piece := await reader.read(_READ_BYTES):
        for message in decoder.feed(piece):
            return message if isinstance(message, Released) else None
    return None


def _sentence(answer: Released) -> str:
    if answer.running:
        return f"pid {answer.pid} is profiling {answer.running}; cancel it in its editor or press Ctrl-C there"
    cores = f"core{'' if answer.cores.isdigit() else 's'} {answer.cores}" if answer.cores else "NeuronCores"
    return f"released {cores} (worker {answer.pid})"
