"""What a function is called with: where its inputs come from, and whether they fit."""

from __future__ import annotations

import inspect
import linecache
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profile_neuron.core.model import Failure, Frame
from profile_neuron.worker.failures import RunStopped
from profile_neuron.worker.signature import describe
from profile_neuron.worker.wrapping import innermost_function

# Positional and keyword arguments of one call.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from types import ModuleType

    from profile_neuron.wire.messages import RunRequest
    from profile_neuron.worker.marks import Mark
    from profile_neuron.worker.rebuild import Recorded
    from profile_neuron.worker.targets import Target

# What was given is quoted in a sentence up to here.
_GIVEN_WIDTH = 80
# How far below its first decorator the def of a factory is looked for.
_DECORATOR_LINES = 100
_DEF = re.compile(r"\s*(async\s+)?def\b")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What builds the inputs of a function."""

    # Where they come from, for the reader.
    source: str
    # Raises what user code raises, and RunStopped for what are no arguments.
    build: Callable[[], Arguments]
    # The line to blame where they do not fit, and what to do then.
    place: Frame
    advice: str = "return a tuple with one value per parameter"


def find_inputs(
    module: ModuleType,
    mark: Mark,
    target: Target,
    request: RunRequest,
    project: Container[str],
    recorded: Recorded | str,
) -> Inputs:
    """What builds the inputs of a function, in the order that the README gives.

    recorded: as load_recorded gives it. Raises RunStopped, with the state noInputs where arguments are needed and
    nothing builds them.
    """
    at_decorator = decorator_place(mark, request)
    inputs = target.options.inputs
    named = {} if inputs is None or callable(inputs) else inputs
    if request.input_set and request.input_set not in named:
        raise RunStopped("failed", Failure(_no_input_set(request, named), (at_decorator,)))
    if callable(inputs):
        return _from_factory(inputs, "inputs= of the decorator", target, request, project, at_decorator)
    if named:
        name = request.input_set or next(iter(named))
        return _from_factory(named[name], f'inputs= "{name}"', target, request, project, at_decorator)
    names = factory_names(request.qualname, "inputs")
    for name in names:
        factory = vars(module).get(name)
        if callable(factory):
            return _from_factory(factory, name, target, request, project, at_decorator)
    problem = recorded if isinstance(recorded, str) else recorded.problem(target.bound)
    if not isinstance(recorded, str) and not problem:
        return _from_recording(recorded, target, request)
    missing = _required_arguments(target)
    if missing:
        raise RunStopped(
            "noInputs",
            Failure(
                f"{request.qualname} needs {listing(missing)}; {before_advice(recorded, problem)}add a function "
                f"{names[0]}() to the file that returns them as a tuple, give the decorator inputs=..., or keep those "
                "of your own program with profile-neuron record"
            ),
        )
    return Inputs("none needed", lambda: ((), {}), at_decorator)


def check_arguments(target: Target, given: Arguments, qualname: str, inputs: Inputs) -> None:
    """Raises RunStopped, with the line to blame, where the inputs do not fit the function's parameters."""
    signature = own_signature(target.call)
    if signature is None or _passes_on(signature):
        return
    args, kwargs = given
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        reason = (
            f"the inputs do not fit {qualname}{_parameters(target)}: {inputs.source} gave {_given(args, kwargs)} "
            f"({error}); {inputs.advice}"
        )
        raise RunStopped("failed", Failure(reason, (inputs.place,))) from error


def call_factory(factory: Callable[[], object], source: str, place: Frame, returns: str) -> object:
    """What a factory gives. Raises RunStopped, with its line, for what is nothing or is still to be run.

    returns: what it should give, for the sentence.
    """
    value = factory()
    if value is None:
        problem = "returned None"
    elif inspect.iscoroutine(value):
        value.close()
        problem = "is a coroutine function, which is not awaited here"
    elif inspect.isgenerator(value) or inspect.isasyncgen(value):
        problem = "is a generator"
    else:
        return value
    raise RunStopped("failed", Failure(f"{source} {problem}; return {returns}", (place,)))


def place_of(factory: object, project: Container[str], otherwise: Frame) -> Frame:
    """The line of a factory's def or lambda; another one for what is not written in the project."""
    function = innermost_function(factory) or innermost_function(vars(type(factory)).get("__call__"))
    if function is None or function.__code__.co_filename not in project:
        return otherwise
    code = function.__code__
    path, line = code.co_filename, code.co_firstlineno
    if code.co_name != "<lambda>":
        # The code begins with its first decorator.
        below = range(line, line + _DECORATOR_LINES)
        line = next((number for number in below if _DEF.match(linecache.getline(path, number))), line)
    return Frame(path, line, code.co_name, linecache.getline(path, line).strip())


def decorator_place(mark: Mark, request: RunRequest) -> Frame:
    """The line of our decorator."""
    line = mark.line or request.first_line
    return Frame(request.path, line, "", linecache.getline(request.path, line).strip())


def factory_names(qualname: str, ending: str) -> list[str]:
    """Names under which a factory for a definition is looked up: the whole name, then its last part."""
    parts = [part for part in qualname.split(".") if part != "<locals>"]
    return list(dict.fromkeys([f"{'_'.join(parts)}_{ending}", f"{parts[-1]}_{ending}"]))


def required_parameters(function: Callable[..., Any]) -> list[str]:
    """Names of the parameters without a default; empty where the function does not tell."""
    signature = own_signature(function)
    if signature is None:
        return []
    return [
        item.name
        for item in signature.parameters.values()
        if item.default is item.empty and item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
    ]


def positional_names(target: Target) -> list[str]:
    """Names of the parameters that have a position, seen through a wrapper that passes anything on."""
    signature = own_signature(target.call)
    bound = False
    if (signature is None or _passes_on(signature)) and target.function is not None:
        signature, bound = own_signature(target.function), target.bound
    kept = (item for item in (signature.parameters.values() if signature is not None else ()))
    names = [item.name for item in kept if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    return names[1:] if bound else names


def before_advice(recorded: Recorded | str, problem: str) -> str:
    """Why what was recorded cannot be used, as the beginning of a sentence that goes on with what to do instead."""
    if isinstance(recorded, str):
        # It ends with advice of its own.
        return f"{recorded}, or " if recorded else ""
    return f"{problem}; " if problem else ""


def listing(names: list[str]) -> str:
    """Arguments x, weight and eps, for a sentence."""
    if len(names) == 1:
        return f"the argument {names[0]}"
    return f"the arguments {', '.join(names[:-1])} and {names[-1]}"


def own_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Parameters of the callable itself: a wrapper may take others than what it wraps; None if unknown."""
    try:
        return inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None


def _from_factory(
    factory: Callable[[], object],
    source: str,
    target: Target,
    request: RunRequest,
    project: Container[str],
    at_decorator: Frame,
) -> Inputs:
    place = place_of(factory, project, at_decorator)

    def build() -> Arguments:
        value = call_factory(
            factory, source, place, f"the inputs of {request.qualname}{_parameters(target)} as a tuple"
        )
        if isinstance(value, tuple):
            return value, {}
        if not isinstance(value, dict):
            return (value,), {}
        key = next((key for key in value if not isinstance(key, str)), None)
        if key is None and None not in value:
            return (), value
        reason = (
            f"{source} gave a dict with the key {describe(key)}, which is no name of a parameter; a dict holds the "
            "arguments by name, and one that is itself an argument goes into a tuple"
        )
        raise RunStopped("failed", Failure(reason, (place,)))

    return Inputs(source, build, place)


def _from_recording(recorded: Recorded, target: Target, request: RunRequest) -> Inputs:
    text = linecache.getline(request.path, request.def_line).strip()
    place = Frame(request.path, request.def_line, request.qualname.rpartition(".")[2], text)
    return Inputs(recorded.source, lambda: recorded.arguments(target.bound, place), place, "record them again")


def _no_input_set(request: RunRequest, known: Mapping[str, object]) -> str:
    what = f'{request.qualname} has no inputs "{request.input_set}"'
    if known:
        return f"{what}; it has {', '.join(known)}"
    return f'{what}, since its decorator names none; write inputs={{"{request.input_set}": ...}}'


def _given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    if kwargs:
        text = f"the name{'' if len(kwargs) == 1 else 's'} {', '.join(kwargs)}"
        if args:
            text = f"{len(args)} by position and {text}"
    elif args:
        text = f"{len(args)} value{'' if len(args) == 1 else 's'}: {', '.join(map(describe, args))}"
    else:
        text = "nothing"
    return text if len(text) <= _GIVEN_WIDTH else f"{text[:_GIVEN_WIDTH]}…"


class _Default:
    """Stands for a default value, whose own text may be long or costly."""

    def __repr__(self) -> str:
        return "…"


def _parameters(target: Target) -> str:
    """The parameters as (x, y=…), without annotations; (...) where the function does not tell."""
    signature = own_signature(target.call)
    if signature is None:
        return "(...)"
    parameters = [
        item.replace(annotation=item.empty, default=item.empty if item.default is item.empty else _Default())
        for item in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def _required_arguments(target: Target) -> list[str]:
    """Names of the arguments that a call must give, seen through a wrapper that passes anything on."""
    signature = own_signature(target.call)
    if signature is None or not _passes_on(signature) or target.function is None:
        return required_parameters(target.call)
    own = required_parameters(target.function)
    return own[1:] if target.bound else own


def _passes_on(signature: inspect.Signature) -> bool:
    return any(item.kind is item.VAR_POSITIONAL for item in signature.parameters.values())
