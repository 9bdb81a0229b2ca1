"""Run folders on disk: which are ours, which stay, and what is left alone."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from profile_neuron.agent.runs import RunFolder
from profile_neuron.core.retention import DAY_S
from profile_neuron.kept_runs import NEWEST, RUNNING, SHOWN, YOUNG, clean, kept_runs, listing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW_S = time.time()


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "profile-neuron" / "runs"
    folder.mkdir(mode=0o700, parents=True)
    return folder


@pytest.fixture
def make(runs: Path, tmp_path: Path) -> Callable[..., Path]:
    """Make a run folder of a function, so many days old; gone: its source file is no longer there."""
    (tmp_path / "model.py").touch()

    def made(run_id: str, days_ago: float, qualname: str = "f", *, gone: bool = False, size: int = 0) -> Path:
        folder = runs / run_id
        (folder / "neuron" / "session").mkdir(parents=True)
        (folder / "neuron" / "session" / "0.ntff").write_bytes(b"x" * size)
        path = str(tmp_path / ("gone.py" if gone else "model.py"))
        record = {"path": path, "qualname": qualname, "device_name": "trn2", "toolchain": {"device_name": "cpu"}}
        (folder / "run.json").write_text(json.dumps(record))
        os.utime(folder / "run.json", (NOW_S - days_ago * DAY_S,) * 2)
        return folder

    return made


def names(runs: Path) -> list[str]:
    return sorted(path.name for path in runs.iterdir())


def test_what_is_told_of_a_run(runs: Path, make: Callable[..., Path]) -> None:
    folder = make("20261129-101500-1f3c", 2, "Block.forward", size=1000)
    (entry,) = kept_runs(runs, NOW_S)
    assert (entry.folder, entry.run.run_id, entry.qualname, entry.device) == (
        folder, "20261129-101500-1f3c", "Block.forward", "trn2",
    )  # fmt: skip
    assert entry.run.size_bytes == 1000 + (folder / "run.json").stat().st_size
    assert entry.run.finished_s == pytest.approx(NOW_S - 2 * DAY_S, abs=1)


def test_why_each_stays_the_newest_first(runs: Path, make: Callable[..., Path]) -> None:
    make("young", 0.5)
    make("older", 2)
    make("newest-of-g", 3, "g")
    make("gone", 4, "h", gone=True)
    assert [(entry.run.run_id, entry.reason) for entry in kept_runs(runs, NOW_S)] == [
        ("young", YOUNG),
        ("older", "one of the newest 50"),
        ("newest-of-g", NEWEST),
        ("gone", "one of the newest 50"),
    ]


def test_what_an_editor_shows_stays_and_goes_when_it_no_longer_says_so(runs: Path, make: Callable[..., Path]) -> None:
    make("newest", 20)
    for run_id, days_ago in (("shown", 0.5), ("forgotten", 2)):
        folder = make(run_id, 30)
        (folder / "shown").touch()
        os.utime(folder / "shown", (NOW_S - days_ago * DAY_S,) * 2)
    assert {entry.run.run_id: entry.reason for entry in kept_runs(runs, NOW_S)}["shown"] == SHOWN
    RunFolder("new").remove()
    assert names(runs) == ["newest", "shown"]


def test_a_new_folder_prunes_what_is_too_old_and_leaves_the_newest_of_each_function(
    runs: Path, make: Callable[..., Path]
) -> None:
    make("old-f", 30)
    make("newer-f", 20)
    make("old-gone", 20, gone=True)
    folder = RunFolder("new")
    assert names(runs) == ["new", "newer-f"]
    folder.remove()


def test_a_new_folder_prunes_what_is_more_than_fifty(runs: Path, make: Callable[..., Path]) -> None:
    for number in range(55):
        make(f"run-{number:02}", 2 + number / 100)
    folder = RunFolder("new")
    assert names(runs) == ["new", *(f"run-{number:02}" for number in range(50))]
    folder.remove()


def test_what_is_not_ours_is_left_alone(runs: Path, make: Callable[..., Path], tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "run.json").write_text("{}")
    (runs / "link").symlink_to(outside)
    (runs / "no-record").mkdir()
    (runs / "linked-record").mkdir()
    (runs / "linked-record" / "run.json").symlink_to(outside / "run.json")
    (runs / "file").touch()
    make("odd name", 30, gone=True)
    assert kept_runs(runs, NOW_S) == ()
    before = names(runs)
    RunFolder("new").remove()
    assert names(runs) == before
    assert (outside / "run.json").exists()


def test_a_link_in_a_run_folder_is_removed_and_not_what_it_points_to(
    runs: Path, make: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").touch()
    folder = make("linked", 30, gone=True)
    (folder / "neuron" / "there").symlink_to(tmp_path / "outside")
    (folder / "there").symlink_to(tmp_path / "outside")
    (entry,) = kept_runs(runs, NOW_S)
    assert entry.run.size_bytes < 1000, "what a link points to does not count"
    RunFolder("new").remove()
    assert names(runs) == []
    assert (tmp_path / "outside" / "precious").exists()


def test_a_run_that_is_on_stays(runs: Path, make: Callable[..., Path]) -> None:
    make("kept", 1)
    folder = RunFolder("on")
    entries = kept_runs(runs, NOW_S)
    assert [(entry.run.run_id, entry.reason) for entry in entries if entry.run.run_id == "on"] == [("on", RUNNING)]
    assert [entry.run.run_id for entry in clean(entries)] == ["kept"]
    assert names(runs) == ["on"]
    folder.keep()
    (folder.path / "run.json").write_text("{}")
    assert [entry.run.run_id for entry in clean(kept_runs(runs, NOW_S))] == ["on"]
    assert names(runs) == []


@pytest.mark.parametrize("record", ["", "[]", '{"path": 3, "qualname": null, "toolchain": []}', "[" * 100_000])
def test_a_damaged_record_says_nothing_and_its_folder_is_still_ours(
    record: str, runs: Path, make: Callable[..., Path]
) -> None:
    (make("damaged", 30) / "run.json").write_text(record)
    (entry,) = kept_runs(runs, NOW_S)
    assert (entry.path, entry.qualname, entry.device) == ("", "", "")
    assert listing([entry])[1].split("  ")[0] == "damaged"


def test_a_listing_holds_no_control_characters(runs: Path, make: Callable[..., Path]) -> None:
    make("a", 2, "f\x1b[31m\n")
    assert "f·[31m·" in listing(kept_runs(runs, NOW_S))[1]
