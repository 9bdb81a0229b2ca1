"""What the clock's cost is measured on: the same operators, one per line and four per line.

The tensors are so small that nothing but the cost of dispatching an operator is seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

TURNS = 20


def make_inputs() -> tuple[Tensor, Tensor]:
    import torch  # the caller has set its environment by now

    return torch.ones(4, 4), torch.full((4, 4), 0.5)


def one_per_line(x: Tensor, y: Tensor) -> Tensor:
    for _ in range(TURNS):
        x = x + y
        x = x * y
        x = x - y
        x = x.neg()
        x = x + y
        x = x * y
        x = x - y
        x = x.neg()
        x = x + y
        x = x * y
        x = x - y
        x = x.neg()
        x = x + y
        x = x * y
        x = x - y
        x = x.neg()
        x = x + y
        x = x * y
        x = x - y
        x = x.neg()
    return x


def four_per_line(x: Tensor, y: Tensor) -> Tensor:
    for _ in range(TURNS):
        x = ((x + y) * y - y).neg()
        x = ((x + y) * y - y).neg()
        x = ((x + y) * y - y).neg()
        x = ((x + y) * y - y).neg()
        x = ((x + y) * y - y).neg()
    return x
