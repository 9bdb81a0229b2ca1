"""Which folder a file's project is, which module the file is, and which files are project files.

The file system is asked through functions that the caller gives, so that the rules stay pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ROOT_MARKERS = (".git", "pyproject.toml")
_FOREIGN_FOLDERS = frozenset({"site-packages", "dist-packages", "__pypackages__", "node_modules"})


@dataclass(frozen=True, slots=True)
class ModulePlace:
    """Where a file stands among the modules of its project."""

    # Folder to be searched for the top-level package or module.
    import_root: str
    # Dotted name, and the package part of it; empty for a file outside of packages.
    name: str
    package: str


def project_root(path: PurePath, exists: Callable[[PurePath], bool]) -> PurePath:
    """The nearest folder above a file with .git or pyproject.toml, else the file's own folder."""
    for folder in path.parents:
        if any(exists(folder / marker) for marker in _ROOT_MARKERS):
            return folder
    return path.parent


def module_place(path: PurePath, exists: Callable[[PurePath], bool]) -> ModulePlace:
    """The dotted name under which a file is imported: its folders count while they hold an __init__.py."""
    folder = path.parent
    parts: list[str] = []
    while exists(folder / "__init__.py") and folder.name.isidentifier() and folder != folder.parent:
        parts.insert(0, folder.name)
        folder = folder.parent
    # The initialiser of a package is the package itself.
    names = parts if path.stem == "__init__" and parts else [*parts, path.stem]
    package = parts if path.stem == "__init__" else names[:-1]
    return ModulePlace(str(folder), ".".join(names), ".".join(package))


class ProjectFiles:
    """Decides, and remembers, which file names belong to the user's project."""

    def __init__(self, roots: Iterable[str], excluded: Iterable[str], exists: Callable[[PurePath], bool]) -> None:
        self._roots = tuple(PurePath(root) for root in roots)
        # The standard library, environments and our own package, which may lie inside of a root.
        self._excluded = tuple(PurePath(folder) for folder in excluded)
        self._exists = exists
        self._known: dict[str, bool] = {}

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._is_project_file(PurePath(name))
        return known

    def _is_project_file(self, path: PurePath) -> bool:
        if not path.is_absolute() or any(path.is_relative_to(folder) for folder in self._excluded):
            return False
        return any(path.is_relative_to(root) and not self._is_foreign(path, root) for root in self._roots)

    def _is_foreign(self, path: PurePath, root: PurePath) -> bool:
        for folder in path.parents:
            if folder == root:
                return False
            if folder.name in _FOREIGN_FOLDERS or self._exists(folder / "pyvenv.cfg"):
                return True
        return False
