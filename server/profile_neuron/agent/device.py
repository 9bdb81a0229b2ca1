"""Who holds the NeuronCores, as neuron-ls tells, and how the Neuron runtime says that none is free."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profile_neuron.agent.child import output_of
from profile_neuron.core.model import Holder

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_PROGRAM = "neuron-ls"
# Where the tools' package puts it, which is not on every PATH.
_PLACE = Path("/opt/aws/neuron/bin/neuron-ls")
# The first was removed with release 2.34, which has the second.
_OPTIONS = (("--json-output",), ("--output-format", "json"))
_LIMIT_S = 10.0
_LIMIT_BYTES = 1 << 22
# Sources: the runtime's troubleshooting guide, SDK 2.33, and public reports of both spellings.
_REFUSALS = (b"nrt_allocate_neuron_cores", b"neuroncore(s) not available", b"neuron core(s) not available")


async def other_holders(own_pids: Collection[int]) -> tuple[Holder, ...]:
    """The processes that hold all NeuronCores between them; empty where a core is free, ours, or nothing is known."""
    devices = await _ask()
    return holders(devices, own_pids) if devices is not None else ()


def has_refusal(text: bytes) -> bool:
    """Whether the runtime says in it that no NeuronCore is free."""
    lowered = text.lower()
    return any(refusal in lowered for refusal in _REFUSALS)


def describe(found: Sequence[Holder]) -> str:
    """Holders in words: pid 4123 (python train.py) holds 2 NeuronCores."""
    return " and ".join(_described(holder) for holder in found)


def _described(holder: Holder) -> str:
    command = f" ({holder.command})" if holder.command else ""
    if not holder.cores:
        return f"pid {holder.pid}{command} holds NeuronCores"
    return f"pid {holder.pid}{command} holds {len(holder.cores)} NeuronCore{'s' if len(holder.cores) > 1 else ''}"


@dataclass(frozen=True, slots=True)
class Process:
    """A process that uses a device."""

    pid: int
    # Empty where it is not told.
    command: str
    # Numbers of the cores that it holds; None where that is not told.
    cores: frozenset[int] | None


@dataclass(frozen=True, slots=True)
class Device:
    """One Neuron device."""

    # Numbers of its cores; None where only their count is told.
    cores: frozenset[int] | None
    core_count: int
    processes: tuple[Process, ...]


def read_devices(text: bytes) -> tuple[Device, ...] | None:
    """The devices in what neuron-ls printed as JSON: a list of them, or an object that holds one; None without a list.

    Source: the neuron-ls guide, SDK 2.31; the top level of 2.34 is only announced.
    """
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    for rows in parsed.values() if isinstance(parsed, Mapping) else [parsed]:
        if isinstance(rows, list) and rows and all(_is_device(row) for row in rows):
            return tuple(_device(row) for row in rows)
    return None


def holders(devices: Sequence[Device], own_pids: Collection[int]) -> tuple[Holder, ...]:
    """The foreign processes, sorted by id, if no core is left beside theirs; else empty.

    A process that does not tell its cores holds all of its device, as is the runtime's default.
    """
    cores: dict[int, set[int]] = {}
    commands: dict[int, str] = {}
    for device in devices:
        foreign = [process for process in device.processes if process.pid not in own_pids]
        known: set[int] = set()
        for process in foreign:
            known |= process.cores or frozenset()
            cores.setdefault(process.pid, set()).update(process.cores or ())
            commands[process.pid] = commands.get(process.pid) or process.command
        # One that uses several devices may tell the cores of all of them at each.
        held = known if device.cores is None else known & device.cores
        all_held = any(process.cores is None for process in foreign) or len(held) >= device.core_count
        if len(foreign) < len(device.processes) or not all_held:
            return ()
    return tuple(Holder(pid, commands[pid], tuple(sorted(cores[pid]))) for pid in sorted(cores))


async def _ask() -> tuple[Device, ...] | None:
    program = shutil.which(_PROGRAM) or (str(_PLACE) if _PLACE.is_file() else None)
    if program is None:
        return None
    for options in _OPTIONS:
        printed = await output_of([program, *options], _LIMIT_S, _LIMIT_BYTES)
        devices = read_devices(printed) if printed is not None else None
        if devices is not None:
            return devices
    return None


def _is_device(row: object) -> bool:
    return isinstance(row, Mapping) and _count(row) > 0


def _count(row: Mapping[str, Any]) -> int:
    count = row.get("nc_count")
    return count if isinstance(count, int) else len(_numbers(row.get("neuroncore_ids")) or ())


def _device(row: Mapping[str, Any]) -> Device:
    processes = row.get("neuron_processes")
    return Device(
        cores=_numbers(row.get("neuroncore_ids")),
        core_count=_count(row),
        processes=tuple(
            Process(process["pid"], _command(process.get("command")), _numbers(process.get("neuroncore_ids")))
            for process in (processes if isinstance(processes, list) else ())
            if isinstance(process, Mapping) and _is_number(process.get("pid"))
        ),
    )


def _numbers(value: object) -> frozenset[int] | None:
    if not isinstance(value, list) or not value or not all(_is_number(item) for item in value):
        return None
    return frozenset(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _command(value: object) -> str:
    """A command on one line and not long."""
    return re.sub(r"\s+", " ", value).strip()[:100] if isinstance(value, str) else ""
