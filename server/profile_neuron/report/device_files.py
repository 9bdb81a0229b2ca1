"""Where a run folder tells what ran on the device: the first source that names operators or lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profile_neuron.capture.line_log import read_sequences
from profile_neuron.core import run_folder
from profile_neuron.core.device_time import SequenceMarks
from profile_neuron.core.executions import device_trace
from profile_neuron.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from profile_neuron.capture.operator_table import OperatorTable
    from profile_neuron.core.model import DeviceTrace, Submission

IN_PROCESS = "profiler in the worker"


def device_of(folder: Path, table: OperatorTable | None) -> tuple[DeviceTrace | None, SequenceMarks, tuple[str, ...]]:
    """What ran on the device, the line clock's marks for it, and why sources that are there could not be read.

    Of several sources the one that is closest to the worker; None where none tells anything.
    """
    problems: list[str] = []
    mapping: dict[int, tuple[Submission, ...]] = {}
    best: DeviceTrace | None = None
    for source in _sources(folder, table, mapping):
        try:
            found = source()
        except CaptureError as error:
            problems.append(str(error))
            continue
        if found is not None and any(item.operators or item.submissions for item in found.executions):
            best = found
            break
        best = best or found
    return best, _marks(folder, table, problems), tuple(problems)


def _sources(
    folder: Path, table: OperatorTable | None, mapping: dict[int, tuple[Submission, ...]]
) -> Iterator[Callable[[], DeviceTrace | None]]:
    """Most trusted first; none is opened before those ahead of it have failed."""

    def in_process() -> DeviceTrace | None:
        if table is None:
            return None
        return device_trace(table.device_events, table.trace.events, IN_PROCESS, table.dispatches, mapping)

    yield in_process


def _marks(folder: Path, table: OperatorTable | None, problems: list[str]) -> SequenceMarks:
    path = folder / run_folder.SEQUENCES
    try:
        marks = read_sequences(path.read_bytes()) if path.exists() else ()
    except (CaptureError, OSError) as error:
        problems.append(str(error))
        marks = ()
    return SequenceMarks(marks, table.threads if table is not None else {})
