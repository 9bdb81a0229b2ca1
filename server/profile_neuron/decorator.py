"""The mark on a function: keeps its options for the profiler and changes nothing when it is called.

Production code imports this module, so it loads nothing but the standard library's cheapest parts.
"""

from __future__ import annotations

import sys

# In place of typing's own, whose import costs more than all of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar, overload

    T = TypeVar("T")

# Where neither the decorator nor a setting says how many calls there are.
DEFAULT_WARMUP = 3
DEFAULT_REPEATS = 5

_MISSING: Any = object()


class Options:
    """What the decorator was given, checked; inputs and instance are callables that nobody has called yet."""

    __slots__ = ("fresh", "grad", "inputs", "instance", "name", "repeats", "warmup")

    def __init__(
        self,
        inputs: Callable[[], object] | Mapping[str, Callable[[], object]] | None,
        instance: Callable[[], object] | None,
        warmup: int | None,
        repeats: int | None,
        fresh: bool,
        grad: bool,
        name: str | None,
    ) -> None:
        self.inputs = inputs
        self.instance = instance
        self.warmup = warmup
        self.repeats = repeats
        self.fresh = fresh
        self.grad = grad
        self.name = name


# The worker sets this while it imports a file: it gets the decorated object, its options, and the frame
# that applied the decorator. Everywhere else it stays None and marking costs one comparison.
on_mark: Callable[[Any, Options, Any], None] | None = None


if TYPE_CHECKING:

    @overload
    def profile_neuron(fn: T, /) -> T: ...
    @overload
    def profile_neuron(
        *,
        inputs: Callable[[], object] | Mapping[str, Callable[[], object]] | None = None,
        instance: Callable[[], object] | None = None,
        warmup: int | None = None,
        repeats: int | None = None,
        fresh: bool = False,
        grad: bool = True,
        name: str | None = None,
    ) -> Callable[[T], T]: ...


def profile_neuron(
    fn: Any = _MISSING,
    /,
    *,
    inputs: Any = None,
    instance: Any = None,
    warmup: Any = None,
    repeats: Any = None,
    fresh: Any = False,
    grad: Any = True,
    name: Any = None,
    **unknown: Any,
) -> Any:
    """Mark a function for profiling, bare or with options; the very same object comes back.

    inputs: a callable that gives a tuple of positional arguments, a dict of keyword arguments or one value,
    or a dict of named callables of which the first is used.
    instance: for a method, a callable that gives the object it is called on.
    warmup, repeats: calls before and inside the profiled part; 3 and 5 where neither this nor a setting says.
    fresh: build the inputs before every call, for code that changes them in place.
    grad: False runs the calls under torch.no_grad().
    name: shown in place of the function's qualified name.
    Raises TypeError or ValueError, at the decorator's line, for an option it does not know or cannot use.
    """
    if unknown:
        raise TypeError(_unknown_option(next(iter(unknown))))
    options = Options(
        _inputs(inputs),
        _callable("instance", instance),
        _count("warmup", warmup, 0),
        _count("repeats", repeats, 1),
        _flag("fresh", fresh),
        _flag("grad", grad),
        _name(name),
    )
    if fn is _MISSING:

        def decorate(decorated: T) -> T:
            _mark(decorated, options)
            return decorated

        return decorate
    if isinstance(fn, (int, float, str, bytes, list, tuple, dict)):
        raise TypeError(
            f"profile_neuron got {fn!r:.40} where the function belongs; give options by name, "
            "for example @profile_neuron(warmup=3)"
        )
    _mark(fn, options)
    return fn


def _mark(decorated: object, options: Options) -> None:
    if on_mark is not None:
        on_mark(decorated, options, sys._getframe(2))


def _unknown_option(name: str) -> str:
    from difflib import get_close_matches  # only on the way to an error

    close = get_close_matches(name, Options.__slots__, n=1)
    known = f"did you mean {close[0]}=?" if close else f"it takes {', '.join(sorted(Options.__slots__))}"
    return f"profile_neuron has no option {name}=; {known}"


def _inputs(value: Any) -> Any:
    if value is None or callable(value):
        return value
    if not isinstance(value, dict):
        raise TypeError(
            f"profile_neuron option inputs= takes a function that builds the inputs, or a dict of named "
            f"functions, not {type(value).__name__}; write inputs=lambda: ..."
        )
    if not value:
        raise ValueError("profile_neuron option inputs= is an empty dict; give at least one named function")
    for key, factory in value.items():
        if not isinstance(key, str) or not callable(factory):
            raise TypeError(
                f"profile_neuron option inputs= has the entry {key!r:.40}, which is not a name with a function; "
                'write inputs={"small": lambda: ...}'
            )
    return value


def _callable(option: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise TypeError(
            f"profile_neuron option {option}= takes a function that builds it, not {type(value).__name__}; "
            f"write {option}=lambda: ..."
        )
    return value


def _count(option: str, value: Any, least: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"profile_neuron option {option}= takes a whole number, not {value!r:.40}")
    if value < least:
        raise ValueError(f"profile_neuron option {option}= must be at least {least}, not {value}")
    return value


def _flag(option: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"profile_neuron option {option}= takes True or False, not {value!r:.40}")
    return value


def _name(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"profile_neuron option name= takes a text, not {value!r:.40}")
    if value is not None and not value.strip():
        raise ValueError("profile_neuron option name= is empty; leave it out to use the function's own name")
    return value
