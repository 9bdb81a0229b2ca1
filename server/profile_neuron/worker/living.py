"""The module of the last run, and whether it can serve the next one as if its file were executed afresh."""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import linecache
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from profile_neuron.core.replacement import Afresh, check_other_module, compare
from profile_neuron.core.text import decode
from profile_neuron.errors import SourceError
from profile_neuron.worker import torch_host
from profile_neuron.worker.picture import Picture
from profile_neuron.worker.reach import function_lines
from profile_neuron.worker.reads import stamp
from profile_neuron.worker.replacing import pair_codes, put_in_place
from profile_neuron.worker.state import ProcessState, left_running

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from types import CodeType, ModuleType

    from profile_neuron.core.project import ModulePlace
    from profile_neuron.core.replacement import Replacement
    from profile_neuron.wire.messages import RunRequest
    from profile_neuron.worker.marks import Marks
    from profile_neuron.worker.reach import Reach
    from profile_neuron.worker.state import Streams


@dataclass(frozen=True, slots=True)
class Execution:
    """What executing a file left, beside the state of the process."""

    request: RunRequest
    place: ModulePlace
    module: ModuleType
    marks: Marks
    # Bytes and code objects of each project file that was executed, this one included.
    sources: Mapping[str, bytes]
    codes: Mapping[str, list[CodeType]]
    # The project's modules by name.
    modules: Mapping[str, ModuleType]
    # Files that were read beside them, with what tells whether they are the same.
    reads: Mapping[str, object]


class LivingModule:
    """Made right after its file was executed, before anything else of the user's runs."""

    def __init__(self, execution: Execution, reach: Reach, streams: Streams) -> None:
        self.module = execution.module
        self.marks = execution.marks
        self.has_compiled = torch_host.has_compiled()
        traced = torch_host.traced_code()
        # Code objects that the import entered, or had compiled, and whether they are all.
        self.entered: tuple[CodeType, ...] = (*reach.entered, *(traced or ()))
        self.is_reach_complete = reach.look() and traced is not None
        self._execution = execution
        self._path = execution.request.path
        self._source = execution.sources[self._path]
        self._others = {path: source for path, source in execution.sources.items() if path != self._path}
        self._folders = {folder: _importable(folder) for folder in self._import_folders()}
        self._state = ProcessState()
        # Why it can serve no other run.
        self._doubt = ""
        if not reach.look():
            self._doubt = "the import took the place of what sees its functions"
        elif streams.are_replaced():
            self._doubt = "the import replaced a standard stream"
        elif not any(item is self.marks for item in gc.get_objects()):
            # Made before the import, and its functions are no more to be found than it is.
            self._doubt = "the import froze the garbage collector"
        elif left := left_running():
            self._doubt = f"the import left {left} on"
        elif twice := next((path for path, codes in execution.codes.items() if len(codes) > 1), None):
            self._doubt = f"the import executed {self._name(twice)} twice"
        else:
            self._look()

    def serve(
        self, request: RunRequest, source: bytes, place: ModulePlace, executed: Mapping[str, Collection[CodeType]]
    ) -> str:
        """Be the module of the bytes for one more run; says how.

        executed: what was executed of project files up to now, by path. Raises Afresh, with the module as it was,
        where that is not possible or not certain.
        """
        self._check_circumstances(request, place)
        if self._doubt:
            raise Afresh(self._doubt)
        self._check_files(executed)
        self._check_globals()
        said = "nothing was executed again"
        if source != self._source:
            said = self._replace(source, request)
        importlib.invalidate_caches()
        linecache.clearcache()
        self._state.apply_with_random()
        return said

    def _check_circumstances(self, request: RunRequest, place: ModulePlace) -> None:
        last = self._execution.request
        if request.path != last.path:
            raise Afresh(f"the last run was of {Path(last.path).name}")
        if place != self._execution.place:
            raise Afresh("the package of the file changed")
        if request.cwd != last.cwd:
            raise Afresh("the working directory changed")
        if (request.project_roots, request.decorator_modules) != (last.project_roots, last.decorator_modules):
            raise Afresh("the project's folders changed")

    def _check_files(self, executed: Mapping[str, Collection[CodeType]]) -> None:
        for path, codes in executed.items():
            if path not in self._execution.sources or len(codes) > 1:
                raise Afresh(f"the last run imported {self._name(path)}")
        for path, source in self._others.items():
            if _bytes(path) != source:
                raise Afresh(f"{self._name(path)} changed")
        for path, known in self._execution.reads.items():
            if stamp(path) != known:
                raise Afresh(f"{self._name(path)} changed, which the import read")
        for folder, names in self._folders.items():
            if changed := _importable(folder) ^ names:
                raise Afresh(f"{self._name(os.path.join(folder, min(changed)))} came or went")  # noqa: PTH118
        for name, module in self._execution.modules.items():
            if sys.modules.get(name) is not module:
                raise Afresh(f"the last run replaced the module {name}")

    def _check_globals(self) -> None:
        later = Picture(self._execution.modules, self.module.__name__)
        if later.doubt:
            raise Afresh(later.doubt)
        if name := self._picture.difference(later):
            raise Afresh(f"the last run changed {name}")

    def _replace(self, source: bytes, request: RunRequest) -> str:
        if self.has_compiled:
            raise Afresh("the import called compiled code")
        lines = function_lines(self.entered)
        try:
            replacement = compare(
                decode(self._source),
                decode(source),
                request.decorator_modules,
                self._execution.place.package,
                lines.get(self._path, ()),
            )
            changed = [item.qualname for item in replacement.changed]
            for path, other in self._others.items():
                check_other_module(decode(other), changed, self._name(path), lines.get(path, ()))
            new = compile(source, self._path, "exec", dont_inherit=True)
        except (SourceError, SyntaxError, ValueError) as error:
            raise Afresh(f"the text cannot be compared ({error})") from error
        (old,) = self._execution.codes[self._path]
        pairs = pair_codes(old, new, replacement)
        marks = self.marks.moved(replacement.lines)
        put_in_place(pairs, replacement, self._path)
        self._take(source, new, marks, [pairs[id(code)][1] if id(code) in pairs else code for code in self.entered])
        return _said(replacement)

    def _take(self, source: bytes, code: CodeType, marks: Marks, entered: Iterable[CodeType]) -> None:
        self._source, self.marks, self.entered = source, marks, tuple(entered)
        self._execution.codes[self._path][:] = [code]
        self._look()

    def _look(self) -> None:
        self._picture = Picture(self._execution.modules, self.module.__name__)
        self._doubt = self._picture.doubt

    def _import_folders(self) -> set[str]:
        """Folders in which a new file could be found in place of what was imported."""
        parents = {os.path.dirname(path) for path in self._execution.sources}  # noqa: PTH120
        return {self._execution.place.import_root, *self._execution.request.project_roots, *parents}

    def _name(self, path: str) -> str:
        """A path as a person calls it: from the project's folder on."""
        root = self._execution.request.project_roots[0]
        return os.path.relpath(path, root) if path.startswith(root) else path


def _said(replacement: Replacement) -> str:
    names = [item.qualname for item in replacement.changed]
    if not names:
        return "nothing was executed again"
    if len(names) == 1:
        return f"only {names[0]} was replaced, the module stayed"
    return f"only {', '.join(names[:-1])} and {names[-1]} were replaced, the module stayed"


def _bytes(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


def _importable(folder: str) -> frozenset[str]:
    """Names of the modules and folders that an import finds in a folder."""
    endings = tuple(importlib.machinery.all_suffixes())
    try:
        with os.scandir(folder) as entries:
            return frozenset(
                item.name
                for item in entries
                if not item.name.startswith((".", "__pycache__")) and (item.name.endswith(endings) or item.is_dir())
            )
    except OSError:
        return frozenset()
