"""Tables made of a session by the stand-in for neuron-explorer, as a process; its rows are constructed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from profile_neuron.agent import device, explorer
from profile_neuron.report.explorer_files import explorer_trace
from tests.conftest import ROOT
from tests.standin.explorer import EVENTS
from tests.unit.test_child import ended
from tests.unit.test_explorer_tables import GOLDEN, PID, read

BIN = ROOT / "tests" / "standin" / "bin"
# For what has to come to its end on a busy machine.
LONG_S = 120.0


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A session directory; the stand-in is on PATH, with the interpreter of the tests."""
    folder = tmp_path / "out" / f"i-0abc_pid_{PID}" / "20261026_101500"
    folder.mkdir(parents=True)
    (folder / EVENTS).write_text(json.dumps(GOLDEN))
    return folder


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", f"{BIN}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def export(session: Path, into: Path, limit_s: float = LONG_S) -> str:
    return asyncio.run(explorer.export_tables(session, into, limit_s))


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Have a shell script stand in."""
    path = folder / "bin" / "neuron-explorer"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    return path


@pytest.mark.parametrize("mode", ["", "old"])
def test_the_tables_of_a_session_are_read_back(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("STANDIN_EXPLORER", mode)
    into = tmp_path / "with space" / "explorer"
    assert export(session, into) == ""
    assert explorer_trace(into, PID) == read(*GOLDEN)
    assert into.stat().st_mode & 0o077 == 0
    assert not (tmp_path / "home").exists(), "nothing is left among the user's own profiles"


def test_a_profile_without_rows_is_no_failure(session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_EXPLORER", "empty")
    assert export(session, tmp_path / "explorer") == ""
    assert explorer_trace(tmp_path / "explorer", PID) is None


def test_a_failure_is_one_sentence_with_its_last_line(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_EXPLORER", "fail")
    assert export(session, tmp_path / "explorer") == (
        f"{BIN / 'neuron-explorer'} view -d {session} failed with exit code 1 (ERROR No metadata found for system "
        "profile: 20261026_101500); run it by hand to see more"
    )


def test_a_program_that_does_not_end_is_ended_with_what_it_started(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    script = f"""
case "$*" in *--help) echo --ingest-only --data-path; exit;; esac
sleep 600 &
echo $$ $! > {pids}
wait
"""
    started = program(tmp_path, monkeypatch, script)
    os.mkfifo(pids)

    async def both() -> tuple[str, list[int]]:
        # The program waits for a reader, and so has begun when this ends.
        reading = asyncio.create_task(asyncio.to_thread(pids.read_text))
        exporting = asyncio.create_task(explorer.export_tables(session, tmp_path / "explorer", 5.0))
        return await exporting, [int(pid) for pid in (await reading).split()]

    reason, ids = asyncio.run(both())
    assert reason == f"{started} took longer than 5 s for {session} and was ended; profile fewer calls"
    assert len(ids) == 2
    assert all(ended(pid) for pid in ids)


def test_the_stand_in_that_is_slow_is_ended(session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_EXPLORER", "slow")
    assert "took longer than 5 s" in export(session, tmp_path / "explorer", 5.0)


LACKING = {
    "nothing": ("echo unknown command", "has no option --ingest-only, without which it does not end"),
    "a longer name": (
        "echo --ingest-only --data-path-check --no-output-file",
        "has neither --data-path nor --output-file, and so no place for its tables",
    ),
}


@pytest.mark.parametrize("kind", LACKING)
def test_a_version_that_lacks_an_option_is_not_started(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    script, lack = LACKING[kind]
    started = program(tmp_path, monkeypatch, f"{script}\necho once >> {tmp_path}/times\n")
    assert export(session, tmp_path / "explorer") == f"{started} {lack}; update the package aws-neuronx-tools"
    assert (tmp_path / "times").read_text() == "once\n"


def test_options_that_are_not_in_the_help_are_left_out(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f'case "$*" in *--help) echo "-ingest-only, -data-path string"; exit;; esac\necho "$@" > {tmp_path}/said\n'
    program(tmp_path, monkeypatch, script)
    assert export(session, tmp_path / "explorer") == ""
    assert (tmp_path / "said").read_text() == f"view -d {session} --ingest-only --data-path {tmp_path}/explorer\n"


def test_a_program_that_cannot_even_tell_its_options_says_why(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = program(tmp_path, monkeypatch, "echo some text\necho no libnrt.so.1 >&2\nexit 127\n")
    assert export(session, tmp_path / "explorer") == (
        f"{started} view --help failed with exit code 127 (no libnrt.so.1); run it by hand to see more"
    )


def test_a_program_that_hangs_at_its_help_is_ended(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = program(tmp_path, monkeypatch, "exec sleep 600\n")
    assert export(session, tmp_path / "explorer", 0.5) == (
        f"{started} view --help did not end (it said nothing); run it by hand to see more"
    )


def test_a_crash_after_much_output_is_told_by_its_signal(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'case "$*" in *--help) echo --ingest-only --data-path; exit;; esac\nyes | head -c 5000000\nkill -SEGV $$\n'
    program(tmp_path, monkeypatch, script)
    assert "failed with signal 11 (SIGSEGV) (y); run it by hand" in export(session, tmp_path / "explorer")


def test_without_the_program_the_sentence_names_its_package(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(device, "_FOLDER", tmp_path / "nowhere")
    assert export(session, tmp_path / "explorer") == (
        "Neuron Explorer is not installed; install the package aws-neuronx-tools, which has neuron-explorer"
    )
    monkeypatch.setattr(device, "_FOLDER", BIN)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    assert export(session, tmp_path / "explorer") == ""


def test_a_program_that_cannot_be_executed_is_one_sentence(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = program(tmp_path, monkeypatch, "")
    started.write_bytes(b"\x7fELF of another machine")
    reason = export(session, tmp_path / "explorer")
    assert reason.startswith(f"the tables of Neuron Explorer cannot be made ({started} cannot be started: ")
