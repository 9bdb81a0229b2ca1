"""A stand-in for the XLA package of Neuron, constructed: it has no device named neuron, and no profiling module."""

from __future__ import annotations

__version__ = "2.9.0"
