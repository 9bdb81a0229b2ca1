"""What Neuron's tools print of their options and of the devices, for a bug report; takes no NeuronCore."""

from __future__ import annotations

import asyncio

from profile_neuron.agent.child import cause_of_death, run_program
from profile_neuron.agent.device import tool_path
from profile_neuron.errors import HostError
from profile_neuron.wire.messages import Detail

_COMMANDS = (
    ("neuron-explorer", "--version"),
    ("neuron-explorer", "--help"),
    ("neuron-explorer", "view", "--help"),
    ("neuron-explorer", "capture", "--help"),
    ("neuron-ls", "--version"),
    ("neuron-ls", "--help"),
    ("neuron-ls", "--json-output"),
    ("neuron-ls", "--output-format", "json"),
)
_LIMIT_S = 30.0
_LIMIT_BYTES = 1 << 18


async def tool_texts() -> tuple[Detail, ...]:
    """What each command printed, those of tools that are not there left out."""
    texts = await asyncio.gather(*(_text(tool, *options) for tool, *options in _COMMANDS))
    return tuple(text for text in texts if text is not None)


async def _text(tool: str, *options: str) -> Detail | None:
    program = tool_path(tool)
    if program is None:
        return None
    subject = " ".join((tool, *options))
    try:
        end = await run_program([program, *options], _LIMIT_S, _LIMIT_BYTES)
    except (HostError, OSError) as error:
        return Detail(subject, "", str(error))
    ending = f"ended after {_LIMIT_S:g} s" if end.code is None else cause_of_death(end.code) if end.code else ""
    return Detail(subject, end.printed.decode("utf-8", "replace"), ending)
