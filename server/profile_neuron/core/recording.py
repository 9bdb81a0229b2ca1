"""Recorded inputs of a function as JSON: which values can be kept, how they are made again, and why some are not.

Plain Python values are kept as they are, tensors by what they are like. Nothing is pickled: what a file says can
make values of Python's and torch's own types, and of enums, named tuples and dataclasses that can be imported.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import inspect
import json
import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from profile_neuron.core.plain import from_plain, to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

VERSION = 1

# Of one argument: how deep containers may lie in each other, how many values they may hold, how long a text may be.
_DEPTH = 20
_VALUES = 10_000
_TEXT = 1_000_000
_JSON_INT = 1 << 53


class CannotRecordError(Exception):
    """A value that is not kept; its text says what it is, as in: an object of class a.B."""


@dataclass(frozen=True, slots=True)
class ClassName:
    """A class that can be imported."""

    # Empty for the module that was run as the program, which is the one of the function.
    module: str
    qualname: str


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What a tensor was like."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    # As in torch: float32, cpu, neuron:0.
    dtype: str
    device: str
    requires_grad: bool
    is_leaf: bool
    is_parameter: bool
    # Least and greatest finite number as text, since JSON has no long ones; empty where there is none.
    low: str = ""
    high: str = ""
    # Of the finite numbers.
    mean: float | None = None
    # How much of it is not finite, and how much of a boolean one is true.
    nan_share: float = 0.0
    inf_share: float = 0.0
    minus_inf_share: float = 0.0
    true_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call."""

    name: str
    # With a position of its own, one of *args, or given by name.
    kind: Literal["positional", "rest", "keyword"]
    # As encode gives it, as JSON text; empty where it is not kept, and then what it is.
    value: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """How the object was made that a method was called on."""

    class_name: ClassName
    # What __init__ got.
    arguments: tuple[Argument, ...]
    # Why it cannot be made again, as a sentence without an end; empty if it can.
    problem: str = ""
    # For a module of torch: its mode, and dtype and device where all parameters share them.
    is_module: bool = False
    training: bool = True
    dtype: str = ""
    device: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """What a function was called with when it was first called in a program of the user's."""

    version: int
    path: str
    qualname: str
    # Seconds since 1970.
    recorded_s: float
    # The digest of its parameters, and they themselves for a sentence.
    interface: str
    parameters: str
    arguments: tuple[Argument, ...]
    # What the numbers of tensors in arguments mean.
    tensors: tuple[TensorFacts, ...]
    instance: Instance | None
    # Name of the file beside this one with what the tensors held; empty where that was not kept.
    data: str = ""


def file_name(path: str, qualname: str) -> str:
    """The name of a function's recording. path: without symbolic links."""
    # No path and no name holds a zero.
    return f"{hashlib.sha256(f'{path}{chr(0)}{qualname}'.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def to_bytes(recording: Recording) -> bytes:
    """As ASCII, which also carries paths whose bytes are no text."""
    return json.dumps(to_plain(recording)).encode("ascii")


def from_bytes(content: bytes) -> Recording:
    """Raises ValueError with the reason for what is none of this version."""
    try:
        plain = json.loads(content)
        if isinstance(plain, dict) and plain.get("version") != VERSION:
            raise ValueError(f"they are of version {plain.get('version')!r:.20}, this program writes {VERSION}")
        return from_plain(Recording, plain)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def problem(arguments: Iterable[Argument], owner: str) -> str:
    """Why arguments of owner cannot be made again, by the first that was not kept; empty if all were."""
    for argument in arguments:
        if argument.problem:
            return f"argument {argument.name} of {owner} is or holds {argument.problem}, which is not recorded"
    return ""


def interface(function: Callable[..., Any]) -> tuple[str, str]:
    """The digest of a function's parameters with their kinds and defaults, and they as (x, y=…)."""
    parameters = list(inspect.signature(function, follow_wrapped=False).parameters.values())
    parts = [f"{item.name}\n{item.kind.name}\n{_default(item.default)}" for item in parameters]
    shown = [item.replace(annotation=item.empty, default=item.empty) for item in parameters]
    text = ", ".join(
        f"{one}=…" if item.default is not item.empty else str(one) for one, item in zip(shown, parameters, strict=True)
    )
    return hashlib.sha256("\n\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16], f"({text})"


def encode(
    value: object, tensor_number: Callable[[object], int | None], class_name: Callable[[type], ClassName]
) -> Any:
    """A value in JSON's own types. Raises CannotRecordError.

    tensor_number: the number of a tensor, None for anything else. class_name: the name of a class that can be
    imported. Both raise CannotRecordError. Values are taken by their exact class, and none of their code is run.
    """
    return _Encoder(tensor_number, class_name).encode(value, 0)


def decode(
    plain: Any,
    tensor: Callable[[int], object],
    find_class: Callable[[ClassName], type],
    torch_value: Callable[[str, Any], object],
) -> Any:
    """The value that encode was given. torch_value makes a dtype, device or Size of its name and its text or list.

    Raises ValueError for what encode cannot have given.
    """

    def made(item: Any) -> Any:
        if item is None or isinstance(item, (bool, int, float, str)):
            return item
        if isinstance(item, list):
            return [made(one) for one in item]
        match item:
            case {"int": str(text)}:
                return int(text, 16)
            case {"float": str(text)}:
                return float(text)
            case {"complex": [real, imaginary]}:
                return complex(made(real), made(imaginary))
            case {"bytes": str(text)}:
                return base64.b64decode(text)
            case {"ellipsis": _}:
                return ...
            case {"tuple": list(items)}:
                return tuple(map(made, items))
            case {"set": list(items)}:
                return set(map(made, items))
            case {"frozenset": list(items)}:
                return frozenset(map(made, items))
            case {"slice": [start, stop, step]}:
                return slice(made(start), made(stop), made(step))
            case {"range": [int(start), int(stop), int(step)]}:
                return range(start, stop, step)
            case {"dict": list(items)}:
                return {made(key): made(one) for key, one in items}
            case {"tensor": int(number)}:
                return tensor(number)
            case {"torch": [str(name), content]}:
                return torch_value(name, content)
            case {"enum": [str(module), str(qualname), str(name)]}:
                return _kind(find_class(ClassName(module, qualname)), _is_enum)[name]
            case {"namedtuple": [str(module), str(qualname), list(items)]}:
                kind = _kind(find_class(ClassName(module, qualname)), _is_named_tuple)
                return tuple.__new__(kind, map(made, items))
            case {"dataclass": [str(module), str(qualname), list(items)]}:
                kind = _kind(find_class(ClassName(module, qualname)), _is_record)
                return _record(kind, [(str(name), made(one)) for name, one in items])
        raise ValueError(f"{item!r:.40} is no recorded value")

    return made(plain)


class _Encoder:
    def __init__(self, tensor_number: Callable[[object], int | None], class_name: Callable[[type], ClassName]) -> None:
        self._tensor_number = tensor_number
        self._class_name = class_name
        self._count = 0

    def encode(self, value: Any, depth: int) -> Any:
        self._count += 1
        if self._count > _VALUES:
            raise CannotRecordError(f"more than {_VALUES} values")
        if depth > _DEPTH:
            raise CannotRecordError(f"containers more than {_DEPTH} deep in each other")
        # Of its exact class: what a subclass is made of only its own code knows.
        kind = type(value)
        if value is None or kind is bool:
            return value
        if value is ...:
            return {"ellipsis": True}
        if kind is int:
            return value if -_JSON_INT < value < _JSON_INT else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is complex:
            return {"complex": [self.encode(value.real, depth), self.encode(value.imag, depth)]}
        if kind in (str, bytes):
            if len(value) > _TEXT:
                raise CannotRecordError(f"a {'text' if kind is str else 'bytes object'} of {len(value)} characters")
            return value if kind is str else {"bytes": base64.b64encode(value).decode("ascii")}
        number = self._tensor_number(value)
        if number is not None:
            return {"tensor": number}
        return self._container(value, kind, depth + 1)

    def _container(self, value: Any, kind: type, depth: int) -> Any:
        if kind is list:
            return self._all(value, depth)
        if kind in (tuple, set, frozenset):
            return {kind.__name__: self._all(value, depth)}
        if kind is dict:
            return {"dict": [self._all(pair, depth) for pair in value.items()]}
        if kind is slice:
            return {"slice": self._all((value.start, value.stop, value.step), depth)}
        if kind is range:
            return {"range": [value.start, value.stop, value.step]}
        if kind.__module__ == "torch" and kind.__name__ in ("dtype", "device", "Size"):
            return {"torch": [kind.__name__, list(value) if kind.__name__ == "Size" else str(value)]}
        if _is_enum(kind):
            name = vars(value).get("_name_")
            if name not in kind.__members__:  # type: ignore[attr-defined]
                raise CannotRecordError(f"several members of {kind.__qualname__} in one")
            return {"enum": [*self._name(kind), name]}
        if _is_named_tuple(kind):
            return {"namedtuple": [*self._name(kind), self._all(tuple.__iter__(value), depth)]}
        if _is_record(kind):
            fields = []
            for item in dataclasses.fields(kind):
                try:
                    fields.append([item.name, self.encode(object.__getattribute__(value, item.name), depth)])
                except AttributeError:
                    # Not set, as a field without default may be.
                    continue
            return {"dataclass": [*self._name(kind), fields]}
        raise CannotRecordError(f"an object of class {kind.__module__}.{kind.__qualname__}")

    def _all(self, values: Iterable[Any], depth: int) -> list[Any]:
        return [self.encode(item, depth) for item in values]

    def _name(self, kind: type) -> tuple[str, str]:
        found = self._class_name(kind)
        return found.module, found.qualname


def _is_enum(kind: type) -> bool:
    return issubclass(kind, Enum)


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and isinstance(vars(kind).get("_fields"), tuple) and kind.__bases__ == (tuple,)


def _is_record(kind: type) -> bool:
    """Whether a class is a dataclass and nothing else, so that its fields are all there is to it."""
    bases = kind.__mro__[:-1]
    return bool(bases) and all("__dataclass_fields__" in vars(base) for base in bases)


def _kind(kind: type, fits: Callable[[type], bool]) -> Any:
    if not isinstance(kind, type) or not fits(kind):
        raise ValueError(f"{kind!r:.80} is another kind of class now")
    return kind


def _record(kind: type, fields: Iterable[tuple[str, object]]) -> object:
    """A dataclass with its fields as they were; what its __init__ would do was done before they were kept."""
    made: object = object.__new__(kind)
    for name, value in fields:
        object.__setattr__(made, name, value)
    return made


def _default(value: object) -> str:
    if value is inspect.Parameter.empty:
        return ""

    def no_tensor(value: object) -> int | None:
        return None

    try:
        # By the last name only: in the program itself the module has another name.
        return json.dumps(encode(value, no_tensor, lambda kind: ClassName("", kind.__qualname__)))
    except CannotRecordError:
        return type(value).__qualname__
