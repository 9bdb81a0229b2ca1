"""What a function is called with: where its inputs come from, and whether they fit."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from profile_neuron.core.model import Failure
from profile_neuron.worker.failures import RunStopped

# Positional and keyword arguments of one call.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from profile_neuron.wire.messages import RunRequest
    from profile_neuron.worker.targets import Target


def find_inputs(module: ModuleType, target: Target, request: RunRequest) -> tuple[Callable[[], object] | None, str]:
    """What builds the inputs, and a word on where it was found; None where none are needed.

    Raises RunStopped with the state noInputs where arguments are needed and nothing builds them.
    """
    inputs = target.options.inputs
    if callable(inputs):
        return inputs, "inputs= of the decorator"
    if inputs is not None:
        name, named = next(iter(inputs.items()))
        return named, f'inputs= "{name}"'
    names = factory_names(request.qualname, "inputs")
    for name in names:
        factory = vars(module).get(name)
        if callable(factory):
            return factory, name
    missing = _required_arguments(target)
    if missing:
        raise RunStopped(
            "noInputs",
            Failure(
                f"{request.qualname} needs {listing(missing)}; add a function {names[0]}() to the file that "
                "returns them as a tuple, or give the decorator inputs=..."
            ),
        )
    return None, "none needed"


def arguments(value: object) -> Arguments:
    """Positional and keyword arguments from what an inputs function gave."""
    if isinstance(value, tuple):
        return value, {}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return (), value
    return (value,), {}


def check_arguments(
    target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], request: RunRequest, source: str
) -> None:
    """Raises RunStopped where the inputs do not fit the function's parameters."""
    signature = _own_signature(target.call)
    if signature is None or _passes_on(signature):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        given = f"{len(args)} positional" if not kwargs else f"the names {', '.join(kwargs)}"
        raise RunStopped(
            "failed",
            Failure(
                f"the inputs do not fit {request.qualname}{signature}: {source} gave {given} ({error}); "
                "return a tuple with one value per parameter"
            ),
        ) from error


def factory_names(qualname: str, ending: str) -> list[str]:
    """Names under which a factory for a definition is looked up: the whole name, then its last part."""
    parts = [part for part in qualname.split(".") if part != "<locals>"]
    return list(dict.fromkeys([f"{'_'.join(parts)}_{ending}", f"{parts[-1]}_{ending}"]))


def required_parameters(function: Callable[..., Any]) -> list[str]:
    """Names of the parameters without a default; empty where the function does not tell."""
    signature = _own_signature(function)
    if signature is None:
        return []
    return [
        item.name
        for item in signature.parameters.values()
        if item.default is item.empty and item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
    ]


def listing(names: list[str]) -> str:
    """Arguments x, weight and eps, for a sentence."""
    if len(names) == 1:
        return f"the argument {names[0]}"
    return f"the arguments {', '.join(names[:-1])} and {names[-1]}"


def _required_arguments(target: Target) -> list[str]:
    """Names of the arguments that a call must give, seen through a wrapper that passes anything on."""
    signature = _own_signature(target.call)
    if signature is None or not _passes_on(signature) or target.function is None:
        return required_parameters(target.call)
    own = required_parameters(target.function)
    return own[1:] if target.bound else own


def _own_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Parameters of the callable itself: a wrapper may take others than what it wraps; None if unknown."""
    try:
        return inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None


def _passes_on(signature: inspect.Signature) -> bool:
    return any(item.kind is item.VAR_POSITIONAL for item in signature.parameters.values())
