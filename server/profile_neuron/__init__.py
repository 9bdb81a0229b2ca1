"""Marks functions whose device time should appear on their source lines."""

from profile_neuron.decorator import profile_neuron

__all__ = ["profile_neuron"]
__version__ = "0.1.0"
