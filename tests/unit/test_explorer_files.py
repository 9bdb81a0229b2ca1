"""Parquet files as Neuron Explorer writes them to what ran on the device; all tables are constructed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pyarrow
import pyarrow.parquet
import pytest

from profile_neuron.errors import CaptureError
from profile_neuron.report.explorer_files import explorer_trace
from tests.standin.explorer import SYSTEM_EVENTS
from tests.unit.test_explorer_tables import GOLDEN, PID, read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.unit.test_explorer_tables import Row


def write(folder: Path, rows: Sequence[Row], name: str = "SystemProfileEvents.parquet", profile: str = "any") -> Path:
    path = folder / "profiles" / "global" / f"{profile}@latest" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = SYSTEM_EVENTS if name.startswith("System") else None
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema=schema), path)
    return path


def test_a_table_gives_what_its_rows_give(tmp_path: Path) -> None:
    write(tmp_path, GOLDEN)
    assert explorer_trace(tmp_path, PID) == read(*GOLDEN)


def test_parts_are_one_table(tmp_path: Path) -> None:
    for number, row in enumerate(GOLDEN):
        write(tmp_path, [row], f"SystemProfileEvents_{number}.parquet")
    assert explorer_trace(tmp_path, PID) == read(*GOLDEN)


def test_other_tables_are_none_of_its_parts(tmp_path: Path) -> None:
    write(tmp_path, GOLDEN)
    write(tmp_path, [{"id": 1}], "SystemProfileEventsSummary_0.parquet", profile="any")
    write(tmp_path, [{"id": 1}], "Instruction.parquet", profile="neff_1_vnc_0")
    assert explorer_trace(tmp_path, PID) == read(*GOLDEN)


def test_a_table_that_is_missing_has_no_rows(tmp_path: Path) -> None:
    assert explorer_trace(tmp_path, PID) is None
    write(tmp_path, [{"profile_schema_version": "7.4.0"}], "Metadata.parquet")
    assert explorer_trace(tmp_path, PID) is None


def test_columns_of_another_type_are_read(tmp_path: Path) -> None:
    rows = [{**row, "id": str(row["id"]), "flow_id": str(row["flow_id"]).replace("'", '"')} for row in GOLDEN]
    path = write(tmp_path, GOLDEN)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert explorer_trace(tmp_path, PID) == read(*GOLDEN)


def test_dropped_events_are_told_by_the_table_of_warnings(tmp_path: Path) -> None:
    write(tmp_path, GOLDEN)
    message = "12 trace events were dropped during capture"
    write(tmp_path, [{"message": message, "category": "Missing Data"}, {"message": None}], "Warning.parquet")
    found = explorer_trace(tmp_path, PID)
    assert found == read(*GOLDEN, messages=(message,))
    assert found.warnings


def test_a_table_of_another_version_is_one_sentence(tmp_path: Path) -> None:
    path = write(tmp_path, GOLDEN)
    pyarrow.parquet.write_table(pyarrow.table({"timestamp": [1], "duration": [2]}), path)
    with pytest.raises(CaptureError, match="has no column name or start_ts or end_ts or trace_event_source"):
        explorer_trace(tmp_path, PID)


@pytest.mark.parametrize("content", [b"", b"PAR1 cut short", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_a_damaged_file_is_one_sentence_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path, GOLDEN)
    path.write_bytes(content)
    with pytest.raises(CaptureError) as raised:
        explorer_trace(tmp_path, PID)
    assert str(raised.value).startswith(f"{path} cannot be read (")
    assert "\n" not in str(raised.value)


def test_profiles_of_two_captures_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path, GOLDEN, profile="one")
    write(tmp_path, GOLDEN, profile="two")
    with pytest.raises(CaptureError, match="holds system profiles of 2 captures"):
        explorer_trace(tmp_path, PID)


def test_without_pyarrow_the_sentence_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert explorer_trace(tmp_path, PID) is None, "nothing is needed where there is no table"
    write(tmp_path, GOLDEN)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(CaptureError) as raised:
        explorer_trace(tmp_path, PID)
    assert str(raised.value).endswith(f"; run {sys.executable} -m pip install pyarrow")
