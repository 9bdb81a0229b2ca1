"""The profiling API of the stand-in: that of July 2026, or in mode april the one before."""

from __future__ import annotations

import os

from torch_neuronx import april, session

_MODE = os.environ.get("STANDIN_NEURON_MODE", "kernels")

if _MODE == "april":
    NeuronProfiler = april.NeuronProfiler
else:
    NeuronProfiler = session.NeuronProfiler
    ProfileMode = session.ProfileMode
    NeuronConfig = session.UncorrelatedConfig if _MODE == "uncorrelated" else session.NeuronConfig
