"""The backend of torch.compile: a compiled graph is one execution on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from torch_neuronx.native import library

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _one_execution(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Runs the operators of a graph by the device's own kernels, out of the profiler's sight."""
    shapes = [f"{item.dtype}{list(item.shape)}" for item in inputs if isinstance(item, torch.Tensor)]
    what = f"graph {graph.code.strip()} of {', '.join(shapes)}"

    def run(*arguments: Any) -> Any:
        with library.Region(what):
            return graph.forward(*arguments)

    return make_boxed_func(run)


neuron = aot_autograd(fw_compiler=_one_execution)
