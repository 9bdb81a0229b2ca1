"""A package: its initialiser brings the block forward by a relative import."""

from .block import Block
from .scale import rescale

__all__ = ["Block", "rescale"]
