"""Opens the files of a run folder and makes its result; the only way results are made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from profile_neuron.capture.framework_trace import read_framework_trace
from profile_neuron.capture.line_log import read_line_log, read_notes, read_record
from profile_neuron.capture.operator_table import read_operator_table
from profile_neuron.core import run_folder
from profile_neuron.core.attribution import attribute
from profile_neuron.core.model import NO_NOTES
from profile_neuron.errors import CaptureError
from profile_neuron.report.device_files import DeviceFiles, device_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from profile_neuron.capture.operator_table import OperatorTable
    from profile_neuron.core.model import AgentNotes, LineCosts, Trace
    from profile_neuron.wire.messages import Phase


def report(folder: Path, progress: Callable[[Phase], None] = lambda phase: None) -> LineCosts:
    """Line costs of the run that left a folder; progress gets the phases read and attribute.

    Raises CaptureError, in one sentence that names the folder, where there is no result in it.
    """
    if not folder.is_dir():
        raise CaptureError(f"{folder} is not a folder; give the run folder that run --keep printed")
    progress("read")
    try:
        record = read_record(_content(folder, run_folder.RECORD))
        log = read_line_log(_content(folder, run_folder.LINES))
        trace, table = _trace(folder)
        device = DeviceFiles() if record.device is None else device_files(folder, record.device.pid, table)
        notes = _notes(folder)
        progress("attribute")
        trace = replace(trace, warnings=(*trace.warnings, *device.problems))
        return attribute(record, trace, log, device.trace, device.marks, notes)
    except CaptureError as error:
        raise CaptureError(f"{folder}: {error}") from error


def _trace(folder: Path) -> tuple[Trace, OperatorTable | None]:
    """The operator table, which is steadier than torch's export, else the export with a warning."""
    try:
        table = read_operator_table(_content(folder, run_folder.OPERATORS))
    except CaptureError as error:
        trace = read_framework_trace(_content(folder, run_folder.TRACE))
        return replace(trace, warnings=(f"{error}; read the exported trace instead", *trace.warnings)), None
    return table.trace, table


def _notes(folder: Path) -> AgentNotes:
    """What the agent wrote about the run; nothing where it is from a version that did not."""
    if not (folder / run_folder.AGENT).exists():
        return NO_NOTES
    return read_notes(_content(folder, run_folder.AGENT))


def _content(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        reason = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise CaptureError(f"{name} {reason}, so this is not a complete run folder; profile again") from error
