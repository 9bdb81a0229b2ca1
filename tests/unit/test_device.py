"""Who holds the NeuronCores, from what neuron-ls prints; all texts are constructed after its guide."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.agent import device as devices_of_host
from profile_neuron.agent.device import describe, free_core, has_refusal, holders, neuron_host, read_devices
from profile_neuron.agent.environment import Need
from profile_neuron.core.model import Holder
from profile_neuron.wire.messages import NeuronHost, Tool
from tests.conftest import case

if TYPE_CHECKING:
    from pathlib import Path

OWN = (77,)


def device(*processes: object, count: int = 2, first: int = 0, **fields: Any) -> dict[str, Any]:
    ids = list(range(first, first + count))
    return {"neuron_device": 0, "nc_count": count, "neuroncore_ids": ids, "neuron_processes": list(processes), **fields}


def process(pid: int, *cores: int, command: object = "python train.py") -> dict[str, Any]:
    return {"pid": pid, "command": command, **({"neuroncore_ids": list(cores)} if cores else {})}


TRAIN = Holder(4123, "python train.py", (0, 1))
HELD: dict[str, tuple[object, tuple[Holder, ...]]] = {
    "both cores": ([device(process(4123, 0, 1))], (TRAIN,)),
    "an object that holds the list": ({"version": 1, "devices": [device(process(4123, 0, 1))]}, (TRAIN,)),
    "one core is free": ([device(process(4123, 0))], ()),
    "nobody": ([device()], ()),
    "two processes": (
        [device(process(9, 1, command="vllm"), process(4123, 0))],
        (Holder(9, "vllm", (1,)), Holder(4123, "python train.py", (0,))),
    ),
    "one device is free": ([device(process(4123, 0, 1)), device(first=2)], ()),
    "two devices": (
        [device(process(4123, 0, 1, 2, 3)), device(process(4123, 0, 1, 2, 3), first=2)],
        (Holder(4123, "python train.py", (0, 1, 2, 3)),),
    ),
    "cores of another device": ([device(process(4123, 2, 3)), device(process(4123, 2, 3), first=2)], ()),
    "cores not told": ([device(process(4123))], (Holder(4123, "python train.py", ()),)),
    "our own": ([device(process(77, 0, 1))], ()),
    "ours beside another": ([device(process(77, 0), process(4123, 1))], ()),
    "no command": ([device(process(4123, 0, 1, command=None))], (Holder(4123, "", (0, 1)),)),
    "count only": (
        [{"nc_count": 2, "neuron_processes": [process(4123, 0, 1)]}],
        (TRAIN,),
    ),
    "odd processes": ([device("x", {"pid": "1"}, {"command": "y"}, {"pid": True})], ()),
    "no list of processes": ([{"nc_count": 2, "neuron_processes": None}], ()),
}


@pytest.mark.parametrize("kind", HELD)
def test_holders_are_told_where_no_core_is_left(kind: str) -> None:
    printed, expected = HELD[kind]
    devices = read_devices(json.dumps(printed).encode())
    assert devices is not None
    assert holders(devices, OWN) == expected


FOUR = [device(process(9, 0, command="vllm"), process(4123, 1, 2), count=4)]
VLLM, TRAINS = Holder(9, "vllm", (0,)), Holder(4123, "python train.py", (1, 2))
NEEDS: dict[str, tuple[object, Need, tuple[Holder, ...]]] = {
    "the core is held": (FOUR, Need(frozenset({1})), (TRAINS,)),
    "one of the cores is held": (FOUR, Need(frozenset({2, 3})), (TRAINS,)),
    "held by two": (FOUR, Need(frozenset({0, 1})), (VLLM, TRAINS)),
    "the core is free": (FOUR, Need(frozenset({3})), ()),
    "the core is ours": ([device(process(77, 0), process(4123, 1))], Need(frozenset({0})), ()),
    "cores not told": ([device(process(4123))], Need(frozenset({0})), ()),
    "as many as are free": (FOUR, Need(count=1), ()),
    "more than are free": (FOUR, Need(count=2), (VLLM, TRAINS)),
    "free on two devices": ([*FOUR, device(first=4)], Need(count=3), ()),
    "ours count": ([device(process(77, 0, 1), process(4123, 2), count=4)], Need(count=3), ()),
    "ours do not suffice": (
        [device(process(77, 0, 1), process(4123, 2), count=4)],
        Need(count=4),
        (Holder(4123, "python train.py", (2,)),),
    ),
}


@pytest.mark.parametrize("kind", NEEDS)
def test_holders_are_told_where_too_few_cores_are_left_for_a_need(kind: str) -> None:
    printed, need, expected = NEEDS[kind]
    devices = read_devices(json.dumps(printed).encode())
    assert devices is not None
    assert holders(devices, OWN, need) == expected


FREE: dict[str, tuple[object, int | None]] = {
    "all": ([device()], 0),
    "the lowest": (FOUR, 3),
    "held by ourselves": ([device(process(77, 0))], 1),
    "on another device": ([device(process(4123, 0, 1)), device(first=2)], 2),
    "told at another device": ([device(), device(process(4123, 0, 2), first=2)], 1),
    "none": ([device(process(4123, 0, 1))], None),
    "beside a process that does not tell": ([device(process(4123))], None),
    "beside a device of one that does not tell": ([device(process(4123)), device(first=2)], 2),
    "no numbers": ([{"nc_count": 2, "neuron_processes": []}], None),
}


@pytest.mark.parametrize("kind", FREE)
def test_the_lowest_core_that_nobody_holds_is_free(kind: str) -> None:
    printed, expected = FREE[kind]
    devices = read_devices(json.dumps(printed).encode())
    assert devices is not None
    assert free_core(devices) == expected


def executable(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_host_tells_driver_tools_and_holders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools, vendors = tmp_path / "bin", tmp_path / "opt"
    printed = json.dumps(FOUR)
    executable(tools / "neuron-ls", f"[ $1 = --version ] && echo 'neuron-ls 2.33.38.0' && exit; echo '{printed}'")
    executable(vendors / "neuron-explorer", "echo 'Neuron Explorer'; echo 'version   2.33.38.0'")
    (tmp_path / "sys/module/neuron").mkdir(parents=True)
    (tmp_path / "sys/module/neuron/version").write_text("2.31.7.0\n")
    (tmp_path / "dev").mkdir()
    for name in ("neuron10", "neuron0", "neuron9", "neuron_x"):
        (tmp_path / "dev" / name).touch()
    monkeypatch.setenv("PATH", f"{tools}:/bin:/usr/bin")
    monkeypatch.setattr(devices_of_host, "_FOLDER", vendors)
    assert asyncio.run(neuron_host(tmp_path)) == NeuronHost(
        driver="2.31.7.0",
        device_files=("/dev/neuron0", "/dev/neuron9", "/dev/neuron10"),
        tools=(
            Tool("neuron-ls", str(tools / "neuron-ls"), True, "neuron-ls 2.33.38.0"),
            Tool("neuron-explorer", str(vendors / "neuron-explorer"), False, "version 2.33.38.0"),
        ),
        core_count=4,
        holders=(VLLM, TRAINS),
    )


def test_a_host_without_neuron_has_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices_of_host, "_FOLDER", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asyncio.run(neuron_host(tmp_path)) == NeuronHost("", (), (), None, ())


def test_a_tool_that_does_not_say_its_version_is_found_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "neuron-explorer", "echo 'unknown option' >&2; exit 2")
    monkeypatch.setattr(devices_of_host, "_FOLDER", tmp_path / "none")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    (tool,) = asyncio.run(neuron_host(tmp_path)).tools
    assert (tool.name, tool.version) == ("neuron-explorer", "")


@pytest.mark.parametrize("text", [b"", b"no devices", b"[]", b"{}", b"3", b'[{"x": 1}]', b'{"a": [1]}', b"[" * 100_000])
def test_what_is_no_list_of_devices_says_nothing(text: bytes) -> None:
    assert read_devices(text) is None


def test_holders_in_words() -> None:
    found = (TRAIN, Holder(9, "", (2,)), Holder(10, "vllm serve", ()))
    assert describe(found) == (
        "pid 4123 (python train.py) holds 2 NeuronCores and pid 9 holds 1 NeuronCore and pid 10 (vllm serve) holds "
        "NeuronCores"
    )


REFUSALS = {
    "of the runtime": (b"ERROR  NRT:nrt_allocate_neuron_cores   Something", True),
    "newer": (b"Virtual Neuron Core(s) not available - Requested:2 Available:0", True),
    "in capitals": (b"NEURONCORE(S) NOT AVAILABLE", True),
    "no device at all": (b"No neuron device available", True),
    "something else": (b"2 NeuronCores available", False),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_of_the_runtime_is_known_by_its_documented_texts(kind: str) -> None:
    text, expected = REFUSALS[kind]
    assert has_refusal(text) == expected


def test_the_recorded_refusal_is_known() -> None:
    assert has_refusal((case("N01") / "stderr.txt").read_bytes())
