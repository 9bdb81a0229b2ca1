"""Recorded inputs as arguments of a call, and the object that a method was called on."""

from __future__ import annotations

import importlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profile_neuron.core import recording
from profile_neuron.core.model import Failure
from profile_neuron.worker import tensors
from profile_neuron.worker.failures import RunStopped

if TYPE_CHECKING:
    from types import FunctionType, ModuleType

    from profile_neuron.core.model import Frame
    from profile_neuron.core.recording import ClassName, Recording
    from profile_neuron.wire.messages import RunRequest
    from profile_neuron.worker.inputs import Arguments

AGAIN = "record them again with profile-neuron record"


class Recorded:
    """What was recorded of one function, in the modules as they are now."""

    def __init__(self, made: Recording, file: Path, module: ModuleType, qualname: str) -> None:
        self._made = made
        self._file = file
        self._module = module
        self._qualname = qualname
        # What is another than it was, for the reader of the result.
        self.warnings: list[str] = []

    @property
    def source(self) -> str:
        """When it was recorded, for the reader."""
        return f"recorded {time.strftime('%Y-%m-%d %H:%M', time.localtime(self._made.recorded_s))}"

    def problem(self, bound: bool) -> str:
        """Why the arguments cannot be made again; empty if they can. bound: the first one is filled in."""
        arguments = self._made.arguments[1:] if bound else self._made.arguments
        return recording.problem(arguments, self._qualname)

    def arguments(self, bound: bool, place: Frame) -> Arguments:
        """The arguments, the same ones each time.

        place: the line to blame. Raises RunStopped where they cannot be made in these modules.
        """
        try:
            return self._values(self._made.arguments[1:] if bound else self._made.arguments, self._tensors())
        except (ValueError, LookupError, TypeError, OSError, RuntimeError, ImportError) as error:
            reason = f"the inputs recorded for {self._qualname} cannot be made again ({error}); {AGAIN}"
            raise RunStopped("failed", Failure(reason, (place,))) from error

    def instance_problem(self, owner: type) -> str:
        """Why the object cannot be made again; empty if it can."""
        instance = self._made.instance
        if instance is None:
            return "no object was recorded"
        if instance.problem:
            return instance.problem
        try:
            kind = self._class(instance.class_name)
        except (ValueError, ImportError) as error:
            return str(error)
        return "" if issubclass(kind, owner) else f"{kind.__qualname__} is no {owner.__qualname__} any more"

    def instance(self) -> object:
        """Another object of the recorded one's class, made with the same arguments. Raises what its class raises."""
        instance = self._made.instance
        assert instance is not None
        kind = self._class(instance.class_name)
        args, kwargs = self._values(instance.arguments, {})
        if not instance.is_module:
            return kind(*args, **kwargs)
        with tensors.same_randomness():
            made = kind(*args, **kwargs)
        tensors.set_module(made, instance.training, instance.dtype, instance.device, self.warnings.append)
        self.warnings.append(f"{kind.__qualname__} was made anew as it was recorded, with fresh parameters")
        return made

    def _tensors(self) -> dict[int, Any]:
        contents = tensors.load_contents(str(self._file.parent / self._made.data)) if self._made.data else {}
        numbers = tensors.generator()
        return {
            number: tensors.like(facts, numbers, contents.get(number), self.warnings.append)
            for number, facts in enumerate(self._made.tensors)
        }

    def _values(self, arguments: tuple[recording.Argument, ...], made: dict[int, Any]) -> Arguments:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for item in arguments:
            value = recording.decode(json.loads(item.value), made.__getitem__, self._class, tensors.torch_value)
            if item.kind == "keyword":
                kwargs[item.name] = value
            else:
                args.append(value)
        return tuple(args), kwargs

    def _class(self, name: ClassName) -> type:
        """Raises ImportError or ValueError where there is none of that name."""
        module = importlib.import_module(name.module) if name.module else self._module
        found: Any = module
        for part in name.qualname.split("."):
            found = getattr(found, "__dict__", {}).get(part)
        if not isinstance(found, type):
            raise ValueError(f"{module.__name__} has no class {name.qualname}")
        return found


def load_recorded(request: RunRequest, module: ModuleType, function: FunctionType | None) -> Recorded | str:
    """What was recorded of a function, or why that cannot be used; empty where nothing was."""
    if not request.recorded_inputs or function is None:
        return ""
    file = Path(request.recorded_inputs)
    try:
        made = recording.from_bytes(file.read_bytes())
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        return f"the inputs recorded for {request.qualname} cannot be read ({error}); {AGAIN}"
    digest, parameters = recording.interface(function)
    if made.qualname != request.qualname:
        return f"{file.name} was recorded for {made.qualname}; {AGAIN}"
    if made.interface != digest:
        return (
            f"the inputs recorded for {request.qualname} are of an earlier signature, {made.parameters} and not "
            f"{parameters}; {AGAIN}"
        )
    return Recorded(made, file, module, request.qualname)
