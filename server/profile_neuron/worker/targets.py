"""How a decorated function is called as the user's code would: through its module, its class, an object."""

from __future__ import annotations

import gc
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profile_neuron.core.model import Failure
from profile_neuron.worker.failures import RunStopped
from profile_neuron.worker.inputs import (
    before_advice,
    call_factory,
    decorator_place,
    factory_names,
    listing,
    place_of,
    required_parameters,
)
from profile_neuron.worker.torch_host import is_compiled
from profile_neuron.worker.wrapping import contains, definition, innermost_function, wrapped_chain

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Container

    from profile_neuron.decorator import Options
    from profile_neuron.wire.messages import RunRequest
    from profile_neuron.worker.marks import Mark
    from profile_neuron.worker.rebuild import Recorded


@dataclass(frozen=True, slots=True)
class Target:
    """What is called, and how."""

    # Gives one call's result; takes the inputs.
    call: Callable[..., Any]
    # The decorated definition itself, whose kind decides how the result is used up.
    function: types.FunctionType | None
    options: Options
    # The object that is called and what it wraps, outermost first.
    wrapped: tuple[object, ...]
    # Whether the function's first parameter is filled in: the instance or the class.
    bound: bool


def find_target(
    module: types.ModuleType, mark: Mark, request: RunRequest, project: Container[str], recorded: Recorded | str
) -> Target:
    """How to call the decorated function as the user's code would: through its module or its class.

    recorded: as load_recorded gives it.
    """
    decorated = mark.decorated
    function = function_of(mark, request)
    owner, name, bound = _resolve(module, request.qualname, function)
    if bound is None or function is None or not contains(bound, function):
        # Reached some other way than by its name, for example through a registry.
        bound, name = decorated, ""
        owner = owner or _owner_of(function)
    if owner is None:
        if _is_plain(bound):
            return Target(_call_of(bound), function, mark.options, wrapped_chain(bound), bound=False)
        raise RunStopped(
            "failed",
            Failure(f"not-runnable: the class of {request.qualname} cannot be reached from the module"),
        )

    def instance() -> object:
        return _instance(module, owner, mark, request, project, recorded)

    return _member_target(owner, name, bound, function, mark.options, instance)


def function_of(mark: Mark, request: RunRequest) -> types.FunctionType | None:
    """The decorated definition itself, inside of whatever was made around it."""
    decorated = mark.decorated
    return definition(decorated, request.path, request.first_line) or innermost_function(decorated)


def _member_target(
    owner: type,
    name: str,
    bound: object,
    function: types.FunctionType | None,
    options: Options,
    make_instance: Callable[[], object],
) -> Target:
    chain = wrapped_chain(bound)
    if isinstance(bound, (classmethod, staticmethod)):
        return Target(bound.__get__(None, owner), function, options, chain, isinstance(bound, classmethod))
    instance = make_instance()
    if isinstance(bound, property):
        if function is not None and bound.fset is not None and contains(bound.fset, function):
            return Target(lambda value: bound.__set__(instance, value), function, options, chain, bound=True)
        if function is not None and bound.fdel is not None and contains(bound.fdel, function):
            return Target(lambda: bound.__delete__(instance), function, options, chain, bound=True)
        return Target(lambda: bound.__get__(instance, owner), function, options, chain, bound=True)
    if hasattr(bound, "attrname") and hasattr(bound, "func"):
        # A cached_property computes once per instance, so its cache is emptied before each call.
        attribute = name or bound.attrname

        def compute() -> object:
            vars(instance).pop(attribute, None)
            return getattr(instance, attribute)

        return Target(compute, function, options, chain, bound=True)
    if name and is_compiled(instance):
        return Target(getattr(instance, name), function, options, (instance, *chain), bound=True)
    getter = getattr(bound, "__get__", None)
    return Target(
        getter(instance, owner) if getter is not None else _call_of(bound), function, options, chain, bound=True
    )


def _resolve(
    module: types.ModuleType, qualname: str, function: types.FunctionType | None
) -> tuple[type | None, str, object | None]:
    """The class, the attribute's name and the raw attribute that a qualified name leads to."""
    *classes, name = qualname.split(".")
    if "<locals>" in classes:
        return (_owner_of(function) if classes[-1] != "<locals>" else None), name, None
    owner: type | None = None
    space: Any = vars(module)
    for part in classes:
        owner = space.get(part)
        if not isinstance(owner, type):
            return None, name, None
        space = vars(owner)
    if owner is not None:
        # A name with two leading underscores is kept under its mangled form.
        mangled = f"_{owner.__name__.lstrip('_')}{name}"
        if name not in space and mangled in space:
            name = mangled
    return owner, name, space.get(name)


def _owner_of(function: types.FunctionType | None) -> type | None:
    """The class whose body holds a function, for classes that no module attribute leads to."""
    for space in gc.get_referrers(function) if function is not None else ():
        if isinstance(space, dict) and any(value is function for value in space.values()):
            for owner in gc.get_referrers(space):
                if isinstance(owner, type):
                    return owner
    return None


def _is_plain(value: object) -> bool:
    """Whether an object is called without a class; a function local to another function is."""
    function = innermost_function(value)
    if isinstance(value, property) or not callable(_unwrapped_static(value)):
        return False
    if function is None:
        return True
    outer = function.__qualname__.rpartition(".")[0]
    return not outer or outer.endswith("<locals>") or isinstance(value, (staticmethod, classmethod))


def _unwrapped_static(value: object) -> object:
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value


def _call_of(value: object) -> Callable[..., Any]:
    found = _unwrapped_static(value)
    assert callable(found)
    return found


def _instance(
    module: types.ModuleType,
    owner: type,
    mark: Mark,
    request: RunRequest,
    project: Container[str],
    recorded: Recorded | str,
) -> object:
    def made(factory: Callable[[], object], source: str) -> object:
        place = place_of(factory, project, decorator_place(mark, request))
        return call_factory(factory, source, place, f"an object of class {owner.__name__}")

    if mark.options.instance is not None:
        return made(mark.options.instance, "instance= of the decorator")
    names = factory_names(owner.__qualname__, "instance")
    for name in names:
        factory = vars(module).get(name)
        if callable(factory):
            return made(factory, name)
    problem = recorded if isinstance(recorded, str) else recorded.instance_problem(owner)
    if not isinstance(recorded, str) and not problem:
        return recorded.instance()
    missing = required_parameters(owner)
    reason = f"takes {listing(missing)}" if missing else ""
    if inspect.isabstract(owner):
        reason = "is abstract"
    elif issubclass(owner, type):
        reason = "is a metaclass"
    if reason:
        raise RunStopped(
            "noInputs",
            Failure(
                f"{request.qualname} needs an object to be called on, and {owner.__name__} {reason}; "
                f"{before_advice(recorded, problem)}add a function {names[0]}() to the file that builds one, "
                "or give the decorator instance=..."
            ),
        )
    return owner()
