"""When a trace counts as complete, by looks at the files around it; all times are given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from profile_neuron.daemon import foreign
from profile_neuron.daemon.foreign import CUT_QUIET_S, MOST_TRACES, QUIET_S, Arrivals, SeenFile

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SESSION = "/out/i-0abc_pid_4242/1790000000"
TRACE = f"{SESSION}/trace.json"


def seen(path: str, size_bytes: int = 10, mtime_ns: int = 1) -> SeenFile:
    return SeenFile(path, size_bytes, mtime_ns)


def paths(arrivals: Arrivals, files: list[SeenFile], now_s: float) -> list[str]:
    return [item.path for item in arrivals.look(files, now_s)]


def test_a_trace_is_taken_at_the_second_look_that_finds_the_same() -> None:
    arrivals = Arrivals()
    assert paths(arrivals, [seen(TRACE)], 0.0) == []
    assert paths(arrivals, [seen(TRACE)], QUIET_S / 2) == [], "two looks in too short a time"
    assert paths(arrivals, [seen(TRACE)], QUIET_S) == [TRACE]


def test_a_trace_that_grows_is_waited_for() -> None:
    arrivals = Arrivals()
    paths(arrivals, [seen(TRACE)], 0.0)
    assert paths(arrivals, [seen(TRACE, 11)], 9.0) == []
    assert paths(arrivals, [seen(TRACE, 11, mtime_ns=2)], 10.0) == [], "written over in place"
    assert paths(arrivals, [seen(TRACE, 11, mtime_ns=2)], 11.0) == [TRACE]


def test_other_files_of_its_session_are_waited_for() -> None:
    arrivals = Arrivals()
    paths(arrivals, [seen(TRACE), seen(f"{SESSION}/ab/cd/x.neff")], 0.0)
    assert paths(arrivals, [seen(TRACE), seen(f"{SESSION}/ab/cd/x.neff", 99)], 2.0) == []
    other = seen("/out/i-0abc_pid_4242/1790000009/ntrace.pb", 99)
    assert paths(arrivals, [seen(TRACE), seen(f"{SESSION}/ab/cd/x.neff", 99), other], 3.0) == [TRACE]


def test_a_session_with_an_unfinished_file_is_never_taken() -> None:
    arrivals = Arrivals()
    files = [seen(TRACE), seen(f"{SESSION}/ntrace.pb.tmp")]
    assert [paths(arrivals, files, now_s) for now_s in (0.0, 2.0, 100.0)] == [[], [], []]
    paths(arrivals, files[:1], 101.0)
    assert paths(arrivals, files[:1], 102.0) == [TRACE]


def test_a_trace_outside_of_sessions_waits_for_its_own_unfinished_form_only() -> None:
    arrivals = Arrivals()
    loose = "/out/my trace.json"
    for now_s in (0.0, 1.0):
        found = paths(
            arrivals, [seen("/out/trace.json"), seen("/out/trace.json.tmp"), seen("/out/b.trace.json")], now_s
        )
    assert found == ["/out/b.trace.json"]
    assert paths(arrivals, [seen(loose)], 5.0) == paths(arrivals, [seen(loose)], 6.0) == [], "no name of a trace"


def test_how_long_it_was_quiet_is_told_for_traces_that_are_cut() -> None:
    arrivals = Arrivals()
    arrivals.look([seen(TRACE)], 10.0)
    (found,) = arrivals.look([seen(TRACE)], 10.0 + CUT_QUIET_S)
    assert found.quiet_s == CUT_QUIET_S


def test_of_many_traces_the_newest_are_taken() -> None:
    arrivals = Arrivals()
    files = [seen(f"/out/{number}.trace.json", mtime_ns=number) for number in range(MOST_TRACES + 5)]
    arrivals.look(files, 0.0)
    found = paths(arrivals, files, 1.0)
    assert len(found) == MOST_TRACES
    assert "/out/4.trace.json" not in found
    assert "/out/5.trace.json" in found


def test_runs_of_ours_are_no_profiles_of_the_users() -> None:
    arrivals = Arrivals()
    files = [seen("/out/run/run.json"), seen("/out/run/trace.json"), seen("/out/run/neuron/i_pid_1/a/trace.json")]
    arrivals.look(files, 0.0)
    assert arrivals.look(files, 1.0) == ()


def test_a_folder_inside_of_another_one_that_is_watched_counts_once() -> None:
    arrivals = Arrivals()
    files = [seen(f"/out/{number}.trace.json", mtime_ns=number) for number in range(MOST_TRACES)]
    arrivals.look([*files, *files], 0.0)
    assert len({item.path for item in arrivals.look([*files, *files], 1.0)}) == MOST_TRACES


def test_a_look_sees_files_and_no_links_and_no_more_than_there_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = tmp_path / "in 'side'\n", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "trace.json").write_bytes(b"{}")
    (inside / "link.trace.json").symlink_to(outside / "trace.json")
    (inside / "folder").symlink_to(outside, target_is_directory=True)
    os.mkfifo(inside / "pipe.trace.json")
    assert [file.path for file in foreign.files_below(str(inside))] == [f"{inside}/trace.json"]
    assert list(foreign.files_below(str(tmp_path / "not there"))) == []
    monkeypatch.setattr(foreign, "MOST_FILES", 3)
    for number in range(9):
        (inside / f"{number}.neff").touch()
    assert len(list(foreign.files_below(str(inside)))) == 3
