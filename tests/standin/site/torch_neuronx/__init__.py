"""A stand-in for TorchNeuron over CPU memory, constructed for the tests of profile-neuron. Not made by AWS."""

from __future__ import annotations

import json
import os
from typing import Any


def _autoload() -> None:
    """What import torch calls, by the entry point. Defined first: this package may be what imports torch."""


import torch  # noqa: E402

from torch_neuronx import device as _neuron  # noqa: E402
from torch_neuronx.native import library  # noqa: E402

__all__ = ["clear_op_tracking", "get_executed_ops", "get_fallback_ops", "stream", "synchronize"]

synchronize = _neuron.synchronize


def Stream(device: Any = "neuron") -> torch.Stream:
    """A new stream on a device."""
    return torch.Stream(device=device)


def stream(one: torch.Stream) -> torch.Stream:
    """A context in which work is queued on a stream."""
    return one


def get_executed_ops() -> list[str]:
    """Names, without overload, of the operators that ran on the device."""
    return library.executed_operators()


def get_fallback_ops() -> list[str]:
    """Names, without overload, of the operators that ran on the CPU in its place."""
    return library.fallen_back_operators()


def clear_op_tracking() -> None:
    """Forget which operators ran."""
    library.clear_operators()


def _set_up() -> None:
    torch.utils.rename_privateuse1_backend("neuron")
    torch._register_device_module("neuron", _neuron)
    torch.utils.generate_methods_for_privateuse1_backend()
    for name, costs in json.loads(os.environ.get("STANDIN_NEURON_COSTS") or "{}").items():
        library.set_costs(name, costs)


_set_up()
