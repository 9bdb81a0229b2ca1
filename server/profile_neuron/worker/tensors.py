"""Tensors without torch's ways to intervene: what one is like, and another one like it."""

from __future__ import annotations

import contextlib
import math
import sys
from typing import TYPE_CHECKING, Any

from profile_neuron.core.recording import CannotRecordError, TensorFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# As many numbers are looked at at once, so that a large tensor needs little memory beside its own.
_PIECE = 1 << 24


def short_text(value: Any) -> str | None:
    """A tensor as float32[8, 2048], with device and strides where they are unusual; None for anything else."""
    if not is_tensor(value):
        return None
    import torch

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


def is_tensor(value: object) -> bool:
    """Whether something is a tensor; imports nothing for it, since a program without torch has none."""
    kind = getattr(sys.modules.get("torch"), "Tensor", None)
    return kind is not None and issubclass(type(value), kind)


def dtype_name(dtype: Any) -> str:
    """float32 for torch.float32."""
    return str(dtype).removeprefix("torch.")


def tensor_facts(value: Any) -> TensorFacts:
    """What a tensor is like. Raises CannotRecordError for a kind that is not kept."""
    import torch

    kind = type(value)
    if kind not in (torch.Tensor, torch.nn.Parameter):
        raise CannotRecordError(f"a tensor of class {kind.__module__}.{kind.__qualname__}")
    with _alone():
        transformed = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None)
        if transformed is not None and transformed(value):
            raise CannotRecordError("a tensor inside of a function transform")
        if value.is_nested:
            raise CannotRecordError("a nested tensor")
        if value.layout is not torch.strided:
            raise CannotRecordError(f"a tensor of layout {str(value.layout).removeprefix('torch.')}")
        if value.is_quantized:
            raise CannotRecordError("a quantized tensor")
        resolved = _resolved(value)
        return TensorFacts(
            shape=tuple(resolved.shape),
            stride=tuple(resolved.stride()),
            dtype=dtype_name(value.dtype),
            device=str(value.device),
            requires_grad=value.requires_grad,
            is_leaf=value.is_leaf,
            is_parameter=kind is torch.nn.Parameter,
            **_statistics(resolved),
        )


def save_contents(tensors: Sequence[Any], path: str) -> None:
    """Keep what tensors hold, in plain tensors of their storage by their number."""
    import torch

    contents = {}
    with _alone():
        for number, value in enumerate(map(_resolved, tensors)):
            if value.device.type != "meta":
                whole = torch.empty(0, dtype=value.dtype, device=value.device)
                whole.set_(value.untyped_storage(), value.storage_offset(), (_span(value.shape, value.stride()),), (1,))
                contents[number] = whole.cpu().clone()
        torch.save(contents, path)


def load_contents(path: str) -> Mapping[int, Any]:
    """What save_contents kept. Raises ValueError where it cannot be read."""
    import torch

    try:
        contents: Mapping[int, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file leads to errors of every kind
        raise ValueError(f"what the tensors held cannot be read: {error!r:.200}") from error
    return contents


def generator() -> Any:
    """Random numbers of our own, the same ones each time."""
    import torch

    return torch.Generator(device="cpu").manual_seed(0)


def like(facts: TensorFacts, numbers: Any, content: Any, warn: Callable[[str], None]) -> Any:
    """A tensor with these facts, of its content or else of random numbers in its range.

    numbers: as generator gives it. content: as load_contents gives it, or None.
    """
    import torch

    dtype = getattr(torch, facts.dtype)
    with _alone():
        if facts.device == "meta":
            made = torch.empty_strided(facts.shape, facts.stride, dtype=dtype, device="meta")
        else:
            span = _span(facts.shape, facts.stride)
            flat = content if content is not None else _numbers(facts, dtype, span, numbers)
            flat = _moved(flat, facts.device, warn)
            # Not a view of another tensor, which in-place operations would treat differently.
            made = torch.empty(0, dtype=dtype, device=flat.device)
            made.set_(flat.untyped_storage(), 0, facts.shape, facts.stride)
    if facts.is_parameter:
        return torch.nn.Parameter(made, requires_grad=facts.requires_grad)
    if not facts.requires_grad:
        return made
    made.requires_grad_()
    if facts.is_leaf:
        return made
    # Of what was computed from others, in-place operations are allowed.
    with torch.enable_grad():
        computed = made.clone()
    return computed if computed.stride() == made.stride() else made


def torch_value(name: str, content: Any) -> object:
    """A dtype, device or Size. Raises ValueError for anything else."""
    import torch

    match name, content:
        case "Size", list():
            return torch.Size(content)
        case "device", str():
            return torch.device(content)
        case "dtype", str() if isinstance(found := getattr(torch, dtype_name(content), None), torch.dtype):
            return found
    raise ValueError(f"torch has no {name} {content!r:.40}")


def module_facts(value: Any) -> tuple[bool, str, str] | None:
    """Mode of a module, with dtype and device where its floating parameters share them; None for what is none."""
    kind = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    if kind is None or not issubclass(type(value), kind):
        return None
    # Not by the object's own methods, which may be overridden.
    parameters = [item for item in kind.parameters(value) if item.is_floating_point()]
    dtypes = {dtype_name(item.dtype) for item in parameters}
    devices = {str(item.device) for item in parameters}
    training = bool(vars(value).get("training", True))
    return training, dtypes.pop() if len(dtypes) == 1 else "", devices.pop() if len(devices) == 1 else ""


def set_module(value: Any, training: bool, dtype: str, device: str, warn: Callable[[str], None]) -> None:
    """Give a module the mode, dtype and device that another one had."""
    import torch

    if dtype:
        value.to(dtype=getattr(torch, dtype))
    if device and device != "cpu":
        try:
            value.to(device=torch.device(device))
        except (RuntimeError, AssertionError, NotImplementedError):
            warn(f"the recorded module was on {device}, which is not there; it is on the CPU instead")
    value.train(training)


def without_compiler(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same function for code that torch.compile runs: it would compile ours too."""
    dynamo: Any = sys.modules.get("torch._dynamo")
    disable = getattr(dynamo, "disable", None)
    return call if disable is None else disable(call)


@contextlib.contextmanager
def same_randomness() -> Iterator[None]:
    """Torch's own random numbers, the same ones each time, and afterwards as if nobody had used any."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Nothing of the user's sees what is done: no mode, no subclass, no gradient."""
    import torch
    from torch.utils import _python_dispatch

    no_modes = getattr(_python_dispatch, "_disable_current_modes", contextlib.nullcontext)
    with no_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield


def _resolved(value: Any) -> Any:
    return value.detach().resolve_conj().resolve_neg()


def _span(shape: Sequence[int], stride: Sequence[int]) -> int:
    """How many numbers of its storage a tensor reaches over."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def _statistics(value: Any) -> dict[str, Any]:
    import torch

    if value.device.type == "meta" or not value.numel():
        return {}
    for dimension, step in enumerate(value.stride()):
        if step == 0:
            # Expanded: the same numbers over and over.
            value = value.narrow(dimension, 0, 1)
    # On a device each of the operations below might have to be compiled.
    value = value.cpu()
    if value.is_complex():
        value = torch.view_as_real(value)
    pieces = value.reshape(-1).split(_PIECE)
    if value.dtype is torch.bool:
        return {"true_share": sum(int(piece.sum()) for piece in pieces) / value.numel()}
    if not value.is_floating_point():
        wide = [piece.to(torch.int64) for piece in pieces]
        return {
            "low": str(min(int(piece.min()) for piece in wide)),
            "high": str(max(int(piece.max()) for piece in wide)),
        }
    return _float_statistics(pieces, value.numel())


def _float_statistics(pieces: Sequence[Any], count: int) -> dict[str, Any]:
    import torch

    low, high, total, finite, nan, inf, minus_inf = math.inf, -math.inf, 0.0, 0, 0, 0, 0
    for piece in pieces:
        wide = piece if piece.dtype is torch.float64 else piece.to(torch.float32)
        good = wide[torch.isfinite(wide)]
        if good.numel() < wide.numel():
            nan += int(wide.isnan().sum())
            inf += int(wide.isposinf().sum())
            minus_inf += int(wide.isneginf().sum())
        if good.numel():
            low, high = min(low, float(good.min())), max(high, float(good.max()))
            total += float(good.sum(dtype=torch.float64))
            finite += good.numel()
    found: dict[str, Any] = {"nan_share": nan / count, "inf_share": inf / count, "minus_inf_share": minus_inf / count}
    if finite:
        found |= {"low": repr(low), "high": repr(high), "mean": total / finite if math.isfinite(total) else None}
    return found


def _numbers(facts: TensorFacts, dtype: Any, count: int, numbers: Any) -> Any:
    """Random numbers in the range of a tensor, evenly spread."""
    import torch

    cpu = {"device": "cpu", "generator": numbers}
    if dtype is torch.bool:
        return torch.rand(count, **cpu) < facts.true_share
    if not facts.low:
        return torch.zeros(count, dtype=dtype, device="cpu")
    if not dtype.is_floating_point and not dtype.is_complex:
        low, high = int(facts.low), int(facts.high)
        # The greatest of all 64-bit numbers has none above it that could be named as the end.
        return torch.randint(low, min(high + 1, (1 << 63) - 1) if low < high else low + 1, (count,), **cpu).to(dtype)
    low_float, high_float = float(facts.low), float(facts.high)
    wide = torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32
    parts = torch.rand(count * (2 if dtype.is_complex else 1), dtype=wide, **cpu)
    # Both ends weighted: their difference may be more than a number can hold.
    made = (low_float * (1 - parts) + high_float * parts).clamp_(low_float, high_float)
    if facts.nan_share or facts.inf_share or facts.minus_inf_share:
        lot = torch.rand(made.shape, **cpu)
        limit = 0.0
        for share, special in (
            (facts.nan_share, math.nan),
            (facts.inf_share, math.inf),
            (facts.minus_inf_share, -math.inf),
        ):
            made[(lot >= limit) & (lot < limit + share)] = special
            limit += share
    return torch.view_as_complex(made.view(-1, 2)).to(dtype) if dtype.is_complex else made.to(dtype)


def _moved(flat: Any, device: str, warn: Callable[[str], None]) -> Any:
    import torch

    if device == "cpu":
        return flat
    try:
        return flat.to(torch.device(device))
    except (RuntimeError, AssertionError, NotImplementedError):
        warn(f"the recorded inputs were on {device}, which is not there; they are on the CPU instead")
        return flat
