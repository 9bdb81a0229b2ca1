"""What the globals of the project's modules held at one moment, so that a later moment can be compared with it."""

from __future__ import annotations

import array
import collections
import contextlib
import functools
import logging
import pathlib
import random
import re
import sys
import threading
import types
import weakref
import zlib
from typing import TYPE_CHECKING, Any

from profile_neuron.worker import torch_host
from profile_neuron.worker.failures import describe

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_OBJECTS_LIMIT = 200_000
# What Python and its warnings note in a module, which no code of the user depends on.
_NOTES = frozenset(
    {
        "__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__path__",
        "__spec__", "__warningregistry__",
    }
)  # fmt: skip
_CLASS_NOTES = frozenset({"__dict__", "__weakref__", "__module__", "__firstlineno__", "_abc_impl"})
_VALUES = (int, str, bytes, range, slice)
_PLAIN = (int, str, bytes, float)
# Whose representation says all.
_WRITTEN = frozenset({"datetime", "decimal", "fractions", "ipaddress", "uuid", "zoneinfo"})
# What never changes, or whose state is not the user's.
_FIXED = (
    types.BuiltinFunctionType, types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodDescriptorType,
    types.ModuleType, types.WrapperDescriptorType, types.MethodWrapperType, types.ClassMethodDescriptorType,
    types.GenericAlias, re.Pattern, type(int | str),
)  # fmt: skip
_HEAP_TYPE = 1 << 9
_POINTER_BYTES = object.__basicsize__ // 2


class Picture:
    """Per global name, in the order of the modules, what it holds in a form that compares."""

    def __init__(self, modules: Mapping[str, types.ModuleType], main: str) -> None:
        self._parts: dict[str, list[Any]] = {}
        # What in it cannot be compared, so that this equals no other picture; empty where all can.
        self.doubt = ""
        painter = _Painter(modules)
        for name, module in modules.items():
            for key, value in list(vars(module).items()):
                if key not in _NOTES and not torch_host.is_name_of_compiled(key):
                    label = key if name == main else f"{name}.{key}"
                    try:
                        self._parts[label] = painter.paint(key, value)
                    except _Unknown as unknown:
                        self.doubt = f"{label} holds {unknown}, which cannot be compared"
                        return
                    except Exception as error:  # noqa: BLE001 - objects of the user's may raise anything
                        self.doubt = f"{label} cannot be compared ({describe(error)})"
                        return

    def difference(self, later: Picture) -> str:
        """The first name that holds something else in a later picture; empty where all is as it was."""
        for name, part in self._parts.items():
            if later._parts.get(name) != part:
                return name
        return next((name for name in later._parts if name not in self._parts), "")


class _Unknown(Exception):
    """Names the kind of object whose state cannot be seen."""


class _Same:
    """An object by identity; kept from being replaced by another one in the same place of memory."""

    __slots__ = ("_strong", "_weak")

    def __init__(self, item: object) -> None:
        self._weak: weakref.ref[Any] | None = None
        self._strong: object = None
        try:
            self._weak = weakref.ref(item)
        except TypeError:
            self._strong = item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._item() is other._item() and self._item() is not None

    __hash__ = None  # type: ignore[assignment]

    def _item(self) -> object:
        return self._strong if self._weak is None else self._weak()


class _Painter:
    """Walks objects, each once, in an order that depends on nothing but them."""

    def __init__(self, modules: Mapping[str, types.ModuleType]) -> None:
        self._modules = modules
        # Names of objects by identity, and the objects, which may exist for this walk only.
        self._seen: dict[int, tuple[str, int]] = {}
        self._held: list[object] = []

    def paint(self, name: str, value: object) -> list[Any]:
        """What a name holds. Raises _Unknown where an object's state cannot be seen."""
        found: list[Any] = []
        pending: list[object] = [value]
        while pending:
            item = pending.pop()
            kind = type(item)
            if item is None or kind in (bool, type(...), type(NotImplemented)):
                found.append(item)
            elif kind in _VALUES:
                found.append((kind.__name__, item))
            elif kind in (float, complex):
                found.append((kind.__name__, repr(item)))
            elif id(item) in self._seen:
                found.append(("seen", *self._seen[id(item)]))
            else:
                self._seen[id(item)] = (name, len(found))
                self._held.append(item)
                if len(self._held) > _OBJECTS_LIMIT:
                    raise _Unknown(f"more than {_OBJECTS_LIMIT} objects")
                inner = list(self._look_at(item, kind, found))
                pending += reversed(inner)
        return found

    def _look_at(self, item: Any, kind: type, found: list[Any]) -> Iterator[object]:
        """Append what an object is itself; gives what it holds."""
        if kind is types.FunctionType:
            yield from self._function(item, found)
        elif issubclass(kind, type):
            yield from self._class(item, found)
        elif torch_host.is_tensor(item):
            facts, held = torch_host.tensor_facts(item)
            if facts is None:
                raise _Unknown(f"a tensor of {kind.__name__}")
            found += (_Same(item), facts)
            yield from held
        elif issubclass(kind, _FIXED) or kind is object or torch_host.is_fixed(item):
            found.append(_Same(item))
        elif issubclass(kind, (dict, types.MappingProxyType, list, tuple, set, frozenset, collections.deque)):
            yield from self._container(item, kind, found)
        elif issubclass(kind, _PLAIN):
            base: Any = next(base for base in kind.__mro__ if base in _PLAIN)
            found += (_Same(kind), base.__repr__(item))
            yield from self._attributes(item)
        else:
            yield from self._object(item, kind, found)

    def _function(self, item: types.FunctionType, found: list[Any]) -> Iterator[object]:
        found.append(_Same(item))
        compiled = torch_host.what_is_compiled(item)
        if compiled is not None:
            yield compiled
            return
        if self._is_of_a_library(item):
            return
        found += (_Same(item.__code__), item.__doc__)
        yield from (item.__defaults__, item.__kwdefaults__, item.__dict__)
        yield from _cells(item.__closure__)

    def _is_of_a_library(self, item: types.FunctionType) -> bool:
        """Whether a function is what a module outside of the project has under its name."""
        if item.__module__ in self._modules:
            return False
        return getattr(sys.modules.get(item.__module__), item.__name__, None) is item

    def _class(self, item: type, found: list[Any]) -> Iterator[object]:
        found.append(_Same(item))
        if item.__module__ in self._modules:
            found.append([_Same(base) for base in item.__bases__])
            for key, value in list(type.__getattribute__(item, "__dict__").items()):
                if key not in _CLASS_NOTES:
                    found.append(key)
                    yield value

    def _container(self, item: Any, kind: type, found: list[Any]) -> Iterator[object]:
        found += (_Same(kind), len(item))
        if issubclass(kind, (dict, types.MappingProxyType)):
            for key, value in list((dict if issubclass(kind, dict) else kind).items(item)):
                yield key
                yield value
            if issubclass(kind, collections.defaultdict):
                yield item.default_factory
        else:
            base: Any = next(base for base in kind.__mro__ if base in _SEQUENCES)
            yield from list(base.__iter__(item))
        yield from self._attributes(item)

    def _object(self, item: Any, kind: type, found: list[Any]) -> Iterator[object]:
        found.append(_Same(kind))
        if issubclass(kind, (staticmethod, classmethod)):
            yield from (item.__func__, getattr(item, "__dict__", None))
        elif issubclass(kind, property):
            found.append(item.__doc__)
            yield from (item.fget, item.fset, item.fdel)
        elif kind is types.MethodType:
            yield from (item.__self__, item.__func__)
        elif issubclass(kind, functools.partial):
            yield from (item.func, item.args, item.keywords, item.__dict__)
        elif kind is functools._lru_cache_wrapper:
            found.append(tuple(item.cache_info()))
            yield from (item.__wrapped__, {key: value for key, value in vars(item).items() if key != "__wrapped__"})
        elif kind is types.CellType:
            yield from _cells((item,))
        elif issubclass(kind, weakref.ref):
            yield item()
        elif issubclass(kind, (bytearray, array.array, memoryview)):
            found.append(zlib.crc32(item))
        elif issubclass(kind, logging.Logger):
            found += (_Same(item), item.level, item.disabled, item.propagate, [_Same(one) for one in item.handlers])
        elif issubclass(kind, pathlib.PurePath) or kind.__module__ in _WRITTEN:
            found.append(repr(item))
        elif issubclass(kind, random.Random):
            yield item.getstate()
        elif kind is _LOCK:
            found.append(item.locked())
        elif kind is _RLOCK:
            found.append(repr(item))
        elif any(item is stream for stream in (sys.stdin, sys.stdout, sys.stderr)):
            found.append(_Same(item))
        elif kind.__module__.partition(".")[0] == "numpy":
            yield from self._of_numpy(item, kind, found)
        elif (compiled := torch_host.what_is_compiled(item)) is not None:
            yield compiled
        elif (facts := torch_host.object_facts(item)) is not None:
            found.append(facts)
        elif _hides_nothing(kind):
            yield from self._attributes(item)
        else:
            raise _Unknown(f"a {kind.__qualname__}")

    def _of_numpy(self, item: Any, kind: type, found: list[Any]) -> Iterator[object]:
        name = kind.__name__
        if name == "ndarray":
            if item.dtype.hasobject:
                raise _Unknown("an array of objects")
            found += (item.shape, item.strides, str(item.dtype), _checksum(item))
        elif name == "Generator":
            yield item.bit_generator.state
        elif name == "RandomState":
            yield item.get_state(legacy=False)
        elif hasattr(item, "dtype") and hasattr(item, "tobytes"):
            found += (str(item.dtype), item.tobytes())
        elif name == "ufunc" or "dtype" in kind.__qualname__.lower():
            found.append(_Same(item))
        else:
            raise _Unknown(f"a {kind.__qualname__} of numpy")

    def _attributes(self, item: object) -> Iterator[object]:
        """What an object of a class made in Python keeps in its dictionary and slots."""
        with contextlib.suppress(AttributeError):
            yield object.__getattribute__(item, "__dict__")
        for owner in type(item).__mro__:
            for name, slot in list(vars(owner).items()):
                if type(slot) is types.MemberDescriptorType and owner.__flags__ & _HEAP_TYPE:
                    try:
                        yield slot.__get__(item)
                    except AttributeError:
                        # Not yet set.
                        yield name


_LOCK, _RLOCK = type(threading.Lock()), type(threading.RLock())
_SEQUENCES = frozenset({list, tuple, set, frozenset, collections.deque})


def _cells(cells: Collection[types.CellType] | None) -> Iterator[object]:
    for cell in cells or ():
        try:
            yield cell.cell_contents
        except ValueError:
            # Not yet filled.
            yield _LOCK


def _checksum(item: Any) -> int:
    try:
        return zlib.crc32(item.data.cast("B"))
    except (ValueError, TypeError, BufferError):
        # Not contiguous, or of a kind that no buffer can have.
        return zlib.crc32(item.tobytes())


def _hides_nothing(kind: type) -> bool:
    """Whether all that an object of this class holds is in its dictionary and slots, and nothing in C."""
    if not kind.__flags__ & _HEAP_TYPE:
        return kind is types.SimpleNamespace
    slots = sum(
        type(slot) is types.MemberDescriptorType for owner in kind.__mro__ for slot in list(vars(owner).values())
    )
    own = slots + (kind.__weakrefoffset__ > 0) + (kind.__dictoffset__ > 0)
    return kind.__basicsize__ <= object.__basicsize__ + own * _POINTER_BYTES
