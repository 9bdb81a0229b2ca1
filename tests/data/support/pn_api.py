"""What the cases import the decorator from, as a project that re-exports it would have it."""

from profile_neuron import profile_neuron  # noqa: F401
