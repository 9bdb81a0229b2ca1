"""The profiling API of the stand-in: that of July 2026, or in mode april the one before."""

from __future__ import annotations

import os

_MODE = os.environ.get("STANDIN_NEURON_MODE", "kernels")

if _MODE == "april":
    from torch_neuronx.april import NeuronProfiler
else:
    from torch_neuronx.session import NeuronProfiler, ProfileMode

    if _MODE == "uncorrelated":
        from torch_neuronx.session import UncorrelatedConfig as NeuronConfig
    else:
        from torch_neuronx.session import NeuronConfig

__all__ = ["NeuronProfiler"] if _MODE == "april" else ["NeuronConfig", "NeuronProfiler", "ProfileMode"]
