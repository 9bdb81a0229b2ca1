"""The project modules that runs import: what of them a run depends on, and what they are today."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from profile_neuron.core.fingerprint import digest
from profile_neuron.core.model import Dependency, ModuleDependency
from profile_neuron.core.outline import outline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from profile_neuron.core.model import ExecutedFile


@dataclass(frozen=True, slots=True)
class ModuleCode:
    """What a module's text says, in the parts that a run can depend on one by one."""

    # Digest of what every import executes: the code outside of functions, and their decorators and defaults.
    import_code: str
    # Digest, first and last line of each function that is in no other one, by its name.
    functions: Mapping[str, tuple[str, int, int]]

    def reached(self, lines: Iterable[int]) -> tuple[Dependency, ...]:
        """The functions that these lines are in, sorted by name."""
        wanted = set(lines)
        return tuple(
            Dependency(name, function)
            for name, (function, first, last) in sorted(self.functions.items())
            if any(first <= line <= last for line in wanted)
        )


@dataclass(frozen=True, slots=True)
class Module:
    """A module as it is on disk now."""

    sha256: str
    # None where it was not looked into, or does not parse.
    code: ModuleCode | None = None


def module_code(text: str) -> ModuleCode:
    """What a module's text says. Raises SourceError where it does not parse."""
    found = outline(text)
    functions = {name: (unit, first, last) for name, unit, first, last in found.units()}
    return ModuleCode(digest([found.module_code, *found.definitions]), functions)


def dependency(executed: ExecutedFile, lines: Iterable[int], code: ModuleCode | None) -> ModuleDependency:
    """What a run depends on of a module that it executed. lines: first lines of what it entered in it.

    code: of the text that was executed; without it the module counts as a whole.
    """
    if code is None:
        return ModuleDependency(executed.path, executed.sha256, "", ())
    return ModuleDependency(executed.path, executed.sha256, code.import_code, code.reached(lines))


def module_changes(before: Iterable[ModuleDependency], now: Mapping[str, Module]) -> list[str]:
    """What of that which a run depended on is another by now, one remark each."""
    return [remark for module in before for remark in _changes(module, now.get(module.path))]


def _changes(before: ModuleDependency, now: Module | None) -> list[str]:
    name = before.path.rpartition("/")[2]
    if now is not None and now.sha256 == before.sha256:
        return []
    if now is None or now.code is None or not before.import_code or now.code.import_code != before.import_code:
        return [f"{name} changed"]
    functions = now.code.functions
    return [
        f"{function.name} in {name} changed"
        for function in before.functions
        if function.name not in functions or functions[function.name][0] != function.digest
    ]
