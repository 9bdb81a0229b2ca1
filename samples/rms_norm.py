"""Three ways to the same RMSNorm: one operator per line, torch's fused one, and the first one compiled.

Run it: profile-neuron run samples/rms_norm.py
"""

from __future__ import annotations

import shutil

import torch

from profile_neuron import profile_neuron

EPSILON = 1e-6


def device() -> torch.device:
    """The accelerator of this machine, or the CPU where it has none."""
    if torch.accelerator.is_available():
        return torch.accelerator.current_accelerator() or torch.device("cpu")
    return torch.device("cpu")


def compile_backend() -> str:
    """What torch.compile shall use: on the CPU its own code generator, where there is a C++ compiler."""
    if device().type == "neuron":
        return "neuron"
    return "inductor" if shutil.which("g++") or shutil.which("clang++") else "aot_eager"


def make_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x = torch.randn(4, 512, dtype=torch.bfloat16).to(device())
    weight = torch.ones(512, dtype=torch.bfloat16).to(device())
    return x, weight


@profile_neuron(inputs=make_inputs)
def naive(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    squared = x * x
    mean = squared.mean(-1, keepdim=True)
    shifted = mean + EPSILON
    scale = torch.rsqrt(shifted)
    normalised = x * scale
    return normalised * weight


@profile_neuron(inputs=make_inputs)
def fused(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.rms_norm(x, (512,), weight, EPSILON)


@profile_neuron(inputs=make_inputs)
@torch.compile(backend=compile_backend(), fullgraph=True)
def compiled(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    squared = x * x
    mean = squared.mean(-1, keepdim=True)
    shifted = mean + EPSILON
    scale = torch.rsqrt(shifted)
    normalised = x * scale
    return normalised * weight
