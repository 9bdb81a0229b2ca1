"""What torch.neuron is: the module of the stand-in device."""

from __future__ import annotations

import sys
from typing import Any

import torch

from torch_neuronx.native import library


def is_available() -> bool:
    """Whether there is a device."""
    return device_count() > 0


def device_count() -> int:
    """How many logical cores this process may use. Takes none of them."""
    return library.device_count()


def is_initialized() -> bool:
    """Whether the runtime was started, which takes the cores."""
    return library.is_initialized()


def current_device() -> int:
    """The index of the device that work is queued on by default."""
    return library.current_device()


def set_device(device: Any) -> None:
    """Make a device the current one."""
    library.set_device(_index(device))


class device:
    """A context in which a device is the current one."""

    def __init__(self, device: Any) -> None:
        self._index = _index(device)

    def __enter__(self) -> None:
        self._before = current_device()
        set_device(self._index)

    def __exit__(self, *error: object) -> None:
        set_device(self._before)


def synchronize(device: Any = None) -> None:
    """Wait until all queued work of a device, by default the current one, is done."""
    # torch's profiler calls this where it ends. By the documentation of TorchNeuron device events are lost all the
    # same without a call of the user's before, so that one does nothing.
    if sys._getframe(1).f_globals.get("__name__") == "torch.autograd.profiler":
        return
    library.synchronize(_index(device))


def memory_allocated(device: Any = None) -> int:
    """Bytes of the tensors on all devices."""
    return library.memory_allocated()


def manual_seed(seed: int) -> None:
    """Nothing to do: random numbers are the CPU's."""


manual_seed_all = manual_seed


def get_rng_state(device: Any = None) -> torch.Tensor:
    """The CPU's state, whose random numbers the device takes."""
    return torch.get_rng_state()


def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
    """Make the random numbers go on from a state."""
    torch.set_rng_state(state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The types that autocast may use."""
    return [torch.bfloat16, torch.float16]


def _is_in_bad_fork() -> bool:
    return False


def _index(device: Any) -> int:
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return current_device() if index is None else index
