"""The user's file as a module under its right name: executed afresh, or the last one where that is the same."""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import importlib.util
import linecache
import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from profile_neuron import decorator
from profile_neuron.core.model import Failure
from profile_neuron.core.project import module_place
from profile_neuron.core.replacement import Afresh
from profile_neuron.worker.failures import RunStopped
from profile_neuron.worker.living import Execution, LivingModule
from profile_neuron.worker.marks import Marks
from profile_neuron.worker.reach import new_reach
from profile_neuron.worker.reads import Reads

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import CodeType, ModuleType

    from profile_neuron.core.project import ModulePlace, ProjectFiles
    from profile_neuron.wire.messages import RunRequest
    from profile_neuron.worker.state import Streams


@dataclass(frozen=True, slots=True)
class Loaded:
    """A module that is as if its file had just been executed."""

    module: ModuleType
    marks: Marks
    # How it came to be, for the reader.
    how: str
    # The project's code objects that its import entered; None where they are not known.
    entered: tuple[CodeType, ...] | None


class Loader:
    """The project's modules in this process.

    A load executes the saved bytes in a new module, unless the last one can be shown to be the same, or to differ in
    functions that can be replaced.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._project: ProjectFiles | None = None
        # Names of modules from before the first run: torch itself may load one that lies in a project.
        self._earlier: set[str] = set()
        self._finder = _ProjectFinder()
        self._reads = Reads()
        self._paths: list[str] = []
        self._living: LivingModule | None = None
        # Paths of all project files that were ever executed here.
        self._ever: set[str] = set()
        # On while a run executes code outside of the profiled part.
        self.reach = new_reach()
        # Bytes of each project file as it was executed in this run.
        self.executed: dict[str, bytes] = self._finder.executed

    def load(self, request: RunRequest, source: bytes, project: ProjectFiles) -> Loaded:
        """The file's module for a run, living or executed afresh after letting go of the old ones.

        Raises whatever the user's code raises, SystemExit included, and RunStopped where the file would have to be
        executed and cannot be in this process.
        """
        place = module_place(Path(request.path), os.path.exists)
        self._finder.project = project
        how = "first run in this worker"
        if self._living is not None:
            try:
                said = self._living.serve(request, source, place, self._finder.codes)
            except Afresh as doubt:
                how = f"executed afresh: {doubt}"
            else:
                self.executed[request.path] = source
                return self._loaded(self._living, said)
        elif self._ever:
            how = "executed afresh: the last run did not get through the import"
        if request.executes_once:
            if request.path in self._ever:
                raise RunStopped("failed", Failure(f"{request.path} cannot be executed twice in a process"), again=True)
            how = f"executed afresh in a new process: {Path(request.path).name} cannot be executed twice in one"
        self._living = None
        self._set_path([place.import_root, *request.project_roots])
        self._release(project)
        # What the old modules did while they went is not this run's.
        self.reach.stop()
        self.reach.start(project)
        self._living = self._afresh(request, source, place)
        return self._loaded(self._living, how)

    def _afresh(self, request: RunRequest, source: bytes, place: ModulePlace) -> LivingModule:
        sys.argv = [request.path]
        marks = Marks(request.path)
        decorator.on_mark = marks.add
        self._reads.start()
        try:
            module = self._import(request.path, source, place)
        finally:
            decorator.on_mark = None
            self._ever.update(self.executed)
            folders = sysconfig.get_paths()
            foreign = tuple(f"{folders[key]}{os.sep}" for key in ("stdlib", "platstdlib", "purelib", "platlib"))
            reads = self._reads.stop(foreign, self.executed)
        modules = {
            name: module
            for name, module in list(sys.modules.items())
            if getattr(module, "__file__", None) in self.executed
        }
        codes = {path: list(found) for path, found in self._finder.codes.items()}
        execution = Execution(request, place, module, marks, dict(self.executed), codes, modules, reads)
        return LivingModule(execution, self.reach, self._streams)

    def _import(self, name: str, source: bytes, place: ModulePlace) -> ModuleType:
        path = Path(name)
        # The package first, as an import would; it may import the file itself.
        if place.package and place.package != place.name:
            importlib.import_module(place.package)
        name = _module_name(place.name, str(path))
        loaded = sys.modules.get(name)
        if loaded is not None and self.executed.get(getattr(loaded, "__file__", None) or "") == source:
            return loaded
        is_package = path.name == "__init__.py" and bool(place.package)
        return self._execute(name, path, source, is_package)

    def _loaded(self, living: LivingModule, how: str) -> Loaded:
        return Loaded(living.module, living.marks, how, living.entered if living.is_reach_complete else None)

    def _release(self, project: ProjectFiles) -> None:
        """Let go of the last run's project modules, and of what earlier runs left in the new project's place.

        So their memory is free before the new ones load, and no import finds an old one.
        """
        self.executed.clear()
        self._finder.codes.clear()
        importlib.invalidate_caches()
        last, self._project = self._project, project
        if last is None:
            self._earlier = set(sys.modules)
            return
        later = set(sys.modules) - self._earlier
        # Such a module may be another file, or one of the project's by another spelling of its path.
        replaced = {name for name in later if _is_found_in(project, name)}
        # By name: a variable that still held a module here would keep it from the collector.
        names = {
            name
            for name, module in list(sys.modules.items())
            if _belongs_to(module, last)
            or (name in later and (_belongs_to(module, project) or name.partition(".")[0] in replaced))
        }
        _forget(names)
        self._earlier -= names
        linecache.clearcache()
        gc.collect()

    def _execute(self, name: str, path: Path, source: bytes, is_package: bool) -> ModuleType:
        code = compile(source, str(path), "exec", dont_inherit=True)
        folders = [str(path.parent)] if is_package else None
        loader = _FreshLoader(name, str(path), self._finder)
        spec = importlib.util.spec_from_file_location(name, path, loader=loader, submodule_search_locations=folders)
        if spec is None:
            raise ImportError(f"{path} cannot be imported as {name}")
        module = importlib.util.module_from_spec(spec)
        self._finder.note(str(path), source, code)
        sys.modules[name] = module
        try:
            exec(code, module.__dict__)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        parent, _, child = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], child, module)
        return module

    def _set_path(self, folders: Sequence[str]) -> None:
        """Put the project's folders in front; they replace those of the last run."""
        kept = [entry for entry in sys.path if entry not in self._paths]
        self._paths = [folder for folder in dict.fromkeys(folders) if folder not in kept]
        sys.path[:] = [*self._paths, *kept]
        if self._finder not in sys.meta_path:
            sys.meta_path.insert(0, self._finder)


def _module_name(name: str, path: str) -> str:
    """The file's module name, or another one where that belongs to a module that is not this file."""
    top = name.partition(".")[0]
    loaded = sys.modules.get(name)
    taken = loaded is not None and getattr(loaded, "__file__", None) != path
    if taken or top in sys.stdlib_module_names or name == "__main__" or name.startswith("profile_neuron"):
        return f"profiled_{name.replace('.', '_')}"
    return name


def _forget(names: Collection[str]) -> None:
    """Remove modules, also from packages that stay, where an import from the package would still find them."""
    for name in names:
        parent, _, child = name.rpartition(".")
        module = sys.modules.pop(name, None)
        attributes = getattr(sys.modules.get(parent), "__dict__", None) if parent not in names else None
        if isinstance(attributes, dict) and attributes.get(child) is module:
            del attributes[child]


def _is_found_in(project: ProjectFiles, name: str) -> bool:
    """Whether an import of this top-level name would find a file, or a part of a package, of the project."""
    spec = importlib.machinery.PathFinder.find_spec(name) if "." not in name else None
    if spec is None:
        return False
    places = [spec.origin] if spec.origin else [f"{folder}/." for folder in spec.submodule_search_locations or ()]
    return any(place in project for place in places)


def _belongs_to(module: ModuleType, project: ProjectFiles) -> bool:
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return file in project
    # Namespace packages have no file; their path would hide a package that came since.
    try:
        places = [f"{folder}/." for folder in module.__path__]
    except (AttributeError, TypeError, KeyError):
        return False
    return bool(places) and all(place in project for place in places)


class _ProjectFinder:
    """Finds project modules as Python does, but always executes their source and notes its bytes.

    A bytecode file can be older than a source of the same second and size, and writing one would leave a
    file of ours in the user's tree.
    """

    def __init__(self) -> None:
        self.project: ProjectFiles | None = None
        self.executed: dict[str, bytes] = {}
        # By path; several where a file was executed more than once.
        self.codes: dict[str, list[CodeType]] = {}

    def note(self, path: str, source: bytes, code: CodeType) -> None:
        """A project file is about to be executed."""
        self.executed[path] = source
        self.codes.setdefault(path, []).append(code)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        if self.project is None or spec.origin is None or spec.origin not in self.project:
            return None
        spec.loader = _FreshLoader(name, spec.origin, self)
        spec.cached = None
        return spec


class _FreshLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, finder: _ProjectFinder) -> None:
        super().__init__(name, path)
        self._finder = finder

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        code: CodeType = compile(source, path, "exec", dont_inherit=True)
        self._finder.note(path, source, code)
        return code
