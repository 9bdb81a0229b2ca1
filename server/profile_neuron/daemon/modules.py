"""The project modules that results depend on, as they are on disk."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from profile_neuron.core.modules import Module, dependency, module_code
from profile_neuron.core.text import decode
from profile_neuron.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from profile_neuron.core.model import LineCosts, ModuleDependency, Result
    from profile_neuron.core.modules import ModuleCode

# Texts whose code is remembered; a project has hundreds of modules, each in a version or two.
_REMEMBERED = 4000


class ProjectModules:
    """Reads modules, and looks into one only where it is not what a result is of; for any thread."""

    def __init__(self) -> None:
        # By path and hash; None for one that does not parse.
        self._codes: OrderedDict[tuple[str, str], ModuleCode | None] = OrderedDict()
        self._lock = threading.Lock()

    def look(self, wanted: Mapping[str, Collection[str]]) -> dict[str, Module]:
        """Modules by path; those that cannot be read are left out. wanted: hashes that results are of, by path."""
        found = {}
        for path, hashes in wanted.items():
            source = _read(path)
            if source is not None:
                sha256 = hashlib.sha256(source).hexdigest()
                is_known = hashes == {sha256}
                found[path] = Module(sha256, None if is_known else self._code(path, sha256, source))
        return found

    def dependencies(self, costs: LineCosts) -> tuple[ModuleDependency, ...]:
        """What a run depends on of the modules that it imported.

        One that is another on disk by now, and was not looked into before, counts as a whole.
        """
        found = []
        for executed in costs.modules:
            lines = {*executed.reached, *(item.line for item in costs.functions if item.path == executed.path)}
            source = _read(executed.path)
            if source is not None and hashlib.sha256(source).hexdigest() != executed.sha256:
                source = None
            found.append(dependency(executed, lines, self._code(executed.path, executed.sha256, source)))
        return tuple(found)

    def _code(self, path: str, sha256: str, source: bytes | None) -> ModuleCode | None:
        with self._lock:
            if (path, sha256) in self._codes:
                self._codes.move_to_end((path, sha256))
                return self._codes[path, sha256]
        if source is None:
            return None
        try:
            code = module_code(decode(source))
        except SourceError:
            code = None
        with self._lock:
            self._codes[path, sha256] = code
            while len(self._codes) > _REMEMBERED:
                self._codes.popitem(last=False)
        return code


def wanted_modules(results: Iterable[Result]) -> dict[str, set[str]]:
    """The modules that results depend on, with the hashes that they are of."""
    wanted: dict[str, set[str]] = {}
    for result in results:
        for module in result.modules:
            wanted.setdefault(module.path, set()).add(module.sha256)
    return wanted


def _read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError):
        return None
