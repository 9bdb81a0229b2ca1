"""The operators of the corpus: torch's own, or their stand-ins where torch cannot be imported.

Each is exactly one top-level operator in a profile of torch 2.13. This file lies outside of the corpus's
project, as torch does for a user's.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

try:
    _source: Any = import_module("torch")
except ImportError:
    _source = import_module("stand_in")

Tensor = _source.Tensor
add = _source.add
cat = _source.cat
exp = _source.exp
matmul = _source.matmul
mul = _source.mul
relu = _source.relu
sigmoid = _source.sigmoid
softmax = _source.softmax
sqrt = _source.sqrt
stack = _source.stack
sub = _source.sub
tanh = _source.tanh
where = _source.where


def ones() -> Any:
    """A square matrix of ones."""
    return _source.ones(4, 4)


def scalar() -> Any:
    """A tensor without dimensions, which can be compared and branched on."""
    return _source.tensor(1.0)


def tensor() -> Any:
    """One input."""
    return ones()


def pair() -> tuple[Any, Any]:
    """Two inputs."""
    return ones(), ones()
