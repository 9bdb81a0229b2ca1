"""Dataclasses to plain maps, lists and scalars and back, for the wire and the JSON of a run folder."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, TypeVar

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Dataclasses as dicts and tuples as lists, all the way down."""
    if dataclasses.is_dataclass(value):
        return {name: to_plain(getattr(value, name)) for name, _ in _fields_of(type(value))}
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    return value


def from_plain(kind: type[T], plain: Any) -> T:
    """A dataclass from a dict; unknown fields are ignored. Raises TypeError for a value of the wrong type."""
    if not isinstance(plain, dict):
        raise TypeError(f"{kind.__name__} is not a map")
    known = _fields_of(kind)
    return kind(**{name: _value(hint, plain[name], name) for name, hint in known if name in plain})


# Resolving the hints of a class costs more than converting one of its objects.
_fields_by_type: dict[Any, tuple[tuple[str, Any], ...]] = {}


def _fields_of(kind: Any) -> tuple[tuple[str, Any], ...]:
    known = _fields_by_type.get(kind)
    if known is None:
        hints = typing.get_type_hints(kind)
        known = _fields_by_type[kind] = tuple((item.name, hints[item.name]) for item in dataclasses.fields(kind))
    return known


def _value(hint: Any, plain: Any, name: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return from_plain(typing.cast("type[Any]", hint), plain)
    origin = typing.get_origin(hint)
    if origin is tuple:
        (inner, _) = typing.get_args(hint)
        if isinstance(plain, list):
            return tuple(_value(inner, item, name) for item in plain)
    elif origin is typing.Literal:
        if plain in typing.get_args(hint):
            return plain
    elif origin in (typing.Union, types.UnionType):
        if plain is None:
            return None
        (inner,) = (item for item in typing.get_args(hint) if item is not type(None))
        return _value(inner, plain, name)
    elif isinstance(plain, hint) and not (isinstance(plain, bool) and hint is not bool):
        return plain
    elif hint is float and isinstance(plain, int):
        return float(plain)
    raise TypeError(f"field {name} holds {plain!r:.40}")
