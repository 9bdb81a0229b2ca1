"""TorchNeuron, by what it has and never by its version: the device, its profiler's settings, its synchronize.

With torch_host.py and tensors.py the only file that imports torch or torch_neuronx, each time inside the function that
needs it. Sources: the profiling guide of SDK 2.31 and newer for NeuronConfig, the source of April 2026 for what came
before it; server/adr/0013 says what is taken for granted.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from dataclasses import dataclass
from typing import Any, Literal

from profile_neuron.worker.failures import describe

# beta: NeuronConfig and NeuronProfiler; april: a profiler whose settings are one string; none: neither.
Api = Literal["beta", "april", "none"]

DEVICE = "neuron"


@dataclass(frozen=True, slots=True)
class Found:
    """What the worker's interpreter has of TorchNeuron."""

    # What torch-neuronx is, for a person; empty where it is not installed.
    package: str
    # NeuronCores that can be used; 0 where there is no device.
    device_count: int
    api: Api
    # Why nothing can be run on a NeuronCore, one sentence without its period; empty where it can.
    reason: str = ""
    # What mends that; empty where only another machine does.
    advice: str = ""


def find() -> Found:
    """Look for TorchNeuron and a device, without taking a core; torch has to be importable."""
    import torch

    version = _version()
    package = f"torch-neuronx {version}" if version else ""
    module: Any = getattr(torch, DEVICE, None)
    if module is None:
        return _without_backend(package)
    try:
        count = int(module.device_count()) if module.is_available() else 0
    except Exception as error:  # noqa: BLE001 - a driver that does not fit may raise anything
        return Found(package, 0, _api(), f"{package} cannot ask for its devices ({describe(error)})", "neuron-ls")
    if not count:
        return Found(package, 0, _api(), f"{package or 'TorchNeuron'} finds no Neuron device on this host")
    return Found(package, count, _api())


def holds_cores() -> bool:
    """Whether this process has initialised the Neuron runtime, and so owns its cores until it ends."""
    module: Any = getattr(sys.modules.get("torch"), DEVICE, None)
    initialised = getattr(module, "is_initialized", None)
    try:
        return bool(initialised()) if initialised is not None else module is not None
    except Exception:  # noqa: BLE001 - what cannot be asked may hold one
        return True


def _without_backend(package: str) -> Found:
    if importlib.util.find_spec("torch_neuronx") is None:
        return Found("", 0, "none", "torch-neuronx is not installed")
    if _has_profiling_module():
        return Found(package, 0, "none", f"{package} did not register the device {DEVICE} with this torch")
    return Found(
        package or "torch-neuronx",
        0,
        "none",
        f"{package or 'the installed torch-neuronx'} is the XLA package of Trn1 and Inf2, without a device {DEVICE}",
        "TorchNeuron (the torch-neuronx built for torch 2.13 and newer, for Trn2 and Trn3) has one",
    )


def _has_profiling_module() -> bool:
    try:
        return importlib.util.find_spec("torch_neuronx.profiling") is not None
    except Exception:  # noqa: BLE001 - imports the package, which may fail in any way
        return False


def _api() -> Api:
    try:
        from torch_neuronx import profiling  # type: ignore[import-not-found]
    except Exception:  # noqa: BLE001 - likewise
        return "none"
    if hasattr(profiling, "NeuronConfig"):
        return "beta"
    return "april" if hasattr(profiling, "NeuronProfiler") else "none"


def _version() -> str:
    try:
        return importlib.metadata.version("torch-neuronx")
    except importlib.metadata.PackageNotFoundError:
        return ""
