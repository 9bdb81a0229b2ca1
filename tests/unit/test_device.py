"""Who holds the NeuronCores, from what neuron-ls prints; all texts are constructed after its guide."""

from __future__ import annotations

import json
from typing import Any

import pytest

from profile_neuron.agent.device import describe, has_refusal, holders, read_devices
from profile_neuron.core.model import Holder
from tests.conftest import case

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
    "no device at all": (b"No neuron device available", False),
    "something else": (b"2 NeuronCores available", False),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_of_the_runtime_is_known_by_its_documented_texts(kind: str) -> None:
    text, expected = REFUSALS[kind]
    assert has_refusal(text) == expected


def test_the_recorded_refusal_is_known() -> None:
    assert has_refusal((case("N01") / "stderr.txt").read_bytes())
