"""New code in the living functions of a module: pairs of code objects, and where the old ones are in use."""

from __future__ import annotations

import gc
import sys
import types
from typing import TYPE_CHECKING, cast

from profile_neuron.core.replacement import Afresh

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from types import CodeType, FunctionType

    from profile_neuron.core.replacement import Replacement

# Of inspect.
_CO_OPTIMIZED = 1
# What makes a call a generator or a coroutine, which a decorator may have looked at: the flags of inspect.
_CO_KINDS = 0x20 | 0x80 | 0x100 | 0x200
# What holds suspended code, and where.
_SUSPENDED: dict[type, str] = {
    types.GeneratorType: "gi_code",
    types.CoroutineType: "cr_code",
    types.AsyncGeneratorType: "ag_code",
}

# What torch.compile makes of code after a graph break; it runs only from compiled code, which every run begins without.
_OF_COMPILED = "torch_dynamo_resume_in_"

# Old code objects with their new ones, by the identity of the old.
Pairs = dict[int, tuple["CodeType", "CodeType"]]


def pair_codes(old: CodeType, new: CodeType, replacement: Replacement) -> Pairs:
    """The code objects of two texts of a module that are in the same place, the changed functions' included.

    What is inside of a changed function has no pair: no import has made anything of it. Raises Afresh where the
    compiler made something else of the two texts than their trees say.
    """
    changed = {item.old_line: item.new_line for item in replacement.changed}
    pairs: Pairs = {}
    pending = [(old, new)]
    while pending:
        one, other = pending.pop()
        pairs[id(one)] = (one, other)
        is_function = bool(one.co_flags & _CO_OPTIMIZED)
        is_changed = is_function and one.co_name != "<lambda>" and one.co_firstlineno in changed
        if _outside(one) != _outside(other) or (not is_function and _inside(one) != _inside(other)):
            raise Afresh(f"the code of {one.co_name} cannot be compared")
        if is_changed:
            if changed[one.co_firstlineno] != other.co_firstlineno:
                raise Afresh(f"the code of {one.co_name} cannot be compared")
            continue
        inner, others = (tuple(_codes_in(code)) for code in (one, other))
        if len(inner) != len(others):
            raise Afresh(f"the code of {one.co_name} cannot be compared")
        pending += zip(inner, others, strict=True)
    return pairs


def put_in_place(pairs: Pairs, replacement: Replacement, path: str) -> None:
    """Give every living function of the old code the new one. Raises Afresh, before anything is changed, in doubt."""
    gc.collect()
    _check_threads(pairs)
    living = gc.get_objects()
    for item in [item for item in living if type(item) in _SUSPENDED]:
        _check_suspended(item, pairs)
    functions: list[tuple[FunctionType, CodeType]] = []
    for function in [item for item in living if type(item) is types.FunctionType]:
        if id(function.__code__) in pairs:
            functions.append((function, pairs[id(function.__code__)][1]))
        elif function.__code__.co_filename == path and not function.__code__.co_name.startswith(_OF_COMPILED):
            raise Afresh(f"{function.__qualname__} of an earlier run is still there")
    changed = {item.old_line for item in replacement.changed}
    documented = [(function, code) for function, code in functions if function.__code__.co_firstlineno in changed]
    texts = [(function, _docstring(code)) for function, code in documented if _is_documented_anew(function, code)]
    moved = list(_moved_classes(living, {function.__module__ for function, _ in functions}, replacement.lines))
    for function, code in functions:
        function.__code__ = code
    for function, text in texts:
        function.__doc__ = text
    for owner, line in moved:
        type.__setattr__(owner, "__firstlineno__", line)


def _outside(code: CodeType) -> tuple[object, ...]:
    """What a function's maker, its callers and its decorators may depend on."""
    return (
        code.co_name,
        code.co_freevars,
        code.co_flags & (_CO_OPTIMIZED | _CO_KINDS),
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
    )


def _inside(code: CodeType) -> tuple[object, ...]:
    """What a module or class body does, its lines left out."""
    constants = [
        # A class body of Python 3.13 begins by noting its line.
        "line" if type(item) is int and item == code.co_firstlineno else (type(item).__name__, repr(item))
        for item in code.co_consts
        if not isinstance(item, types.CodeType)
    ]
    return (code.co_names, code.co_varnames, code.co_cellvars, constants)


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    return (item for item in code.co_consts if isinstance(item, types.CodeType))


def _check_threads(pairs: Pairs) -> None:
    for frame in sys._current_frames().values():
        running: types.FrameType | None = frame
        while running is not None:
            if id(running.f_code) in pairs:
                raise Afresh(f"a thread is still in {running.f_code.co_name}")
            running = running.f_back


def _check_suspended(item: object, pairs: Collection[int]) -> None:
    code = getattr(item, _SUSPENDED[type(item)])
    if id(code) in pairs:
        raise Afresh(f"{code.co_name} has begun and not ended")


def _docstring(code: CodeType) -> str | None:
    """What Python makes of a code object's docstring."""
    cells = tuple(types.CellType() for _ in code.co_freevars)
    text: str | None = types.FunctionType(code, {}, None, None, cells).__doc__
    return text


def _is_documented_anew(function: FunctionType, code: CodeType) -> bool:
    old, new = _docstring(function.__code__), _docstring(code)
    if old == new:
        return False
    if function.__doc__ != old:
        raise Afresh(f"the docstring of {function.__qualname__} was replaced during the import")
    return True


def _moved_classes(
    living: Iterable[object], modules: Collection[str], lines: Mapping[int, int]
) -> Iterator[tuple[type, int]]:
    """The classes of some modules that know the line they are on, which they do from Python 3.13 on."""
    # Not isinstance, which would ask each object for its class.
    for owner in [cast("type", item) for item in living if issubclass(type(item), type)]:
        space = type.__getattribute__(owner, "__dict__")
        line = space.get("__firstlineno__")
        if line is not None and space.get("__module__") in modules:
            if line not in lines:
                raise Afresh(f"the line of class {owner.__qualname__} is not known")
            yield owner, lines[line]
