"""The inputs of a call as one short line, such as x: float32[8, 2048], eps=1e-05; runs no code of the user's."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from profile_neuron.worker import tensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_WIDTH = 200
_DEPTH = 3
_ITEMS = 4
_TEXT_WIDTH = 30
# Longer numbers are slow to write, or refused.
_INT_BITS = 256


def signature_text(names: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """Arguments with their names, by position as far as there are names; empty for none."""
    parts = [_named(name, value) for name, value in zip(names, args, strict=False)]
    parts += [describe(value) for value in args[len(names) :]]
    parts += [_named(name, value) for name, value in kwargs.items()]
    text = ", ".join(parts)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def describe(value: object) -> str:
    """A plain value as it is written, a tensor as type and shape, anything else as its class."""
    return _text(value, 0)[0]


def _named(name: str, value: object) -> str:
    text, is_value = _text(value, 0)
    return f"{name}={text}" if is_value else f"{name}: {text}"


def _text(value: Any, depth: int) -> tuple[str, bool]:
    """The text, and whether it is a value rather than what kind of thing it is.

    By the exact class, which a value cannot be asked for wrongly: a subclass may say whatever it likes of itself.
    """
    kind = type(value)
    if kind is int and value.bit_length() > _INT_BITS:
        return "int", False
    if value is None or value is ... or kind in (bool, int, float, complex, range):
        return repr(value), True
    if kind in (str, bytes):
        return repr(value[:_TEXT_WIDTH]) + ("…" if len(value) > _TEXT_WIDTH else ""), True
    tensor = tensors.short_text(value)
    if tensor is not None:
        return tensor, False
    if kind.__module__ == "torch" and kind.__name__ in ("dtype", "device"):
        return str(value).removeprefix("torch."), True
    if issubclass(kind, Enum):
        return f"{kind.__name__}.{vars(value).get('_name_')}", True
    if kind is slice:
        return f"slice({', '.join(_text(item, depth + 1)[0] for item in (value.start, value.stop, value.step))})", True
    text = _container(value, kind, depth)
    return (kind.__name__, False) if text is None else (text, True)


def _container(value: Any, kind: type, depth: int) -> str | None:
    """The text of one of Python's own containers; None for anything else."""
    if (kind.__module__ == "torch" and kind.__name__ == "Size") or kind is tuple:
        return f"({_items(value, depth)}{',' if len(value) == 1 else ''})"
    names = getattr(kind, "_fields", None)
    if issubclass(kind, tuple) and isinstance(names, tuple):
        pairs = zip(names, tuple.__iter__(value), strict=False)
        return f"{kind.__name__}({_joined((f'{name}={_text(item, depth + 1)[0]}' for name, item in pairs), depth)})"
    if kind is list:
        return f"[{_items(value, depth)}]"
    if kind in (set, frozenset):
        return f"{{{_items(value, depth)}}}" if value else f"{kind.__name__}()"
    if kind is dict:
        pairs_of = (f"{_text(key, depth + 1)[0]}: {_text(item, depth + 1)[0]}" for key, item in value.items())
        return f"{{{_joined(pairs_of, depth)}}}"
    return None


def _items(values: Iterable[object], depth: int) -> str:
    return _joined((_text(item, depth + 1)[0] for item in values), depth)


def _joined(texts: Iterable[str], depth: int) -> str:
    """The first few of them, and none below a few containers in each other."""
    shown: list[str] = []
    for text in texts if depth < _DEPTH else ["…"]:
        if len(shown) == _ITEMS:
            shown.append("…")
            break
        shown.append(text)
    return ", ".join(shown)
