"""Where a run folder tells what ran on the device: the first source that names operators or lines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from profile_neuron.capture.framework_mapping import merge_mappings, read_framework_mapping
from profile_neuron.capture.framework_trace import read_exported_trace
from profile_neuron.capture.line_log import read_sequences
from profile_neuron.capture.session_dir import find_session_directories
from profile_neuron.core import run_folder
from profile_neuron.core.device_time import SequenceMarks
from profile_neuron.core.executions import device_trace, device_trace_of
from profile_neuron.errors import CaptureError
from profile_neuron.report.explorer_files import explorer_trace
from profile_neuron.report.listing import list_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from profile_neuron.capture.operator_table import OperatorTable
    from profile_neuron.capture.session_dir import SessionDirectory
    from profile_neuron.core.model import DeviceTrace, LineCosts, Submission

IN_PROCESS = "profiler in the worker"
EXPORTED = "exported trace"


@dataclass(slots=True)
class DeviceFiles:
    """What a run folder tells of the device."""

    # None where no source tells anything; of several the one that is closest to the worker.
    trace: DeviceTrace | None = None
    marks: SequenceMarks = field(default_factory=lambda: SequenceMarks((), {}))
    # Why sources that are there could not be read, one sentence each.
    problems: tuple[str, ...] = ()


def device_files(folder: Path, pid: int, table: OperatorTable | None) -> DeviceFiles:
    """Read them. pid: of the worker, whose profile is one of several in a session; table: what it held itself."""
    listing = list_files(folder / run_folder.NEURON)
    problems = list(listing.gaps)
    sessions = [item for item in find_session_directories(listing.files) if item.pid == str(pid)]
    mapping = _mapping(folder / run_folder.NEURON, sessions, problems)
    best: DeviceTrace | None = None
    for source in _sources(folder, pid, table, sessions, mapping):
        try:
            found = source()
        except (CaptureError, OSError) as error:
            problems.append(str(error))
            continue
        if found is not None and any(item.operators or item.submissions for item in found.executions):
            best = found
            break
        best = best or found
    return DeviceFiles(best, _marks(folder, table, problems), tuple(problems))


def untold_session(folder: Path, costs: LineCosts) -> str:
    """The session directory of which Neuron Explorer could tell the device's times; empty where they are known.

    Empty, too, where its tables are there already.
    """
    is_known = costs.device_kind != "neuron" or costs.functions[0].measure == "device"
    if is_known or (folder / run_folder.EXPLORER).exists():
        return ""
    sessions = find_session_directories(list_files(folder / run_folder.NEURON).files)
    return next((str(folder / run_folder.NEURON / item.path) for item in sessions if item.has_system_profile), "")


def _sources(
    folder: Path,
    pid: int,
    table: OperatorTable | None,
    sessions: list[SessionDirectory],
    mapping: Mapping[int, tuple[Submission, ...]],
) -> Iterator[Callable[[], DeviceTrace | None]]:
    """Most trusted first; none is opened before those ahead of it have failed."""
    if table is not None:
        yield lambda: device_trace(table.device_events, table.trace.events, IN_PROCESS, table.dispatches, mapping)
    traces = [folder / run_folder.NEURON / file.path for item in sessions for file in item.framework_traces]
    own = folder / run_folder.TRACE
    for path in [*traces, *([own] if own.exists() else [])]:
        yield lambda path=path: _exported(path, mapping)  # type: ignore[misc]
    yield lambda: explorer_trace(folder / run_folder.EXPLORER, pid)


def _exported(path: Path, mapping: Mapping[int, tuple[Submission, ...]]) -> DeviceTrace | None:
    trace = read_exported_trace(path.read_bytes())
    found = device_trace_of(trace, EXPORTED, mapping)
    if found is None:
        return None
    return replace(found, warnings=trace.warnings, is_incomplete=trace.status == "partial")


def _mapping(
    folder: Path, sessions: list[SessionDirectory], problems: list[str]
) -> Mapping[int, tuple[Submission, ...]]:
    """What the runtime noted of which operators each execution was made."""
    mappings = []
    for path in (folder / file.path for item in sessions for file in item.framework_mappings):
        try:
            mappings.append(read_framework_mapping(path.read_bytes()))
        except (CaptureError, OSError) as error:
            problems.append(f"{path.name}: {error}")
    merged = merge_mappings(mappings)
    problems += merged.warnings
    return merged.submissions


def _marks(folder: Path, table: OperatorTable | None, problems: list[str]) -> SequenceMarks:
    path = folder / run_folder.SEQUENCES
    try:
        marks = read_sequences(path.read_bytes()) if path.exists() else ()
    except (CaptureError, OSError) as error:
        problems.append(str(error))
        marks = ()
    return SequenceMarks(marks, table.threads if table is not None else {})
