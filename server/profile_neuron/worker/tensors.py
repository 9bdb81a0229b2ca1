"""Tensors without torch's ways to intervene: what one is like, as text."""

from __future__ import annotations

from typing import Any


def short_text(value: Any) -> str | None:
    """A tensor as float32[8, 2048], with device and strides where they are unusual; None for anything else."""
    import torch

    if not issubclass(type(value), torch.Tensor):
        return None
    # A subclass and a mode of the user's would be asked what the shape is.
    with torch._C.DisableTorchFunction():
        try:
            text = f"{dtype_name(value.dtype)}[{', '.join(map(str, value.shape))}]"
            if value.layout is not torch.strided:
                return f"{str(value.layout).removeprefix('torch.')} {text}"
            device = "" if value.device.type == "cpu" else f" {value.device}"
            strides = "" if value.is_contiguous() else f" strides ({', '.join(map(str, value.stride()))})"
        except (RuntimeError, NotImplementedError, TypeError):
            # Some kinds have no shape, such as nested ones.
            return type(value).__name__
    return f"{text}{device}{strides}"


def dtype_name(dtype: Any) -> str:
    """float32 for torch.float32."""
    return str(dtype).removeprefix("torch.")
