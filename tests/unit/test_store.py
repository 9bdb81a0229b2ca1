"""Finished results on disk: what is kept, what goes, and what other processes and damage may do to it."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from profile_neuron.daemon.store import ROWS_PER_FUNCTION, ROWS_PER_KEY, VERSION, Row, Store
from profile_neuron.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    MakeStore = Callable[..., Store]

ROW = Row("/p/m.py", "A.f", 0, "00ff", 1000.0, b"body")
NOW = 2000.0

# Each waits for a line after its greeting, so that they begin together.
WRITER = """
import logging, os, sys
from pathlib import Path
from profile_neuron.daemon.store import Row, Store
logging.basicConfig(format="%(levelname)s")
store = Store(Path(sys.argv[1]), 10**9, 10**11)
print("ready", flush=True)
sys.stdin.readline()
"""
ADDS_100 = (
    WRITER
    + """
for n in range(100):
    store.add(Row("/p/m.py", f"{sys.argv[2]}{n}", 0, "00", float(n), b"x" * n))
store.close()
"""
)
ADDS_FOR_EVER = (
    WRITER
    + """
n = 0
while True:
    store.add(Row("/p/m.py", f"{sys.argv[2]}{n}", 0, "00", float(n), os.urandom(200_000)))
    print(n, flush=True)
    n += 1
    if n % 3 == 0:
        store.close()
"""
)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeStore]:
    """Makes stores on one folder, and closes them at the end."""
    stores: list[Store] = []

    def store(max_bytes: int = 10**9, max_age_s: float = 10**6, now: float = NOW) -> Store:
        stores.append(Store(tmp_path / "results", max_bytes, max_age_s, lambda: now))
        return stores[-1]

    yield store
    for item in stores:
        item.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "results" / "results.sqlite"


def times(store: Store, path: str = ROW.path) -> list[float]:
    return [row.finished_s for row in store.load(path)]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def start(script: str, folder: Path, name: str) -> subprocess.Popen[str]:
    """A process that has imported the store and waits to begin."""
    command = [sys.executable, "-c", script, str(folder), name]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_a_row_comes_back_as_it_was_given_also_after_closing(make: MakeStore) -> None:
    row = Row("/p/gr\u00f6\u00dfe.py", "A.f.<locals>.\u03b1", 2, "ab" * 32, 1234.5678901, bytes(range(256)) * 50)
    store = make()
    store.add(row)
    assert store.load(row.path) == (row,)
    store.close()
    assert store.load(row.path) == (row,), "a closed store opens again"
    assert make().load(row.path) == (row,)


def test_an_empty_body_is_a_body(make: MakeStore) -> None:
    store = make()
    store.add(replace(ROW, body=b""))
    assert store.load(ROW.path) == (replace(ROW, body=b""),)


def test_a_file_without_results_has_no_rows(make: MakeStore) -> None:
    store = make()
    store.add(ROW)
    assert store.load("/p/other.py") == ()


def test_rows_come_newest_first_in_whatever_order_they_were_added(make: MakeStore) -> None:
    store = make()
    for time_s in (3.0, 1.0, 2.0):
        store.add(replace(ROW, qualname=f"f{time_s}", finished_s=NOW + time_s))
    store.add(replace(ROW, qualname="later at the same time", finished_s=NOW + 2.0))
    assert [row.qualname for row in store.load(ROW.path)] == ["f3.0", "later at the same time", "f2.0", "f1.0"]


def test_two_stores_on_one_folder_see_each_others_rows(make: MakeStore) -> None:
    one, other = make(), make()
    one.add(ROW)
    assert other.load(ROW.path) == (ROW,)
    other.add(replace(ROW, finished_s=NOW))
    assert times(one) == [NOW, ROW.finished_s]
    assert one.remove(ROW.path) == 2
    assert other.load(ROW.path) == ()


def test_of_one_key_the_newest_rows_stay(make: MakeStore) -> None:
    store = make()
    for time_s in (5.0, 1.0, 4.0, 2.0, 3.0):
        store.add(replace(ROW, finished_s=time_s))
    store.add(replace(ROW, key="other", finished_s=0.0))
    store.add(replace(ROW, occurrence=1, finished_s=0.5))
    assert times(store) == [5.0, 4.0, 3.0, 0.5, 0.0]
    assert ROWS_PER_KEY == 3


def test_of_one_function_the_newest_rows_stay(make: MakeStore) -> None:
    store = make()
    store.add(replace(ROW, occurrence=1, finished_s=0.0))
    for number in range(60):
        store.add(replace(ROW, key=f"{number:x}", finished_s=float(number + 1)))
    assert times(store) == [*map(float, range(60, 10, -1)), 0.0]
    assert ROWS_PER_FUNCTION == 50


def test_a_surplus_of_one_key_does_not_drive_out_other_keys(make: MakeStore) -> None:
    store = make()
    for number in range(49):
        store.add(replace(ROW, key=f"{number:x}", finished_s=float(number)))
    for time_s in (100.0, 101.0, 102.0, 103.0):
        store.add(replace(ROW, key="same", finished_s=time_s))
    assert times(store)[:4] == [103.0, 102.0, 101.0, 48.0]
    assert len(store.load(ROW.path)) == 50


def test_removing_a_file_gives_how_many_rows_went_and_leaves_others(make: MakeStore) -> None:
    store = make()
    store.add(ROW)
    store.add(replace(ROW, finished_s=NOW))
    store.add(replace(ROW, path="/p/other.py"))
    assert store.remove(ROW.path) == 2
    assert store.remove(ROW.path) == 0
    assert len(store.load("/p/other.py")) == 1


def test_a_renamed_file_has_the_results_and_so_has_the_old_path(make: MakeStore) -> None:
    store = make()
    rows = [replace(ROW, finished_s=time_s, body=b"%d" % time_s) for time_s in (1, 2, 3)]
    for row in rows:
        store.add(row)
    store.rename(ROW.path, "/p/new.py")
    assert store.load("/p/new.py") == tuple(replace(row, path="/p/new.py") for row in reversed(rows))
    assert store.load(ROW.path) == tuple(reversed(rows))


def test_a_rename_that_two_editors_tell_of_counts_once(make: MakeStore) -> None:
    store = make()
    store.add(ROW)
    store.rename(ROW.path, "/p/new.py")
    make().rename(ROW.path, "/p/new.py")
    store.rename(ROW.path, ROW.path)
    assert len(store.load("/p/new.py")) == len(store.load(ROW.path)) == 1


def test_a_rename_onto_a_file_with_results_keeps_the_newest_of_both(make: MakeStore) -> None:
    store = make()
    for time_s in (1.0, 3.0, 5.0):
        store.add(replace(ROW, finished_s=time_s))
        store.add(replace(ROW, finished_s=time_s + 1, path="/p/new.py"))
    store.rename(ROW.path, "/p/new.py")
    assert times(store, "/p/new.py") == [6.0, 5.0, 4.0]


def test_rows_that_are_too_old_go_when_the_file_is_opened(make: MakeStore) -> None:
    first = make(max_age_s=100.0)
    for age_s in (101.0, 99.0):
        first.add(replace(ROW, finished_s=NOW - age_s))
    assert len(first.load(ROW.path)) == 2, "it is open already"
    assert times(make(max_age_s=100.0)) == [NOW - 99.0]
    assert times(make(max_age_s=100.0, now=NOW + 2)) == []


def test_the_oldest_rows_of_all_files_go_where_there_is_too_much(make: MakeStore) -> None:
    store = make(max_bytes=5000)
    for time_s in (4, 1, 3, 2, 5):
        store.add(replace(ROW, path=f"/p/{time_s}.py", finished_s=float(time_s), body=os.urandom(900)))
    assert [time_s for time_s in range(1, 6) if store.load(f"/p/{time_s}.py")] == [1, 2, 3, 4, 5]
    store.add(replace(ROW, path="/p/6.py", finished_s=6.0, body=os.urandom(2500)))
    assert [time_s for time_s in range(1, 7) if store.load(f"/p/{time_s}.py")] == [4, 5, 6]
    store.rename("/p/6.py", "/p/7.py")
    assert [time_s for time_s in range(1, 8) if store.load(f"/p/{time_s}.py")] == [7]


def test_what_another_store_added_counts_to_the_size(make: MakeStore) -> None:
    one, other = make(max_bytes=2000), make(max_bytes=2000)
    for time_s in range(1, 6):
        one.add(replace(ROW, key=f"a{time_s}", finished_s=float(time_s), body=os.urandom(900)))
        other.add(replace(ROW, key=f"b{time_s}", finished_s=time_s + 0.5, body=os.urandom(900)))
    assert times(one) == times(other) == [5.5, 5.0]


def test_the_size_is_that_of_the_compressed_bodies(make: MakeStore) -> None:
    store = make(max_bytes=5000)
    store.add(replace(ROW, body=b"x" * 100_000))
    assert len(store.load(ROW.path)) == 1


def test_a_row_larger_than_all_that_is_allowed_is_not_kept(make: MakeStore) -> None:
    store = make(max_bytes=100)
    store.add(replace(ROW, body=os.urandom(1000)))
    assert store.load(ROW.path) == ()


@pytest.mark.parametrize("path", ["/p/\udcff\udc80.py", "/p/\ud800.py", "/p/a\0b.py", ""], ids=ascii)
def test_any_path_is_a_path(make: MakeStore, path: str) -> None:
    store = make()
    row = replace(ROW, path=path, qualname=f"f{path}")
    store.add(row)
    store.add(ROW)
    assert store.load(path) == (row,)
    store.rename(path, f"{path}\udcfe")
    assert store.load(f"{path}\udcfe") == (replace(row, path=f"{path}\udcfe"),)
    assert store.remove(path) == 1


def test_bytes_that_are_no_text_are_not_taken_for_the_text_they_would_be(make: MakeStore) -> None:
    store = make()
    store.add(replace(ROW, path="/p/\u00e9.py"))
    assert store.load("/p/\udcc3\udca9.py") == ()


def test_only_the_user_can_read_the_files(make: MakeStore, file: Path) -> None:
    make().add(ROW)
    found = {item.name: stat.S_IMODE(item.stat().st_mode) for item in file.parent.glob("results.sqlite*")}
    assert found == dict.fromkeys(("results.sqlite", "results.sqlite-wal", "results.sqlite-shm"), 384)


def test_nothing_is_opened_before_the_first_call(make: MakeStore, file: Path) -> None:
    store = make()
    assert not file.parent.exists()
    store.close()
    assert not file.parent.exists()


def test_the_store_is_imported_without_sqlite() -> None:
    script = "import sys; import profile_neuron.daemon.store; print('sqlite3' in sys.modules)"
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert finished.stdout == "False\n"


def test_two_processes_that_write_at_once_lose_nothing(make: MakeStore, tmp_path: Path) -> None:
    processes = [start(ADDS_100, tmp_path / "results", name) for name in "ab"]
    for process in processes:
        begin(process)
    assert [process.communicate()[1] for process in processes] == ["", ""]
    rows = make().load(ROW.path)
    assert {row.qualname for row in rows} == {f"{name}{n}" for name in "ab" for n in range(100)}
    assert all(row.body == b"x" * int(row.finished_s) for row in rows)
    assert len(rows) == 200


def test_a_process_that_is_killed_while_it_writes_harms_nobody(make: MakeStore, tmp_path: Path, file: Path) -> None:
    survivor = make()
    for number in range(5):
        name = f"killed{number}."
        with start(ADDS_FOR_EVER, file.parent, name) as process:
            begin(process)
            assert process.stdout is not None
            # At another place each time: it also opens and closes the file.
            while int(process.stdout.readline()) < 3 + number:
                survivor.add(replace(ROW, key=f"{number}", finished_s=float(number)))
            process.kill()
            said = 3 + number + len(process.stdout.read().split())
        survivor.add(replace(ROW, key=f"{number}", finished_s=float(number)))
        found = {row.qualname for row in survivor.load(ROW.path)}
        assert found >= {f"{name}{n}" for n in range(said + 1)}, "all that it had finished"
        assert len([item for item in found if item.startswith(name)]) <= said + 2, "and at most the one it was at"
    fresh = make()
    assert fresh.load(ROW.path) == survivor.load(ROW.path)
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    assert not list(file.parent.glob("*.bad*"))


def test_a_damaged_database_is_moved_aside_and_said_once(
    make: MakeStore, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.parent.mkdir()
    file.write_bytes(b"no database " * 1000)
    store = make()
    assert store.load(ROW.path) == ()
    store.add(ROW)
    assert make().load(ROW.path) == (ROW,)
    assert file.with_name("results.sqlite.bad").read_bytes() == b"no database " * 1000
    (warning,) = warnings(caplog)
    assert str(file) in warning
    assert "file is not a database" in warning
    assert "results.sqlite.bad" in warning


def damage(file: Path) -> None:
    """Spoil a database in a place that is not looked at when it is opened."""
    connection = sqlite3.connect(file)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'results'").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    with file.open("r+b") as content:
        content.seek((page - 1) * page_size)
        content.write(b"\xff" * page_size)


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.load(ROW.path),
        lambda store: store.add(replace(ROW, path="/p/other.py")),
        lambda store: store.remove(ROW.path),
        lambda store: store.rename(ROW.path, "/p/new.py"),
    ],
    ids=["load", "add", "remove", "rename"],
)
def test_damage_that_shows_later_is_met_in_the_same_way(
    make: MakeStore, file: Path, caplog: pytest.LogCaptureFixture, call: Callable[[Store], object]
) -> None:
    first = make()
    first.add(ROW)
    first.close()
    damage(file)
    store = make()
    call(store)
    store.add(ROW)
    assert store.load(ROW.path) == (ROW,)
    assert make().load(ROW.path) == (ROW,)
    assert len(warnings(caplog)) == 1


def test_an_older_file_that_was_moved_aside_is_replaced_with_its_log(make: MakeStore, file: Path) -> None:
    file.parent.mkdir()
    bad = file.with_name("results.sqlite.bad")
    for suffix in ("", "-wal", "-shm"):
        bad.with_name(bad.name + suffix).write_text("older")
    file.write_bytes(b"no database " * 1000)
    make().load(ROW.path)
    assert {item.name for item in file.parent.glob("*.bad*")} == {bad.name}
    assert bad.read_bytes() == b"no database " * 1000


def test_two_processes_that_meet_a_damaged_file_at_once_lose_nothing(make: MakeStore, file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"no database " * 1000)
    processes = [start(ADDS_100, file.parent, name) for name in "abcd"]
    for process in processes:
        begin(process)
    said = "".join(process.communicate()[1] for process in processes)
    assert said == "WARNING\n", "by the one that moved it"
    assert len(make().load(ROW.path)) == 400


def test_a_store_that_has_a_moved_file_open_goes_on_in_the_new_one(
    make: MakeStore, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = make()
    store.add(ROW)
    for suffix in ("", "-wal", "-shm"):
        name = f"{file.name}{suffix}"
        file.with_name(name).rename(file.with_name(f"moved.sqlite{suffix}"))
    other = make()
    other.add(replace(ROW, finished_s=1.0))
    store.add(replace(ROW, finished_s=2.0))
    store.close()
    assert times(other) == [2.0, 1.0]
    assert warnings(caplog) == []
    connection = sqlite3.connect(file.with_name("moved.sqlite"))
    assert connection.execute("SELECT finished_s FROM results").fetchall() == [(ROW.finished_s,)]
    connection.close()


def test_a_cache_that_is_cleaned_while_it_is_in_use_is_begun_anew(make: MakeStore, file: Path) -> None:
    store = make()
    store.add(ROW)
    shutil.rmtree(file.parent)
    assert store.load(ROW.path) == ()
    store.add(ROW)
    assert make().load(ROW.path) == (ROW,)


@pytest.mark.parametrize("version", [0, VERSION + 1], ids=["of somebody else", "of a later version"])
def test_a_file_of_another_version_is_moved_aside_as_it_is(
    make: MakeStore, file: Path, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    file.parent.mkdir()
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE theirs (x)")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    store = make()
    store.add(ROW)
    assert store.load(ROW.path) == (ROW,)
    connection = sqlite3.connect(file.with_name("results.sqlite.bad"))
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    connection.close()
    (warning,) = warnings(caplog)
    assert f"it is of version {version}, not {VERSION}" in warning


def test_two_versions_at_once_do_not_take_the_file_from_each_other_for_ever(make: MakeStore, file: Path) -> None:
    store = make()
    store.add(ROW)
    store.close()
    file.unlink()
    connection = sqlite3.connect(file)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    with pytest.raises(StoreError, match="replaced by another version of profile-neuron; restart this editor"):
        store.load(ROW.path)
    assert not list(file.parent.glob("*.bad"))


def test_a_file_that_nobody_had_begun_is_begun(make: MakeStore, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.parent.mkdir()
    file.touch()
    store = make()
    store.add(ROW)
    assert store.load(ROW.path) == (ROW,)
    assert warnings(caplog) == []


def test_rows_with_a_damaged_body_are_left_out_and_the_others_stay(
    make: MakeStore, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = make()
    for time_s in (ROW.finished_s, NOW, NOW + 1):
        store.add(replace(ROW, finished_s=time_s))
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE results SET body = x'00' WHERE finished_s >= ?", (NOW,))
    connection.close()
    assert store.load(ROW.path) == (ROW,)
    (warning,) = warnings(caplog)
    assert warning == f"2 results for {ROW.path} in {file} are damaged and left out"


def test_a_folder_that_cannot_be_used_is_one_sentence_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("in the way")
    store = Store(tmp_path / "results", 1000, 1000.0)
    calls: list[Callable[[], object]] = [
        lambda: store.load(ROW.path),
        lambda: store.add(ROW),
        lambda: store.remove(ROW.path),
        lambda: store.rename(ROW.path, "/p/new.py"),
    ]
    for call in calls:
        with pytest.raises(StoreError) as caught:
            call()
        assert str(tmp_path / "results" / "results.sqlite") in str(caught.value)
        assert "remove its folder" in str(caught.value)
    store.close()
    (tmp_path / "results").unlink()
    assert store.load(ROW.path) == (), "and it is tried again at the next call"
    store.close()


def test_a_folder_in_place_of_the_file_is_an_error_and_stays(make: MakeStore, file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(StoreError, match="unable to open database file"):
        make().load(ROW.path)
    assert file.is_dir()


def test_a_row_that_the_database_refuses_leaves_the_others(make: MakeStore) -> None:
    store = make()
    store.add(ROW)
    with pytest.raises(StoreError, match="finished_s"):
        store.add(replace(ROW, finished_s=float("nan")))
    assert store.load(ROW.path) == (ROW,)


def test_a_file_that_another_process_holds_is_said_to_be_in_use(
    make: MakeStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profile_neuron.daemon.store._BUSY_TIMEOUT_S", 0.0)
    store = make()
    store.add(ROW)
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StoreError, match=r"results\.sqlite is in use by another process .*try again"):
            store.add(replace(ROW, finished_s=NOW))
    finally:
        holder.close()
    assert store.load(ROW.path) == (ROW,)
    store.add(replace(ROW, finished_s=NOW))
    assert times(store) == [NOW, ROW.finished_s]


class TestPins:
    def test_a_pinned_row_survives_every_limit(self, make: MakeStore) -> None:
        store = make()
        store.add(ROW)
        assert store.pin(ROW.path, ROW.identity, ())
        for number in range(1, ROWS_PER_KEY + 3):
            store.add(replace(ROW, finished_s=1000.0 + number))
        for number in range(ROWS_PER_FUNCTION):
            store.add(replace(ROW, key=f"{number:04}", finished_s=1100.0 + number))
        assert store.load(ROW.path)[-1] == replace(ROW, is_pinned=True)
        assert len(store.load(ROW.path)) == ROWS_PER_FUNCTION + 1, "and takes the place of no other one"
        store.close()
        late = make(max_age_s=10.0, now=5000.0)
        assert late.load(ROW.path) == (replace(ROW, is_pinned=True),)
        small = make(max_bytes=1)
        small.add(replace(ROW, qualname="g", finished_s=NOW))
        assert small.load(ROW.path) == (replace(ROW, is_pinned=True),)

    def test_what_is_unpinned_is_one_of_the_others_again(self, make: MakeStore) -> None:
        store = make()
        store.add(replace(ROW, is_pinned=True))
        newer = [replace(ROW, finished_s=1000.0 + number) for number in range(1, ROWS_PER_KEY + 1)]
        for row in newer:
            store.add(row)
        assert len(store.load(ROW.path)) == ROWS_PER_KEY + 1
        assert store.pin(ROW.path, newer[0].identity, [ROW.identity])
        assert [row.is_pinned for row in store.load(ROW.path)] == [False, False, True, False]
        store.add(replace(ROW, finished_s=1500.0))
        assert times(store) == [1500.0, 1003.0, 1002.0, 1001.0]

    def test_a_row_that_is_not_there_cannot_be_pinned(self, make: MakeStore) -> None:
        store = make()
        store.add(ROW)
        assert not store.pin(ROW.path, replace(ROW, key="ff").identity, ())
        assert not store.pin("/p/other.py", ROW.identity, ())
        assert store.load(ROW.path) == (ROW,)

    def test_another_process_sees_what_is_pinned_and_leaves_it(self, make: MakeStore, tmp_path: Path) -> None:
        store = make()
        for number in range(3):
            store.add(replace(ROW, finished_s=float(number)))
        assert store.pin(ROW.path, replace(ROW, finished_s=0.0).identity, ())
        process = start(ADDS_100.replace('f"{sys.argv[2]}{n}"', '"A.f"'), tmp_path / "results", "")
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
        assert [(row.finished_s, row.is_pinned) for row in store.load(ROW.path)][-1] == (0.0, True)
        unpins = WRITER + 'store.pin("/p/m.py", None, [("A.f", 0, "00ff", 0.0)])\nstore.close()\n'
        process = start(unpins, tmp_path / "results", "")
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
        assert not any(row.is_pinned for row in store.load(ROW.path))

    def test_a_file_that_is_renamed_or_removed_takes_its_pins_along(self, make: MakeStore) -> None:
        store = make()
        store.add(replace(ROW, is_pinned=True))
        store.rename(ROW.path, "/p/new.py")
        assert store.load("/p/new.py") == (replace(ROW, path="/p/new.py", is_pinned=True),)
        assert store.remove(ROW.path) == 1
        assert store.load(ROW.path) == ()
        assert len(store.load("/p/new.py")) == 1
