"""What decorated objects are made around: functions inside of wrappers, accessors and closures."""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# How far a wrapped function is looked for inside the objects that wrap it.
_DEPTH_LIMIT = 20
_OBJECTS_LIMIT = 100
# Where wrappers keep what they wrap, the most specific first.
_ATTRIBUTES = ("_torchdynamo_orig_callable", "__wrapped__", "__func__", "func", "fget", "_orig_mod")


def innermost_function(value: object) -> types.FunctionType | None:
    """The function that a decorated object is made around, by the attributes that wrappers leave."""
    for _ in range(_DEPTH_LIMIT):
        inner = _inner(value)
        if inner is None:
            break
        value = inner
    return value if isinstance(value, types.FunctionType) else None


def definition(value: object, path: str, first_line: int) -> types.FunctionType | None:
    """The function of a place in a file, also inside a wrapper without an attribute that leads to it."""
    for item in _inside(value):
        if isinstance(item, types.FunctionType):
            code = item.__code__
            if code.co_firstlineno == first_line and code.co_filename == path:
                return item
    return None


def contains(value: object, function: types.FunctionType) -> bool:
    """Whether a function is inside an object."""
    return any(item is function for item in _inside(value))


def wrapped_chain(value: object) -> tuple[object, ...]:
    """An object and what it wraps, outermost first."""
    chain = [value]
    while len(chain) < _DEPTH_LIMIT:
        inner = _inner(chain[-1])
        if inner is None:
            break
        chain.append(inner)
    return tuple(chain)


def _inside(value: object) -> Iterator[object]:
    """An object and what it is made around: wrapper attributes, accessors, closures."""
    pending: list[object] = [value]
    seen: set[int] = set()
    while pending and len(seen) < _OBJECTS_LIMIT:
        item = pending.pop(0)
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, property):
            pending += [accessor for accessor in (item.fget, item.fset, item.fdel) if accessor is not None]
        elif isinstance(item, types.FunctionType):
            pending += _closed_over(item)
        inner = _inner(item)
        if inner is not None:
            pending.append(inner)


def _closed_over(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:
            # Not yet filled, as in a function that refers to itself.
            continue
        if callable(content) or isinstance(content, (classmethod, staticmethod)):
            yield content


def _inner(value: object) -> object | None:
    if isinstance(value, property):
        return value.fget or value.fset or value.fdel
    for attribute in _ATTRIBUTES:
        try:
            inner: object = inspect.getattr_static(value, attribute)
        except AttributeError:
            continue
        if isinstance(inner, (types.MemberDescriptorType, types.GetSetDescriptorType, property)):
            inner = getattr(value, attribute, None)
        if inner is not None and (callable(inner) or hasattr(inner, "__get__")):
            return inner
    return None
