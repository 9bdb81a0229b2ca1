"""Opens what the user's own profiler left: one trace, one session directory, or a folder with several below it."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profile_neuron.capture.artifact_document import artifact_document
from profile_neuron.capture.artifacts import judge_artifacts
from profile_neuron.capture.framework_mapping import FrameworkMapping, merge_mappings, read_framework_mapping
from profile_neuron.capture.framework_trace import read_exported_trace
from profile_neuron.capture.session_dir import ListedFile, find_session_directories
from profile_neuron.core import run_folder
from profile_neuron.core.foreign import foreign_profile
from profile_neuron.core.foreign_capture import ExplorerTotals, Session, capture_of, capture_without_trace
from profile_neuron.core.foreign_places import is_file_of, place_functions
from profile_neuron.core.text import decode
from profile_neuron.errors import CaptureError, SourceError
from profile_neuron.report.explorer_files import explorer_trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from profile_neuron.capture.artifacts import Artifacts, SessionArtifacts
    from profile_neuron.capture.session_dir import SessionDirectory
    from profile_neuron.core.foreign import ForeignProfile
    from profile_neuron.core.foreign_capture import ForeignCapture
    from profile_neuron.core.foreign_places import Place
    from profile_neuron.core.frames import FunctionName

# Of more files, traces or bytes only so many are looked at, which is said.
_MOST_FILES = 10_000
_MOST_TRACES = 100
_MOST_TRACE_BYTES = 2_000_000_000
_MOST_PROJECT_FILES = 50_000
_MOST_SOURCE_BYTES = 10_000_000

# Of NeuronProfiler, of torch's own handler for TensorBoard, and what people call it.
_TRACE = re.compile(r"(.*[._-])?trace(_rank_[0-9]+)?\.json(\.gz)?")
# Where no sources of a project are.
_PRUNED = frozenset({
    ".cache", ".git", ".hg", ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".svn", ".tox", "__pycache__",
    "__pypackages__", "dist-packages", "node_modules", "site-packages",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ForeignReport:
    """What lies at a path, by path; with what was left out of it."""

    captures: tuple[ForeignCapture, ...]
    warnings: tuple[str, ...]
    # Of a folder, what its files are, as capture/artifact_document.py has it; None of a single trace.
    artifacts: dict[str, Any] | None = None


def is_run_folder(path: Path) -> bool:
    """Whether a folder is one of ours, be it complete or not."""
    return any((path / name).exists() for name in (run_folder.RECORD, run_folder.LINES, run_folder.OPERATORS))


def foreign_report(path: Path, roots: Sequence[Path]) -> ForeignReport:
    """What a trace, a session directory, or a folder with any number of both tells of the user's functions.

    roots: folders of the project in which functions are looked up. Nothing is written anywhere. Raises CaptureError, in
    one sentence that names the path, where there is no trace and no session directory.
    """
    warnings: list[str] = []
    artifacts: Artifacts | None = None
    if path.is_file():
        found = _of_trace(path)
    elif path.is_dir():
        found, warnings, artifacts = _of_folder(path)
    else:
        raise CaptureError(
            f"{path} is not a folder and not a file; give a run folder, the trace.json of a profiler, or its folder"
        )
    project = _Project(roots)
    captures = tuple(item.capture(project) for item in found)
    if len(captures) == 1 and captures[0].session is None and captures[0].status == "missing":
        raise CaptureError(f"{path}: {captures[0].warnings[0]}")
    document = None if artifacts is None else artifact_document(artifacts)
    return ForeignReport(captures, (*warnings, *project.warnings), document)


@dataclass(frozen=True, slots=True)
class _Found:
    """A trace, or a session directory without any, with what lies beside it."""

    trace: Path | None
    # Folder that paths of the session begin at, with the session.
    base: Path
    session: SessionDirectory | None
    # What the names and sizes of the session's files tell, with what to do.
    judged: tuple[str, ...] = ()

    def capture(self, project: _Project) -> ForeignCapture:
        """All that can be read of it; what cannot is told in its warnings."""
        remarks = list(self._remarks())
        session = self._session()
        explorer = self._explorer(remarks)
        if self.trace is None:
            assert session is not None
            return capture_without_trace(session.path, session, explorer, remarks)
        try:
            profile = self._profile(remarks)
            written_s = self.trace.stat().st_mtime
        except (CaptureError, OSError) as error:
            reason = f"{self.trace.name} cannot be read: {_reason(error)}"
            return capture_without_trace(str(self.trace), session, explorer, [reason, *remarks])
        places = project.places([item.function for item in profile.functions])
        return capture_of(str(self.trace), written_s, profile, places, session, explorer, remarks)

    def _session(self) -> Session | None:
        item = self.session
        return None if item is None else Session(str(self.base / item.path), item.instance, item.pid, item.rank)

    def _profile(self, remarks: list[str]) -> ForeignProfile:
        assert self.trace is not None
        if self.trace.stat().st_size > _MOST_TRACE_BYTES:
            raise CaptureError(f"it is larger than {_MOST_TRACE_BYTES // 10**9} GB; profile fewer calls")
        trace = read_exported_trace(self.trace.read_bytes())
        mappings: list[FrameworkMapping] = []
        for file in self.session.framework_mappings if self.session is not None else ():
            try:
                mappings.append(read_framework_mapping((self.base / file.path).read_bytes()))
            except (CaptureError, OSError) as error:
                remarks.append(f"{Path(file.path).name}: {_reason(error)}")
        merged = merge_mappings(mappings)
        remarks += merged.warnings
        # Operators with the same number are several all the same.
        mapping = {
            number: submissions if len(submissions) > 1 else submissions * merged.operator_counts[number]
            for number, submissions in merged.submissions.items()
        }
        return foreign_profile(trace, mapping=mapping)

    def _explorer(self, remarks: list[str]) -> ExplorerTotals | None:
        """What tables in the session or a folder around it say of its process."""
        if self.session is None:
            return None
        folder = self.base / self.session.path
        around = [folder, *(parent for parent in folder.parents if parent.is_relative_to(self.base))]
        for place in (inner for parent in around for inner in (parent / run_folder.EXPLORER, parent)):
            try:
                trace = explorer_trace(place, int(self.session.pid))
            except CaptureError as error:
                remarks.append(str(error))
                return None
            if trace is not None:
                executions = trace.executions
                return ExplorerTotals(
                    trace.source, sum(item.device_ns for item in executions), len(executions), trace.warnings
                )
        return None

    def _remarks(self) -> Iterator[str]:
        """What the names and sizes of the files tell."""
        yield from self.judged
        if self.session is None:
            return
        if any(file.size_bytes for file in self.session.ntffs):
            yield "the folder holds NTFF files, which Neuron Explorer opens"
        if self.session.has_system_profile:
            yield "the folder holds a system profile, of which Neuron Explorer makes tables"


def _of_trace(path: Path) -> list[_Found]:
    """A single trace, with the session directory that it lies in."""
    base, session = path.parent, None
    files: list[ListedFile] = []
    # A process's folder is one or two above.
    for folder in (path.parent, path.parent.parent):
        if re.search(r"_pid_[0-9]+$", folder.name):
            base = folder.parent
            files, _ = _listing(path.parent, base)
            sessions = find_session_directories(files)
            session = next((item for item in sessions if base / item.path == path.parent), None)
            break
    return [_Found(path, base, session, _judged(base, files, session))]


def _judged(base: Path, files: Sequence[ListedFile], session: SessionDirectory | None) -> tuple[str, ...]:
    """What there is to say of the files of a session."""
    if session is None:
        return ()
    found = judge_artifacts(str(base), files)
    return next((_told(item) for item in found.sessions if item.path == session.path), ())


def _told(session: SessionArtifacts) -> tuple[str, ...]:
    """What was captured on which cores, and what to do about the rest."""
    pairing = session.pairing
    if not pairing.used_cores:
        return session.remarks
    idle = f", and nothing on {_cores(pairing.idle_cores)}, which is usual" if pairing.idle_cores else ""
    neffs = len({neff.path for pair in pairing.pairs for neff in pair.neffs})
    return (
        f"captured on {_cores(pairing.used_cores)}{idle}: {len(pairing.pairs)} NTFF with {neffs} NEFF",
        *session.remarks,
    )


def _cores(numbers: Sequence[int]) -> str:
    *others, last = map(str, numbers)
    return f"NeuronCores {', '.join(others)} and {last}" if others else f"NeuronCore {last}"


def _of_folder(path: Path) -> tuple[list[_Found], list[str], Artifacts]:
    # A session directory is told by the names of folders above it.
    base = path
    for folder in (path, path.parent):
        if re.search(r"_pid_[0-9]+$", folder.name):
            base = folder.parent
    files, is_cut = _listing(path, base)
    warnings = []
    if is_cut:
        warnings.append(f"{path} holds more than {_MOST_FILES} files, and no more are looked at; name a folder below")
    found = []
    artifacts = judge_artifacts(str(base), files)
    judged = {item.path: _told(item) for item in artifacts.sessions}
    in_sessions: set[str] = set()
    for session in find_session_directories(files):
        of_session = [file.path for file in files if file.path.startswith(f"{session.path}/")]
        in_sessions.update(of_session)
        traces: list[Path | None] = [base / name for name in of_session if _is_trace(name)]
        found += [_Found(trace, base, session, judged.get(session.path, ())) for trace in traces or [None]]
    alone = [file.path for file in files if file.path not in in_sessions and _is_trace(file.path)]
    found += [_Found(base / name, base, None) for name in alone]
    if not found:
        raise CaptureError(
            f"{path}: {run_folder.RECORD} is missing, so this is no run folder, and it holds no trace.json and no "
            "session directory of a profiler either; profile again"
        )
    if len(found) > _MOST_TRACES:
        warnings.append(f"{path} holds {len(found)} captures, of which the first {_MOST_TRACES} by name are told")
    return found[:_MOST_TRACES], warnings, artifacts


def _is_trace(name: str) -> bool:
    return _TRACE.fullmatch(name.rpartition("/")[2]) is not None


def _listing(path: Path, base: Path) -> tuple[list[ListedFile], bool]:
    """Files below a path by their names from a folder above it, and whether there were too many; links lead nowhere.

    What lies in a run folder of ours is left out.
    """
    files: list[ListedFile] = []
    for parent, folders, names in os.walk(path):
        folders.sort()
        if parent != str(path) and run_folder.RECORD in names and run_folder.LINES in names:
            folders.clear()
            continue
        for name in sorted(names):
            place = os.path.join(parent, name)  # noqa: PTH118 - of many thousand files
            try:
                status = os.lstat(place)
            except OSError:
                # It went in this moment.
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            if len(files) == _MOST_FILES:
                return files, True
            files.append(ListedFile(os.path.relpath(place, base).replace(os.sep, "/"), status.st_size))
    return files, False


class _Project:
    """The sources in which functions of traces are looked up; listed once, when the first is asked for."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots
        self._listed: list[str] | None = None
        self._is_cut = False

    @property
    def warnings(self) -> tuple[str, ...]:
        if not self._is_cut:
            return ()
        return (
            f"the project holds more than {_MOST_PROJECT_FILES} Python files, so no function is looked up in it; name "
            "a folder of it with --root",
        )

    def places(self, names: Sequence[FunctionName]) -> dict[FunctionName, Place]:
        """Those of the functions that the project has exactly once."""
        if self._listed is None:
            self._listed = self._list()
        wanted = {name.file for name in names}
        texts = {}
        for path in self._listed:
            if any(is_file_of(path, file) for file in wanted):
                texts[path] = _text(path)
        return place_functions(names, texts)

    def _list(self) -> list[str]:
        found: set[str] = set()
        for root in self._roots:
            for parent, folders, names in os.walk(root):
                folders[:] = [name for name in folders if name not in _PRUNED and not _is_environment(parent, name)]
                found.update(f"{parent}/{name}".replace(os.sep, "/") for name in names if name.endswith(".py"))
                if len(found) > _MOST_PROJECT_FILES:
                    self._is_cut = True
                    return []
        return sorted(found)


def _is_environment(parent: str, name: str) -> bool:
    return Path(parent, name, "pyvenv.cfg").exists()


def _text(path: str) -> str:
    """The text of a source; one that no parser takes where it cannot be read, so that nothing is found in its place."""
    try:
        if Path(path).stat().st_size > _MOST_SOURCE_BYTES:
            return "("
        return decode(Path(path).read_bytes())
    except (OSError, SourceError):
        return "("


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def can_be_used(captures: Iterable[ForeignCapture]) -> bool:
    """Whether anything was measured."""
    return any(capture.status != "missing" or capture.device_ns is not None for capture in captures)
