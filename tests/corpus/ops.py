"""The operators of the corpus: torch's own, or their stand-ins where torch cannot be imported.

Each is exactly one top-level operator in a profile of torch 2.13. This file lies outside of the corpus's
project, as torch does for a user's.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "Tensor", "add", "cat", "exp", "matmul", "maximum", "mul", "ones", "pair", "relu", "scalar", "sigmoid",
    "softmax", "sqrt", "stack", "sub", "tanh", "tensor", "where",
]

try:
    import torch
except ImportError:
    from stand_in import (
        Tensor, add, cat, exp, matmul, maximum, mul, ones, relu, scalar, sigmoid, softmax, sqrt, stack, sub,
        tanh, where,
    )
else:
    from torch import (
        Tensor, add, cat, exp, matmul, maximum, mul, relu, sigmoid, softmax, sqrt, stack, sub, tanh, where,
    )

    def ones() -> Any:
        """A square matrix of ones."""
        return torch.ones(4, 4)

    def scalar() -> Any:
        """A tensor without dimensions, which can be compared and branched on."""
        return torch.tensor(1.0)


def tensor() -> Any:
    """One input."""
    return ones()


def pair() -> tuple[Any, Any]:
    """Two inputs."""
    return ones(), ones()
