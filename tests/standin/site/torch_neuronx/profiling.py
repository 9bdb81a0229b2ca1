"""The profiling API of the stand-in: that of July 2026, or in mode april the one before."""

from __future__ import annotations

import os

_MODE = os.environ.get("STANDIN_NEURON_MODE", "kernels")

if _MODE == "april":
    pass
else:

    if _MODE == "uncorrelated":
        pass
    else:
        pass

__all__ = ["NeuronProfiler"] if _MODE == "april" else ["NeuronConfig", "NeuronProfiler", "ProfileMode"]
