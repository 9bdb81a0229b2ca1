"""The Neuron devices of this host: who holds their cores, as neuron-ls tells, and how the runtime refuses them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profile_neuron.agent.child import output_of
from profile_neuron.agent.environment import ANY_CORE
from profile_neuron.core.model import Holder
from profile_neuron.wire.messages import NeuronHost, Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from profile_neuron.agent.environment import Need

_PROGRAM = "neuron-ls"
_TOOLS = (_PROGRAM, "neuron-explorer")
# Where the tools' package puts them, which is not on every PATH.
_FOLDER = Path("/opt/aws/neuron/bin")
# The first was removed with release 2.34, which has the second.
_OPTIONS = (("--json-output",), ("--output-format", "json"))
_LIMIT_S = 10.0
_LIMIT_BYTES = 1 << 22
_DRIVER_VERSION = "sys/module/neuron/version"
_DEVICE_FILE = re.compile(r"neuron([0-9]+)")
_LONGEST_VERSION = 60
# Sources: the runtime's troubleshooting guide, SDK 2.33, and public reports of both spellings.
_REFUSALS = (
    b"nrt_allocate_neuron_cores",
    b"neuroncore(s) not available",
    b"neuron core(s) not available",
    b"no neuron device available",
)


async def ask_devices() -> tuple[Device, ...] | None:
    """The devices of this host as neuron-ls tells them; None where it does not, or is not there."""
    program = tool_path(_PROGRAM)
    if program is None:
        return None
    for options in _OPTIONS:
        printed = await output_of([program, *options], _LIMIT_S, _LIMIT_BYTES)
        devices = read_devices(printed) if printed is not None else None
        if devices is not None:
            return devices
    return None


async def neuron_host(root: Path = Path("/")) -> NeuronHost:
    """What there is of Neuron beside packages of Python; takes no NeuronCore. root: of the file system."""
    devices, tools = await asyncio.gather(ask_devices(), asyncio.gather(*map(_tool, _TOOLS)))
    return NeuronHost(
        driver=_driver(root),
        device_files=_device_files(root),
        tools=tuple(tool for tool in tools if tool is not None),
        core_count=None if devices is None else sum(device.core_count for device in devices),
        holders=() if devices is None else all_holders(devices),
    )


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

    def holds(self, cores: frozenset[int]) -> bool:
        """Whether it is known to hold one of these."""
        return self.cores is not None and bool(self.cores & cores)


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


def holders(devices: Sequence[Device], own_pids: Collection[int], need: Need = ANY_CORE) -> tuple[Holder, ...]:
    """The foreign processes that leave too few cores for a need, sorted by id; empty where there are enough.

    For certain cores these are the processes that are known to hold one of them. For any cores they are all, and a
    process that does not tell its cores holds all of its device, as is the runtime's default.
    """
    if need.cores is not None:
        wanted = need.cores
        return _holders(devices, lambda process: process.pid not in own_pids and process.holds(wanted))
    if sum(_count_left(device, own_pids) for device in devices) >= need.count:
        return ()
    return _holders(devices, lambda process: process.pid not in own_pids)


def all_holders(devices: Sequence[Device]) -> tuple[Holder, ...]:
    """Every process that uses a device, sorted by id."""
    return _holders(devices, lambda _: True)


def held_cores(devices: Sequence[Device], pids: Collection[int]) -> frozenset[int]:
    """Numbers of the cores that some processes are known to hold."""
    used = [process.cores for device in devices for process in device.processes if process.pid in pids]
    return frozenset().union(*(cores for cores in used if cores is not None))


def free_core(devices: Sequence[Device]) -> int | None:
    """The lowest number of a core that nobody holds; None where there is none, or numbers are not told."""
    taken = held_cores(devices, {process.pid for device in devices for process in device.processes})
    free: set[int] = set()
    for device in devices:
        if device.cores is not None and all(process.cores is not None for process in device.processes):
            free |= device.cores - taken
    return min(free, default=None)


def _holders(devices: Sequence[Device], is_meant: Callable[[Process], bool]) -> tuple[Holder, ...]:
    cores: dict[int, set[int]] = {}
    commands: dict[int, str] = {}
    for process in [process for device in devices for process in device.processes if is_meant(process)]:
        cores.setdefault(process.pid, set()).update(process.cores or ())
        commands[process.pid] = commands.get(process.pid) or process.command
    return tuple(Holder(pid, commands[pid], tuple(sorted(cores[pid]))) for pid in sorted(cores))


def _count_left(device: Device, own_pids: Collection[int]) -> int:
    """How many cores of a device foreign processes leave to us."""
    foreign = [process for process in device.processes if process.pid not in own_pids]
    known: set[int] = set()
    for process in foreign:
        known |= process.cores or frozenset()
    # One that uses several devices may tell the cores of all of them at each.
    left = max(0, device.core_count - len(known if device.cores is None else known & device.cores))
    is_ours = len(foreign) < len(device.processes)
    if is_ours:
        # Whoever does not tell has left us what we have of it.
        return max(1, left)
    return 0 if any(process.cores is None for process in foreign) else left


def tool_path(tool: str) -> str | None:
    """Where a command of Neuron's tools is: on PATH, or where their package puts them; None where it is in neither."""
    found = shutil.which(tool)
    if found is None and (_FOLDER / tool).is_file():
        return str(_FOLDER / tool)
    return found


async def _tool(name: str) -> Tool | None:
    path = tool_path(name)
    if path is None:
        return None
    printed = await output_of([path, "--version"], _LIMIT_S, _LIMIT_BYTES) or b""
    lines = printed.decode("utf-8", "replace").strip().split("\n")
    version = next((line for line in lines if re.search(r"[0-9]\.[0-9]", line)), "")
    return Tool(name, path, shutil.which(name) is not None, _one_line(version)[:_LONGEST_VERSION])


def _driver(root: Path) -> str:
    try:
        return _one_line((root / _DRIVER_VERSION).read_text(errors="replace"))[:_LONGEST_VERSION]
    except OSError:
        return ""


def _device_files(root: Path) -> tuple[str, ...]:
    names = [match for path in root.glob("dev/neuron*") if (match := _DEVICE_FILE.fullmatch(path.name))]
    return tuple(f"/dev/{match[0]}" for match in sorted(names, key=lambda match: int(match[1])))


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
    return _one_line(value)[:100] if isinstance(value, str) else ""


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
