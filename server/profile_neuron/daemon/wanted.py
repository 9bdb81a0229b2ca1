"""Which functions of a file are to be run, by why the file is looked at and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from profile_neuron.core.outline import FunctionOutline, Outline
    from profile_neuron.daemon.files import OpenFile
    from profile_neuron.daemon.scheduler import FunctionId


_MISSING = ("ModuleNotFoundError", "ImportError")


@dataclass(slots=True)
class Cause:
    """Why a file is looked at; several reasons may come together before it is."""

    # An editor saved it.
    is_saved: bool = False
    # Something else wrote it, and the editor took it over.
    is_outside: bool = False
    # Project modules that were saved, or written by something else.
    modules: set[str] = field(default_factory=set)
    # Functions of which a run ended with the code of an older text.
    functions: set[FunctionId] = field(default_factory=set)

    def add(self, other: Cause) -> None:
        """Take over the reasons of another one."""
        self.is_saved |= other.is_saved
        self.is_outside |= other.is_outside
        self.modules |= other.modules
        self.functions |= other.functions


def needs_run(file: OpenFile, function: FunctionOutline, found: Outline) -> bool:
    """Whether a run of a function could give anything that is not known yet."""
    outcome = file.outcomes.get(file.id_of(function))
    # What failed at a line of the user's would do so again.
    is_final = outcome is not None and (
        outcome.state == "noInputs"
        or (outcome.state == "failed" and bool(outcome.failure.frames or outcome.failure.is_compiler))
    )
    if outcome is not None and not outcome.circumstances and outcome.failure.reason.startswith(_MISSING):
        # What is installed was not known then, so that nothing else would tell that the package has come.
        is_final = False
    if outcome is not None and is_final and file.stands(outcome, function, found):
        return False
    return not file.is_fresh(function, found)


def needed(file: OpenFile, found: Outline, cause: Cause, due: Collection[FunctionId]) -> list[FunctionOutline]:
    """The functions of a text that need a run for one of these reasons, and those that are due anyway."""
    return [
        function
        for function in found.functions
        if _is_meant(file, function, cause, due) and needs_run(file, function, found)
    ]


def limited(
    file: OpenFile, functions: list[FunctionOutline], most: int, due: Collection[FunctionId]
) -> list[FunctionOutline]:
    """All of them if they are few, else those that were edited or are due, and no more than one save may run."""
    if len(functions) <= most:
        return functions
    return [function for function in functions if is_edited(file, function) or file.id_of(function) in due][:most]


def is_edited(file: OpenFile, function: FunctionOutline) -> bool:
    """Whether a function is another than when its file was opened, or saved last."""
    before = file.baseline
    old = None if before is None else before.function(function.spec.qualname, function.occurrence)
    return old is None or not old.same_tree(function)


def _is_meant(file: OpenFile, function: FunctionOutline, cause: Cause, due: Collection[FunctionId]) -> bool:
    function_id = file.id_of(function)
    return (
        cause.is_saved
        or function_id in due
        or function_id in cause.functions
        or (cause.is_outside and is_edited(file, function))
        or (bool(cause.modules) and file.depends_on(function, cause.modules))
    )
