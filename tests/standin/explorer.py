"""What stands in for neuron-explorer: makes tables and profiles of session directories, and serves them.

Constructed: the options, the files, the columns and the addresses are those of the guides and the schema reference of
SDK 2.31 to 2.33, and no byte of a capture is read. standin_events.json in the session directory, which the stand-in for
a device writes, holds the rows of SystemProfileEvents as a list. README.md has what STANDIN_EXPLORER makes it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

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
# Where the pages and the data are served; --port moves the pages only.
UI_PORT, API_PORT = (int(port) for port in os.environ.get("STANDIN_EXPLORER_PORTS", "3001,3002").split(","))
DATA = Path(os.environ.get("STANDIN_EXPLORER_DATA") or Path.home() / ".local" / "share" / "neuron-explorer")


def current_mode() -> str:
    """What it is just now: the variable, or what the file holds that is named there behind an @."""
    given = os.environ.get("STANDIN_EXPLORER", "")
    return Path(given[1:]).read_text() if given.startswith("@") else given


def main(arguments: Sequence[str]) -> int:
    """Do as the command line says; gives the exit code."""
    mode = current_mode()
    options = _parser(is_old=mode == "old").parse_args(arguments)
    if options.command != "view":
        return _failed("give a command: view")
    if options.session_dir is None and options.ntff is None:
        return _serve(options, mode)
    _log(arguments)
    session = Path(options.session_dir or options.ntff.parent)
    if mode == "fail":
        return _failed(f"No metadata found for system profile: {session.name}")
    if mode == "broken":
        return _failed("processing ended with ERROR_PROCESS_INCOMPLETE")
    if mode == "unknown-flag" and options.display_name:
        return _failed("unknown flag: --display-name")
    if mode == "slow":
        print("Processing…", flush=True)
        signal.pause()
    if not options.ingest_only:
        return _failed("this stand-in serves no profile that it makes; give --ingest-only")
    if not options.display_name:
        return _failed("Missing --display-name")
    if options.output_format is None and mode == "empty":
        return _failed(f"no profile found in {session}")
    if options.session_dir is not None and not (session / EVENTS).exists() and not (session / "ntrace.pb").exists():
        return _failed(f"no profile in {session}")
    rows = json.loads((session / EVENTS).read_text()) if (session / EVENTS).exists() else []
    _write([] if mode == "empty" else rows, options)
    print(f"Processing for {options.display_name} is complete")
    print(f"View profile at http://localhost:{UI_PORT}/profile/{options.display_name}")
    return 0


def _parser(is_old: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="neuron-explorer", allow_abbrev=False)
    parser.add_argument("--version", action="version", version="Neuron Explorer 2.33.38.0 (stand-in)")
    view = parser.add_subparsers(dest="command").add_parser("view", allow_abbrev=False)
    view.add_argument("-d", "--session-dir")
    view.add_argument("-n", "--neff", action="append", type=Path)
    view.add_argument("-s", "--ntff", type=Path)
    view.add_argument("--ingest-only", action="store_true")
    view.add_argument("--output-format", choices=["parquet"])
    view.add_argument("--ignore-device-profile", action="store_true")
    if is_old:
        view.add_argument("--output-file", type=Path)
        view.set_defaults(display_name="old", port=UI_PORT)
    else:
        view.add_argument("--display-name")
        view.add_argument("-p", "--port", type=int, default=UI_PORT)
        view.add_argument("--data-path", type=Path, default=DATA)
    return parser


def _log(arguments: Sequence[str]) -> None:
    """Note in STANDIN_EXPLORER_LOG what is ingested, one list of arguments in each line."""
    path = os.environ.get("STANDIN_EXPLORER_LOG")
    if path:
        with Path(path).open("a") as file:
            file.write(json.dumps(list(arguments)) + "\n")


def _write(rows: list[dict[str, object]], options: argparse.Namespace) -> None:
    if "data_path" in options:
        profile = options.data_path / "profiles" / "global" / f"{options.display_name}@latest"
    else:
        profile = options.output_file
    profile.mkdir(parents=True, exist_ok=True)
    if rows:
        table = pyarrow.Table.from_pylist(rows, schema=SYSTEM_EVENTS)
        pyarrow.parquet.write_table(table, profile / "SystemProfileEvents.parquet")


def _serve(options: argparse.Namespace, mode: str) -> int:
    if mode == "busy":
        return _failed(f"listen tcp :{API_PORT}: bind: address already in use")
    if mode == "down":
        signal.pause()

    class Pages(_Pages):
        profiles = options.data_path / "profiles" / "global"

    class Data(_Data):
        profiles = Pages.profiles

    servers = [ThreadingHTTPServer(("127.0.0.1", options.port), Pages)]
    if mode != "one-port":
        servers.append(ThreadingHTTPServer(("127.0.0.1", API_PORT), Data))
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"View a list of profiles at http://localhost:{options.port}/\nctrl-c to exit", flush=True)
    signal.pause()
    return 0


class _Handler(BaseHTTPRequestHandler):
    profiles: Path

    def names(self) -> list[str]:
        return sorted(path.name.removesuffix("@latest") for path in self.profiles.glob("*@latest"))

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class _Pages(_Handler):
    def do_GET(self) -> None:
        """The list, or the page of a profile."""
        path = unquote(urlsplit(self.path).path)
        name = path.removeprefix("/profile/")
        if path == "/":
            self.answer(200, "Neuron Explorer\n" + "\n".join(self.names()))
        elif current_mode() == "http500" and not name.endswith("-3"):
            self.answer(500, "this profile was processed by another version")
        elif name in self.names():
            self.answer(200, f"Neuron Explorer: {name}")
        else:
            self.answer(404, "No profiling data")


class _Data(_Handler):
    def do_GET(self) -> None:
        """Whether it is well, or what it has."""
        path = urlsplit(self.path).path
        if path == "/api/v1/health":
            self.answer(200, '{"status": "ok"}')
        elif path == "/api/v1/profiles/search" and "x-user-id" in self.headers:
            status = "PROCESSING" if current_mode() == "stuck" else "PROCESSED"
            rows = [{"profile_name": name, "type": "SYSTEM", "status": status} for name in self.names()]
            self.answer(200, json.dumps({"data": rows}))
        else:
            self.answer(400 if "search" in path else 404, "{}")


def _failed(reason: str) -> int:
    print(f"ERROR {reason}", file=sys.stderr)
    return 1
