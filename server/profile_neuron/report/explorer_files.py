"""Opens the tables that Neuron Explorer wrote for a run."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import TYPE_CHECKING, Any

from profile_neuron.capture.explorer_tables import COLUMNS, SYSTEM_EVENTS, WARNINGS, check_columns, read_system_events
from profile_neuron.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from profile_neuron.core.model import DeviceTrace

_PROFILES = "profiles/global/*@latest"


def explorer_trace(folder: Path, pid: int) -> DeviceTrace | None:
    """What ran on the device for one process, by the tables in a data folder; None where they tell of no execution.

    Raises CaptureError, in one sentence, where there are tables that cannot be read.
    """
    profiles = [found for found in sorted(folder.glob(_PROFILES)) if _parts(found, SYSTEM_EVENTS)]
    if len(profiles) > 1:
        raise CaptureError(f"{folder} holds system profiles of {len(profiles)} captures; profile again")
    if not profiles:
        return None
    return read_system_events(_events(profiles[0]), pid, _messages(profiles[0]))


def _events(profile: Path) -> Iterator[dict[str, object]]:
    for part in _parts(profile, SYSTEM_EVENTS):
        with _opened(part) as file:
            check_columns(file.schema_arrow.names)
            yield from _rows(file, COLUMNS)


def _messages(profile: Path) -> Iterator[str]:
    for part in _parts(profile, WARNINGS):
        with _opened(part) as file:
            yield from (str(row["message"]) for row in _rows(file, ("message",)) if "message" in row)


def _parts(profile: Path, table: str) -> list[Path]:
    """The files of a table; a large one has several, and one without rows none."""
    named = re.compile(rf"{table}(_[0-9]+)?\.parquet")
    return sorted(path for path in profile.glob(f"{table}*") if named.fullmatch(path.name))


def _rows(file: Any, columns: Sequence[str]) -> Iterator[dict[str, object]]:
    """Rows with those of the columns that there are."""
    names = [name for name in columns if name in file.schema_arrow.names]
    for batch in file.iter_batches(columns=names):
        yield from batch.to_pylist()


@contextlib.contextmanager
def _opened(part: Path) -> Iterator[Any]:
    """A file of a table; what goes wrong while it is read is a CaptureError."""
    pyarrow = _pyarrow()
    try:
        with pyarrow.parquet.ParquetFile(part) as file:
            yield file
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise CaptureError(f"{part} cannot be read ({_first_line(error)}); profile again") from error


def _pyarrow() -> Any:
    # Optional in a user's environment, and imported only by a report that has tables to read.
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise CaptureError(
            f"Neuron Explorer's tables are read with pyarrow, which cannot be imported ({_first_line(error)}); run "
            f"{sys.executable} -m pip install pyarrow"
        ) from error
    return pyarrow


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
