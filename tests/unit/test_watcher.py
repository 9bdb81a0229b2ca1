"""The watcher on real files, with the real watchdog.

That nothing is told of a file is shown by a change of another one afterwards, the sentinel, and never by waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.daemon import disk, watcher
from profile_neuron.daemon.watcher import Watcher
from profile_neuron.folders import cache_folder
from tests.conftest import ROOT, case

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts what Linux keeps of watched folders")

DEADLINE_S = 60.0
# Of a content that no file here has.
OTHER = hashlib.sha256(b"other").hexdigest()


class Watched:
    """A watcher, and what it told."""

    def __init__(self, folder: Path, polls: bool = False) -> None:
        self.reports: list[frozenset[str]] = []
        self.complaints: list[str] = []
        self.watcher = Watcher(self._take, self.complaints.append, polls=polls)
        self._sentinel = folder / "sentinel.py"
        self._count = 0
        self._told = asyncio.Event()

    def _take(self, changed: frozenset[str]) -> None:
        self.reports.append(changed)
        self._told.set()

    async def start(self, *open_files: Path, modules: Sequence[Path] = ()) -> None:
        """Watch files, until the watcher has looked at each of them."""
        self._sentinel.write_text("")
        self.watcher.know(str(self._sentinel), OTHER)
        self.watcher.watch(map(str, [self._sentinel, *open_files]), map(str, modules))
        await self._until_told_of({str(self._sentinel)})

    async def settle(self) -> list[set[str]]:
        """What was told since the last call, the sentinel apart, once all that happened before has been looked at."""
        self._count += 1
        self._sentinel.write_text(str(self._count))
        await self._until_told_of({str(self._sentinel)})
        return self._take_reports()

    async def until(self, *paths: Path) -> list[set[str]]:
        """What was told since the last call, once all of these files were."""
        await self._until_told_of(set(map(str, paths)))
        return self._take_reports()

    async def _until_told_of(self, paths: set[str]) -> None:
        ends_s = time.monotonic() + DEADLINE_S
        while not paths <= set().union(*self.reports):
            self._told.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._told.wait(), ends_s - time.monotonic())
                continue
            raise AssertionError(f"never told of {paths - set().union(*self.reports)}; told {self.reports}")

    def _take_reports(self) -> list[set[str]]:
        taken, self.reports = self.reports, []
        return [set(report) for report in (report - {str(self._sentinel)} for report in taken) if report]


@contextlib.asynccontextmanager
async def watched(folder: Path, *open_files: Path, **options: Any) -> AsyncIterator[Watched]:
    """Files that are watched already."""
    polls = options.pop("polls", False)
    made = Watched(folder, polls)
    try:
        await made.start(*open_files, **options)
        made.reports.clear()
        yield made
    finally:
        await made.watcher.close()


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Let a coroutine be a test, whose arguments are fixtures all the same."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no event tells of is looked for more often."""
    monkeypatch.setattr(watcher, "_LOOK_S", 0.25)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path / "model.py", "first")


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def descriptors() -> list[Path]:
    return list(Path("/proc/self/fdinfo").iterdir())


def watched_folders() -> set[int]:
    """The numbers of the folders that this process watches, as the kernel has them."""
    numbers = set()
    for entry in descriptors():
        with contextlib.suppress(FileNotFoundError):
            lines = entry.read_text().split("\n")
            numbers |= {int(line.split("ino:")[1].split()[0], 16) for line in lines if line.startswith("inotify")}
    return numbers


def threads_of_watchdog() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if type(thread).__module__.startswith("watchdog")]


def numbers(*folders: Path) -> set[int]:
    return {folder.stat().st_ino for folder in folders}


# What is told.


@in_loop
async def test_a_file_that_another_program_writes_is_told_of_on_the_thread_of_the_loop(
    tmp_path: Path, model: Path
) -> None:
    async with watched(tmp_path, model) as files:
        threads = []
        files.watcher._changed = lambda changed: (threads.append(threading.current_thread()), files._take(changed))
        await asyncio.to_thread(model.write_text, "second")
        assert await files.until(model) == [{str(model)}]
        assert threads == [threading.main_thread()]


@in_loop
async def test_modules_are_watched_as_open_files_are(tmp_path: Path, model: Path) -> None:
    module = written(tmp_path / "package" / "layers.py", "first")
    async with watched(tmp_path, model, modules=[module]) as files:
        module.write_text("second")
        assert await files.until(module) == [{str(module)}]


@in_loop
async def test_files_that_are_not_of_interest_are_never_told_of(tmp_path: Path, model: Path) -> None:
    below = written(tmp_path / "package" / "model.py", "first")
    async with watched(tmp_path, model) as files:
        assert watched_folders() == numbers(tmp_path)
        for path in [below, tmp_path / "neighbour.py", tmp_path / "model.pyc"]:
            path.write_text("second")
        assert await files.settle() == []


@in_loop
async def test_a_file_is_told_of_only_while_it_is_of_interest(tmp_path: Path, model: Path) -> None:
    later = written(tmp_path / "package" / "later.py", "first")
    async with watched(tmp_path, model) as files:
        await files.start(later)
        files.reports.clear()
        assert watched_folders() == numbers(tmp_path, later.parent)
        model.write_text("second")
        later.write_text("second")
        assert await files.until(later) == [{str(later)}]
        assert await files.settle() == []


@in_loop
async def test_a_file_that_is_of_interest_again_is_compared_with_what_it_is_then(tmp_path: Path, model: Path) -> None:
    async with watched(tmp_path, model) as files:
        await files.start()
        model.write_text("second")
        await files.start(model)
        files.reports.clear()
        assert await files.settle() == []
        model.write_text("third")
        assert await files.until(model) == [{str(model)}]


@in_loop
async def test_a_file_that_is_not_of_interest_any_more_when_it_was_looked_at_is_forgotten(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path, model) as files:
        loop, hashes = asyncio.get_running_loop(), disk.hashes

        def overtaken(paths: Iterable[str]) -> dict[str, str]:
            monkeypatch.setattr(disk, "hashes", hashes)
            found = hashes(paths)
            loop.call_soon_threadsafe(files.watcher.watch, [str(tmp_path / "sentinel.py")], [])
            return found

        monkeypatch.setattr(disk, "hashes", overtaken)
        model.write_text("second")
        while disk.hashes is not hashes:
            assert await files.settle() == []
        assert await files.settle() == []
        model.write_text("third")
        await files.start(model)
        assert await files.settle() == []


@in_loop
async def test_three_atomic_saves_are_three_changes(tmp_path: Path, model: Path) -> None:
    """W03."""
    folder = case("W03")
    expected = json.loads((folder / "expected.json").read_text())
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().split("\n") if line]
    # Of each style of saving the last event.
    ends = (2, 5, 10)
    seen: dict[str, int] = {}
    async with watched(tmp_path, model) as files:
        for number, event in enumerate(events, 1):
            match event["action"]:
                case "create" | "modify":
                    (tmp_path / event["path"]).write_text(f"content {number}")
                case "rename":
                    (tmp_path / event["src"]).rename(tmp_path / event["dst"])
                case "delete":
                    (tmp_path / event["path"]).unlink()
            if number in ends:
                for report in [*await files.until(model), *await files.settle()]:
                    for path in report:
                        seen[Path(path).name] = seen.get(Path(path).name, 0) + 1
    assert seen == expected["changesSeen"]


@in_loop
async def test_one_save_of_the_editor_is_not_told_of_and_a_touch_is_none(tmp_path: Path, model: Path) -> None:
    """W04."""
    folder = case("W04")
    expected = json.loads((folder / "expected.json").read_text())
    runs, runs_after_touch = 0, 0
    async with watched(tmp_path, model) as files:
        writing = model.open("w")
        for line in (folder / "events.jsonl").read_text().split("\n")[:-1]:
            event = json.loads(line)
            match event["action"]:
                case "modify":
                    writing.write("more")
                    writing.flush()
                case "attrib":
                    model.chmod(0o600)
                    os.utime(model)
                case "close_write":
                    writing.close()
                case "didSave":
                    # The editor's word for it is what starts a run.
                    runs += 1
                    files.watcher.know(str(model), sha256(model))
                case "wait":
                    runs += len(await files.settle())
        runs_after_touch = len(await files.settle())
    assert runs == expected["runs"]
    assert runs_after_touch == expected["runsAfterTouch"]


@in_loop
async def test_several_writes_of_another_program_are_one_change(tmp_path: Path, model: Path) -> None:
    async with watched(tmp_path, model) as files:
        for text in ("", "sec", "second"):
            model.write_text(text)
        assert await files.until(model) == [{str(model)}]
        assert await files.settle() == []


@in_loop
async def test_a_checkout_of_500_files_tells_of_open_files_with_another_content_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """R10."""
    folder = case("R10")
    expected = json.loads((folder / "expected.json").read_text())["expect"]
    make = [sys.executable, str(folder / "make_tree.py")]
    await asyncio.to_thread(subprocess.run, [*make, "a"], cwd=tmp_path, check=True)
    # The others that the case opens lie in other folders: so there are neighbours of each.
    opened = [next(tmp_path.glob(f"repo/*/{name}.py")) for name in ("m001", "m002", "m003")]
    sentinel = tmp_path / "repo" / "pkg02"
    async with watched(sentinel, *opened) as files:
        before_s = time.process_time()
        await asyncio.to_thread(subprocess.run, [*make, "b"], cwd=tmp_path, check=True)
        told = await files.until(opened[0], opened[2])
        told += await files.settle()
        used_s = time.process_time() - before_s
    with capsys.disabled():
        sys.stdout.write(f"\n500 files written: {used_s * 1e3:.0f} ms of processor time in the watching process\n")
    assert {Path(path).stem for report in told for path in report} == set(expected["runs"])
    assert used_s < 5


# What is a change.


@in_loop
async def test_a_touch_and_a_change_of_rights_are_no_change(tmp_path: Path, model: Path) -> None:
    async with watched(tmp_path, model) as files:
        model.touch()
        model.chmod(0o600)
        assert await files.settle() == []


@in_loop
async def test_writing_the_same_content_is_no_change(tmp_path: Path, model: Path) -> None:
    async with watched(tmp_path, model) as files:
        model.write_text("first")
        assert await files.settle() == []


@pytest.mark.parametrize("polls", [False, True], ids=["events", "polling"])
@in_loop
async def test_times_in_the_future_and_in_the_past_are_no_change(tmp_path: Path, model: Path, polls: bool) -> None:
    """W02."""
    now_s = time.time()
    os.utime(model, (now_s + 3600, now_s + 3600))
    async with watched(tmp_path, model, polls=polls) as files:
        assert await files.settle() == []
        for time_s in (now_s - 3600, now_s + 7200):
            os.utime(model, (time_s, time_s))
            assert await files.settle() == []
        model.write_text("second")
        os.utime(model, (now_s - 3600, now_s - 3600))
        assert await files.until(model) == [{str(model)}]
        assert await files.settle() == []


@in_loop
async def test_a_file_that_goes_and_comes_back_is_told_of_twice(tmp_path: Path, model: Path) -> None:
    async with watched(tmp_path, model) as files:
        model.unlink()
        assert await files.until(model) == [{str(model)}]
        model.write_text("first")
        assert await files.until(model) == [{str(model)}]


@in_loop
async def test_a_file_that_is_gone_for_a_moment_is_told_of_once(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path, model) as files:
        hashes = disk.hashes

        def just_before_it_comes_back(paths: Iterable[str]) -> dict[str, str]:
            monkeypatch.setattr(disk, "hashes", hashes)
            found = hashes(paths)
            model.write_text("second")
            return found

        monkeypatch.setattr(disk, "hashes", just_before_it_comes_back)
        model.unlink()
        assert await files.until(model) == [{str(model)}]
        assert await files.settle() == []


@in_loop
async def test_a_file_that_is_not_there_yet_is_told_of_when_it_comes(tmp_path: Path) -> None:
    model = tmp_path / "new" / "package" / "model.py"
    async with watched(tmp_path, model) as files:
        assert await files.settle() == []
        written(model, "first")
        assert await files.until(model) == [{str(model)}]
        model.write_text("second")
        assert await files.until(model) == [{str(model)}]


@in_loop
async def test_a_known_content_is_no_change_and_any_other_is_one(tmp_path: Path, model: Path) -> None:
    async with watched(tmp_path, model) as files:
        model.write_text("second")
        files.watcher.know(str(model), sha256(model))
        assert await files.settle() == []
        model.write_text("first")
        assert await files.until(model) == [{str(model)}]


@in_loop
async def test_what_was_known_before_a_file_was_watched_counts(tmp_path: Path, model: Path) -> None:
    same = written(tmp_path / "same.py", "first")
    files = Watched(tmp_path)
    try:
        files.watcher.know(str(same), sha256(same))
        files.watcher.know(str(model), OTHER)
        await files.start(model, same)
        assert await files.until(model) == [{str(model)}]
        assert await files.settle() == []
    finally:
        await files.watcher.close()


@in_loop
async def test_a_content_that_is_made_known_while_the_file_is_looked_at_is_not_told_of(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path, model) as files:
        loop, hashes = asyncio.get_running_loop(), disk.hashes

        def overtaken(paths: Iterable[str]) -> dict[str, str]:
            monkeypatch.setattr(disk, "hashes", hashes)
            found = hashes(paths)
            model.write_text("saved")
            loop.call_soon_threadsafe(files.watcher.know, str(model), sha256(model))
            return found

        monkeypatch.setattr(disk, "hashes", overtaken)
        model.write_text("half")
        while disk.hashes is not hashes:
            assert await files.settle() == []
        assert await files.settle() == []


@in_loop
async def test_looking_at_files_is_no_event(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(tmp_path, model) as files:
        looks: list[set[str]] = []
        hashes = disk.hashes

        def counted(paths: Iterable[str]) -> dict[str, str]:
            looks.append(set(paths))
            return hashes(paths)

        monkeypatch.setattr(disk, "hashes", counted)
        model.write_text("second")
        await files.until(model)
        await files.settle()
        await files.settle()
        assert looks == [{str(model)}, {str(tmp_path / "sentinel.py")}, {str(tmp_path / "sentinel.py")}]


# Where files lie.


@in_loop
async def test_a_file_that_is_renamed_over_it_from_elsewhere_is_seen(tmp_path: Path, model: Path) -> None:
    made = written(tmp_path / "elsewhere" / "made.py", "second")
    async with watched(tmp_path, model) as files:
        made.rename(model)
        assert await files.until(model) == [{str(model)}]


def remove_and_make(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def move_away_and_make(folder: Path) -> None:
    folder.rename(folder.with_name("aside"))
    folder.mkdir()


def move_parent_away_and_make(folder: Path) -> None:
    folder.parent.rename(folder.parent.with_name("aside"))
    folder.mkdir(parents=True)


@pytest.mark.parametrize("replace", [remove_and_make, move_away_and_make, move_parent_away_and_make])
@in_loop
async def test_the_watch_survives_that_the_folder_is_replaced(tmp_path: Path, replace: Callable[[Path], None]) -> None:
    model = written(tmp_path / "project" / "package" / "model.py", "first")
    async with watched(tmp_path, model) as files:
        replace(model.parent)
        model.write_text("second")
        assert {str(model)} in await files.until(model)
        model.write_text("third")
        assert await files.until(model) == [{str(model)}]
        assert watched_folders() == numbers(tmp_path, model.parent)


@in_loop
async def test_an_empty_folder_that_is_made_anew_is_seen_where_file_systems_give_numbers_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "package" / "model.py"
    model.parent.mkdir()
    monkeypatch.setattr(watcher, "_identity", lambda folder: (1, 1) if Path(folder).is_dir() else None)
    async with watched(tmp_path, model) as files:
        remove_and_make(model.parent)
        ends_s = time.monotonic() + DEADLINE_S
        while watched_folders() != numbers(tmp_path, model.parent) and time.monotonic() < ends_s:
            await asyncio.sleep(0.01)
        model.write_text("first")
        assert await files.until(model) == [{str(model)}]


def test_a_watch_that_ended_by_itself_is_told_of_when_it_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "package"
    folder.mkdir()
    folders = watcher._Folders(lambda _: None)
    try:
        assert not folders.watch({str(folder): (1, 1)})
        remove_and_make(folder)
        ends_s = time.monotonic() + DEADLINE_S
        while not folders.have_died() and time.monotonic() < ends_s:
            time.sleep(0.01)
        assert folders.watch({str(folder): (1, 1)})
        assert not folders.watch({str(folder): (1, 1)})
        assert watched_folders() == numbers(folder)
    finally:
        folders.end()


@in_loop
async def test_a_folder_that_goes_takes_its_files_with_it_until_it_is_back(tmp_path: Path) -> None:
    model = written(tmp_path / "package" / "model.py", "first")
    async with watched(tmp_path, model) as files:
        model.parent.rename(tmp_path / "aside")
        assert await files.until(model) == [{str(model)}]
        assert watched_folders() == numbers(tmp_path)
        (tmp_path / "aside").rename(model.parent)
        assert await files.until(model) == [{str(model)}]
        model.write_text("second")
        assert await files.until(model) == [{str(model)}]


@in_loop
async def test_the_target_of_a_link_is_watched_and_told_of_by_the_links_name(tmp_path: Path) -> None:
    target = written(tmp_path / "targets" / "model.py", "first")
    second = written(tmp_path / "others" / "model.py", "second")
    between = tmp_path / "between" / "model.py"
    link = tmp_path / "package" / "model.py"
    for path, leads_to in ((between, "../targets/model.py"), (link, str(between))):
        path.parent.mkdir()
        path.symlink_to(leads_to)
    async with watched(tmp_path, link) as files:
        target.write_text("changed")
        assert await files.until(link) == [{str(link)}]
        between.unlink()
        between.symlink_to(second)
        assert await files.until(link) == [{str(link)}]
        second.write_text("changed too")
        assert {str(link)} in await files.until(link)
        target.write_text("not of interest any more")
        assert await files.settle() == []


@in_loop
async def test_a_link_that_leads_to_an_equal_file_elsewhere_is_followed(tmp_path: Path, model: Path) -> None:
    equal = written(tmp_path / "elsewhere" / "equal.py", "first")
    async with watched(tmp_path, model) as files:
        model.unlink()
        model.symlink_to(equal)
        assert await files.settle() == []
        equal.write_text("second")
        assert await files.until(model) == [{str(model)}]


@in_loop
async def test_a_folder_that_is_a_link_may_lead_elsewhere(tmp_path: Path) -> None:
    for name in ("one", "two"):
        written(tmp_path / name / "model.py", name)
    current = tmp_path / "current"
    current.symlink_to("one")
    model = current / "model.py"
    async with watched(tmp_path, model) as files:
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").rename(current)
        assert await files.until(model) == [{str(model)}]
        (tmp_path / "two" / "model.py").write_text("changed")
        assert await files.until(model) == [{str(model)}]


@in_loop
async def test_two_spellings_of_a_file_are_both_told_of(tmp_path: Path, model: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to("model.py")
    async with watched(tmp_path, model, link) as files:
        model.write_text("second")
        assert await files.until(model, link) == [{str(model), str(link)}]


@in_loop
async def test_names_that_are_no_text_or_no_names_do_no_harm(tmp_path: Path, model: Path) -> None:
    odd = written(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.py")), "first")
    async with watched(tmp_path, model, odd, Path(f"{tmp_path}/\0.py")) as files:
        odd.write_text("second")
        assert await files.until(odd) == [{str(odd)}]


@pytest.mark.parametrize("polls", [False, True], ids=["events", "polling"])
@in_loop
async def test_folders_of_tools_and_our_own_are_never_watched(tmp_path: Path, model: Path, polls: bool) -> None:
    """W01."""
    names = (".git/hooks", ".venv/lib", "node_modules/x", "package/__pycache__", ".pytest_cache")
    left_out = [written(tmp_path / name / "file.py", "first") for name in names]
    left_out.append(written(cache_folder("runs") / "one" / "file.py", "first"))
    async with watched(tmp_path, model, *left_out, modules=left_out, polls=polls) as files:
        assert watched_folders() == (set() if polls else numbers(tmp_path))
        for path in left_out:
            path.write_text("second")
        assert await files.settle() == []


# Where the system tells nothing.


@in_loop
async def test_polling_sees_what_happens_to_open_files(tmp_path: Path, model: Path) -> None:
    """W02."""
    module = written(tmp_path / "module.py", "first")
    async with watched(tmp_path, model, modules=[module], polls=True) as files:
        assert watched_folders() == set()
        module.write_text("second")
        model.write_text("second")
        assert await files.until(model) == [{str(model)}]
        written(tmp_path / "new.py", "third").rename(model)
        assert await files.until(model) == [{str(model)}]
        model.unlink()
        assert await files.until(model) == [{str(model)}]
        model.write_text("third")
        assert await files.until(model) == [{str(model)}]
        assert files.complaints == []


@in_loop
async def test_polling_sees_another_content_of_the_same_size_and_time(tmp_path: Path, model: Path) -> None:
    async with watched(tmp_path, model, polls=True) as files:
        status = model.stat()
        model.write_text("FIRST")
        os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert await files.until(model) == [{str(model)}]


@in_loop
async def test_polling_looks_at_a_file_no_more_than_once_in_a_pause(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W01."""
    looks: list[str] = []
    stamp = watcher._stamp

    def counted(path: str) -> Any:
        if path == str(model):
            looks.append(path)
        return stamp(path)

    monkeypatch.setattr(watcher, "_stamp", counted)
    began_s = time.monotonic()
    async with watched(tmp_path, model, polls=True) as files:
        for number in range(2):
            files.watcher.watch(map(str, [model, tmp_path / "sentinel.py"]), [f"{tmp_path}/{number}.py"])
            await files.settle()
        assert 2 <= len(looks) <= (time.monotonic() - began_s) / watcher._LOOK_S + 1


@pytest.mark.parametrize(
    ("function", "number", "names"),
    [
        ("inotify_add_watch", errno.ENOSPC, "sysctl fs.inotify.max_user_watches=524288"),
        ("inotify_init", errno.EMFILE, "sysctl fs.inotify.max_user_instances=1024"),
        ("inotify_init", errno.ENFILE, os.strerror(errno.ENFILE)),
    ],
)
@in_loop
async def test_a_limit_that_is_used_up_is_told_once_and_open_files_are_polled(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int, names: str
) -> None:
    """W01."""

    def refused(*_: Any) -> int:
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(f"watchdog.observers.inotify_c.{function}", refused)
    module = written(tmp_path / "package" / "module.py", "first")
    async with watched(tmp_path, model, modules=[module]) as files:
        (complaint,) = files.complaints
        assert names in complaint
        assert threads_of_watchdog() == []
        for text in ("second", "third"):
            model.write_text(text)
            assert await files.until(model) == [{str(model)}]
        await files.start(model, module)
        assert files.complaints == [complaint]


@in_loop
async def test_a_limit_that_is_met_later_is_told_once_and_open_files_are_polled(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = written(tmp_path / "package" / "later.py", "first")
    async with watched(tmp_path, model) as files:

        def refused(*_: Any) -> int:
            ctypes.set_errno(errno.ENOSPC)
            return -1

        monkeypatch.setattr("watchdog.observers.inotify_c.inotify_add_watch", refused)
        model.write_text("second")
        files.watcher.watch(map(str, [model, later, tmp_path / "sentinel.py"]), [])
        assert await files.until(model) == [{str(model)}]
        await files.settle()
        assert len(files.complaints) == 1
        assert watched_folders() == set()
        later.write_text("second")
        assert await files.until(later) == [{str(later)}]


IN_A_PROCESS = """
    import asyncio, json, sys, threading
    from pathlib import Path
    from profile_neuron.daemon.watcher import Watcher

    async def main(path):
        complaints, told = [], asyncio.Queue()
        watcher = Watcher(told.put_nowait, complaints.append)
        watcher.know(path, "another")
        watcher.watch([path], [str(Path(path).parent / "package" / "module.py")])
        reports = [sorted(await asyncio.wait_for(told.get(), 60))]
        Path(path).write_text("changed")
        reports.append(sorted(await asyncio.wait_for(told.get(), 60)))
        await watcher.close()
        print(json.dumps([complaints, reports]))

    asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("limit", ["max_inotify_instances", "max_inotify_watches"])
def test_limits_of_the_kernel_are_met_without_a_traceback(model: Path, limit: str) -> None:
    """W01, with the limits of a namespace of its own, so that nobody else meets them."""
    own = ["unshare", "--user", "--map-root-user", "sh", "-c", f'echo 0 > /proc/sys/user/{limit} && exec "$@"', "sh"]
    try:
        subprocess.run([*own, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("namespaces of users are not allowed here")
    ran = subprocess.run(
        [*own, sys.executable, "-c", textwrap.dedent(IN_A_PROCESS), str(model)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT / "server")},
    )  # fmt: skip
    assert ran.stderr == ""
    (complaint,), reports = json.loads(ran.stdout)
    assert limit.replace("inotify", "user") in complaint
    assert reports == [[str(model)], [str(model)]]


# What it costs.


@in_loop
async def test_the_same_hundreds_of_files_again_and_again_cost_nothing(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = [written(tmp_path / f"package{number % 20}" / f"module{number}.py", "") for number in range(600)]
    async with watched(tmp_path, model, modules=modules) as files:
        calls: list[str] = []
        monkeypatch.setattr(watcher, "_layout", lambda _: calls.append("layout"))
        monkeypatch.setattr(disk, "hashes", lambda _: calls.append("hashes"))
        for _ in range(100):
            files.watcher.watch([str(tmp_path / "sentinel.py"), str(model)], map(str, modules))
            assert not files.watcher._woken.is_set()
        assert calls == []


def test_watchdog_is_not_imported_before_there_is_a_file_to_watch() -> None:
    script = """
        import asyncio, sys
        from profile_neuron.daemon.watcher import Watcher

        async def main():
            watcher = Watcher(print, print)
            watcher.watch([], [])
            await watcher.close()

        asyncio.run(main())
        print("watchdog" in sys.modules)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "server")},
    )  # fmt: skip
    assert ran.stdout == "False\n"


# How it ends.


def test_what_is_to_be_watched_when_all_has_ended_is_not(tmp_path: Path) -> None:
    """A thread may come to it only then."""
    folders = watcher._Folders(lambda _: None)
    folders.end()
    assert not folders.watch({str(tmp_path): (1, 1)})
    assert threads_of_watchdog() == []


@pytest.mark.parametrize("moment", ["at once", "when it has started", "while it gathers"])
def test_closing_leaves_no_thread_and_no_descriptor(tmp_path: Path, model: Path, moment: str) -> None:
    async def watch_and_close() -> None:
        files = Watched(tmp_path)
        if moment == "at once":
            files.watcher.watch([str(model)], [])
            await asyncio.sleep(0)
        else:
            await files.start(model)
        if moment == "while it gathers":
            model.write_text("second")
            while not files.watcher._notes._noted:
                await asyncio.sleep(0)
        await files.watcher.close()
        files.watcher.watch([str(model), str(tmp_path / "other.py")], [])
        assert threads_of_watchdog() == []
        assert watched_folders() == set()

    # Whatever is opened once and for all is opened by now.
    asyncio.run(watch_and_close())
    threads, number = set(threading.enumerate()), len(descriptors())
    model.write_text("first")
    asyncio.run(watch_and_close())
    assert set(threading.enumerate()) == threads
    assert len(descriptors()) == number


@in_loop
async def test_a_report_that_is_not_taken_up_does_not_end_the_watching(
    tmp_path: Path, model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched(tmp_path, model) as files:

        def fails(_: frozenset[str]) -> None:
            files.watcher._changed = files._take
            files._told.set()
            raise ValueError("not taken up")

        files.watcher._changed = fails
        files._told.clear()
        model.write_text("second")
        await asyncio.wait_for(files._told.wait(), DEADLINE_S)
        model.write_text("third")
        assert await files.until(model) == [{str(model)}]
        assert "a change of files was not taken up" in caplog.text
