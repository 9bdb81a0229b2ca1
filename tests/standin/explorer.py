"""What stands in for neuron-explorer: makes tables of rows that lie ready in a session directory.

Constructed: the options, the files and the columns are those of the guides and the schema reference of SDK 2.31 to 2.33,
and no byte of a capture is read. standin_events.json in the session directory, which the stand-in for a device writes,
holds the rows of SystemProfileEvents as a list. STANDIN_EXPLORER makes it another one: fail, slow, old
(--output-file in place of --data-path) or empty (a profile without rows).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pyarrow.parquet

if TYPE_CHECKING:
    from collections.abc import Sequence

EVENTS = "standin_events.json"
SYSTEM_EVENTS = pyarrow.schema(
    [
        ("id", pyarrow.int64()),
        ("name", pyarrow.string()),
        ("start_ts", pyarrow.int64()),
        ("end_ts", pyarrow.int64()),
        ("duration_ns", pyarrow.int64()),
        ("trace_event_source", pyarrow.string()),
        ("instance_id", pyarrow.string()),
        ("process_id", pyarrow.int64()),
        ("thread_id", pyarrow.int64()),
        ("nc_idx", pyarrow.int64()),
        ("pcore_idx", pyarrow.int64()),
        ("worker_gid", pyarrow.int64()),
        ("flow_id", pyarrow.list_(pyarrow.string())),
        ("framework_stream_id", pyarrow.string()),
        ("extra_attributes_json", pyarrow.string()),
    ]
)


def main(arguments: Sequence[str]) -> int:
    """Do as the command line says; gives the exit code."""
    mode = os.environ.get("STANDIN_EXPLORER", "")
    options = _parser(is_old=mode == "old").parse_args(arguments)
    if options.command != "view":
        return _failed("give a command: view")
    session = Path(options.session_dir)
    if mode == "fail":
        return _failed(f"No metadata found for system profile: {session.name}")
    if mode == "slow":
        print("Processing…", flush=True)
        signal.pause()
    if not options.ingest_only:
        return _failed("this stand-in serves no page; give --ingest-only")
    try:
        rows = json.loads((session / EVENTS).read_text())
    except FileNotFoundError:
        return _failed(f"no profile in {session}")
    _write([] if mode == "empty" else rows, options)
    print(f"View profile at http://localhost:3001/profile/{options.display_name}")
    return 0


def _parser(is_old: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="neuron-explorer", allow_abbrev=False)
    parser.add_argument("--version", action="version", version="Neuron Explorer 2.33.38.0 (stand-in)")
    view = parser.add_subparsers(dest="command").add_parser("view", allow_abbrev=False)
    view.add_argument("-d", "--session-dir", required=True)
    view.add_argument("--ingest-only", action="store_true")
    view.add_argument("--display-name", required=True)
    view.add_argument("--output-format", choices=["parquet"], default="parquet")
    view.add_argument("--ignore-device-profile", action="store_true")
    if is_old:
        view.add_argument("--output-file", type=Path)
    else:
        view.add_argument("--data-path", type=Path, default=Path.home() / ".local" / "share" / "neuron-explorer")
    return parser


def _write(rows: list[dict[str, object]], options: argparse.Namespace) -> None:
    if "data_path" in options:
        profile = options.data_path / "profiles" / "global" / f"{options.display_name}@latest"
    else:
        profile = options.output_file
    profile.mkdir(parents=True, exist_ok=True)
    if rows:
        table = pyarrow.Table.from_pylist(rows, schema=SYSTEM_EVENTS)
        pyarrow.parquet.write_table(table, profile / "SystemProfileEvents.parquet")


def _failed(reason: str) -> int:
    print(f"ERROR {reason}", file=sys.stderr)
    return 1
