"""Notices what no editor tells: that files were written by git, by formatters, by other editors.

Events of the file system say where to look, the content of the files says whether they changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from profile_neuron.daemon import disk
from profile_neuron.folders import our_folders

# watchdog is imported inside of functions only: it costs 20 ms, and a server starts before it has files to watch.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver, ObservedWatch

log = logging.getLogger(__name__)

# Events are gathered until none came for a while, and no longer than this in all.
_QUIET_S = 0.2
_GATHERED_S = 1.0
# How often is looked at what no event tells of: folders that were replaced, or in polling the open files.
_LOOK_S = 1.0
# Over so many links a path may lead, as Linux has it.
_LINKS = 40
# Folders of tools, with all that is below them.
_TOOL_FOLDERS = frozenset({
    ".cache", ".git", ".hg", ".hypothesis", ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".svn", ".tox",
    ".venv", "__pycache__", "__pypackages__", "dist-packages", "node_modules", "site-packages",
})  # fmt: skip
# What is used up when the system refuses, and a value that is enough for most.
_LIMITS = {
    errno.ENOSPC: ("fs.inotify.max_user_watches", 524288),
    errno.EMFILE: ("fs.inotify.max_user_instances", 1024),
}
# In the place of a content that was not looked at yet.
_UNSEEN = ""

# What tells a folder from another of the same name: device and number.
_Identity = tuple[int, int]
# What of a file is another whenever its content is; never compared with the clock. None for one that is not there.
_Stamp = tuple[int, ...] | None


class Watcher:
    """Watches files of interest from the first call of watch on. Made and used on the thread of a running loop.

    A file is compared with what it was when it was looked at last, which happens soon after it became of interest,
    or with what somebody else found in it since.
    """

    def __init__(
        self, changed: Callable[[frozenset[str]], None], complain: Callable[[str], None], polls: bool = False
    ) -> None:
        """changed: gets the files whose bytes are others by now, or that came or went, spelled as they were given.
        complain: gets one sentence, once, if the system does not let files be watched; open files are polled then.
        polls: whether they are from the start, for file systems that tell nothing.
        """
        self._changed = changed
        self._complain = complain
        self._polls = polls
        self._open: frozenset[str] = frozenset()
        # The open ones included.
        self._files: frozenset[str] = frozenset()
        # SHA-256 of their contents; None for a file that is not there.
        self._known: dict[str, str | None] = {}
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._notes = _Notes(self._wake)
        self._folders = _Folders(self._notes.note)
        self._layout = _Layout()
        self._stamps: dict[str, _Stamp] = {}
        self._polled_s = -_LOOK_S
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def watch(self, open_files: Iterable[str], modules: Iterable[str]) -> None:
        """Take these absolute paths as the files of interest, in place of earlier ones; costs little if they are equal.

        Of what the user's tools keep for themselves and of our own folders nothing is watched.
        """
        open_now = frozenset(open_files)
        files = open_now.union(modules)
        if self._closing or (open_now == self._open and files == self._files):
            return
        self._open, self._files = open_now, files
        self._known = {path: sha256 for path, sha256 in self._known.items() if path in files}
        if self._task is None:
            self._task = asyncio.create_task(self._attend(), name="watch files")
        self._woken.set()

    def know(self, path: str, sha256: str) -> None:
        """Take the content of a file as known: a change to it is not told of, only one from it."""
        self._known[path] = sha256

    async def close(self) -> None:
        """Watch nothing any more; leaves no thread of its own."""
        self._closing = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await asyncio.to_thread(self._folders.end)

    def _wake(self) -> None:
        # From any thread, and maybe after the loop.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._woken.set)

    async def _attend(self) -> None:
        try:
            while True:
                await self._rest()
                suspects = await self._gathered()
                if not self._polls:
                    suspects |= await self._follow(suspects)
                if self._polls:
                    suspects |= await self._poll()
                if suspects:
                    await self._compare(suspects)
        except Exception:
            log.exception("files are no longer watched")

    async def _rest(self) -> None:
        timer = self._loop.call_later(_LOOK_S, self._woken.set) if self._files else None
        try:
            await self._woken.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._woken.clear()

    async def _gathered(self) -> set[str]:
        """The files that events were about, as soon as there are no more for a while."""
        while (wait_s := self._notes.wait_s()) > 0:
            await asyncio.sleep(wait_s)
        return self._notes.take()

    async def _follow(self, noted: set[str]) -> frozenset[str]:
        """Watch where the files of interest are by now; gives those of which events may have been missed.

        A file with an event may be a link since, or lead elsewhere.
        """
        files, before = self._files, self._layout
        if files == before.asked and not noted and not await asyncio.to_thread(self._is_off):
            return frozenset()
        layout = self._layout = await asyncio.to_thread(_layout, files)
        # First, so that the first event already finds them.
        self._notes.files = layout.files
        try:
            had_died = await asyncio.to_thread(self._folders.watch, layout.folders)
        except (OSError, RuntimeError) as error:
            # RuntimeError is how Python says that there are no more threads.
            self._polls = True
            self._complain(_complaint(error))
            await asyncio.to_thread(self._folders.end)
            return frozenset()
        return layout.watched if had_died or layout.replaces(before) else layout.watched - before.watched

    def _is_off(self) -> bool:
        """Whether a folder is another than the one that is watched; for a thread."""
        return self._layout.is_off() or self._folders.have_died()

    async def _poll(self) -> set[str]:
        """The open files that may have changed since they were polled last."""
        if self._loop.time() < self._polled_s + _LOOK_S:
            return set()
        self._polled_s = self._loop.time()
        files = self._open
        if files != self._layout.asked:
            self._layout = await asyncio.to_thread(_layout, files)
        before, self._stamps = self._stamps, await asyncio.to_thread(_stamps, self._layout.watched)
        return {path for path, stamp in self._stamps.items() if path not in before or before[path] != stamp}

    async def _compare(self, suspects: set[str]) -> None:
        """Look at files, and tell of those whose content is another than the known one."""
        before = {path: self._known.get(path, _UNSEEN) for path in suspects}
        found = await asyncio.to_thread(disk.hashes, suspects)
        if missing := [path for path in suspects if path not in found and before[path]]:
            # It may be about to be replaced.
            await asyncio.sleep(_QUIET_S)
            found |= await asyncio.to_thread(disk.hashes, missing)
        changed, again = set(), set()
        for path in suspects & self._files:
            content = found.get(path)
            known = self._known.get(path, _UNSEEN)
            if content == known:
                continue
            if known != before[path]:
                # Somebody else looked meanwhile, and maybe later.
                again.add(path)
                continue
            self._known[path] = content
            if known != _UNSEEN:
                changed.add(path)
        if again:
            self._notes.add(again)
        if changed:
            self._tell(frozenset(changed))

    def _tell(self, changed: frozenset[str]) -> None:
        try:
            self._changed(changed)
        except Exception:
            log.exception("a change of files was not taken up")


class _Notes:
    """Which files events were about since the loop took the notes last; written by another thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        # Called once per gathering, however many events come.
        self._wake = wake
        # Files of interest by the paths that events may name; replaced as a whole.
        self.files: Mapping[str | bytes, tuple[str, ...]] = {}
        self._lock = threading.Lock()
        self._noted: set[str] = set()
        self._first_s = self._last_s = 0.0

    def note(self, event: FileSystemEvent) -> None:
        """Take up an event, which for most is to find that it is about no file of interest."""
        files = self.files
        if found := files.get(event.src_path, ()) + files.get(event.dest_path, ()):
            self.add(found)

    def add(self, paths: Iterable[str]) -> None:
        """Note files of interest, at least one."""
        with self._lock:
            was_empty = not self._noted
            self._noted.update(paths)
            self._last_s = time.monotonic()
            if was_empty:
                self._first_s = self._last_s
        if was_empty:
            self._wake()

    def wait_s(self) -> float:
        """For how long more notes are to be awaited; not positive if there are none."""
        with self._lock:
            if not self._noted:
                return 0.0
            return min(self._last_s + _QUIET_S, self._first_s + _GATHERED_S) - time.monotonic()

    def take(self) -> set[str]:
        """The files that were noted, which are noted no more."""
        with self._lock:
            noted, self._noted = self._noted, set()
        return noted


class _Folders:
    """The folders that the system watches for us; called in threads, since all of it may block."""

    def __init__(self, note: Callable[[FileSystemEvent], None]) -> None:
        self._note = note
        self._lock = threading.Lock()
        # From the first folder on.
        self._observer: BaseObserver | None = None
        self._schedule: Callable[[str], ObservedWatch]
        self._watches: dict[str, tuple[ObservedWatch, _Identity]] = {}
        self._ended = False

    def watch(self, folders: Mapping[str, _Identity]) -> bool:
        """Watch these and no others; gives whether one had to be watched anew because its watch had died.

        Raises OSError or RuntimeError where the system has no more watches, descriptors or threads.
        """
        with self._lock:
            if self._ended or not (folders or self._watches):
                return False
            observer = self._observer or self._start()
            # The watch of a folder that was removed ends by itself, but keeps its place.
            dead = {emitter.watch for emitter in observer.emitters if not emitter.is_alive()}
            had_died = False
            for folder, (watch, identity) in list(self._watches.items()):
                if folders.get(folder) != identity or watch in dead:
                    had_died |= folder in folders
                    del self._watches[folder]
                    observer.unschedule(watch)
            for folder in folders.keys() - self._watches.keys():
                # One that has just gone is noticed at the next look.
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self._watches[folder] = (self._schedule(folder), folders[folder])
            return had_died

    def have_died(self) -> bool:
        """Whether the watch of a folder ended by itself."""
        with self._lock:
            return self._observer is not None and not all(emitter.is_alive() for emitter in self._observer.emitters)

    def end(self) -> None:
        """Watch nothing any more, now and later."""
        with self._lock:
            self._ended = True
            observer, self._observer = self._observer, None
            if observer is not None:
                observer.stop()
                if observer.is_alive():
                    observer.join()

    def _start(self) -> BaseObserver:
        from watchdog.events import (
            FileCreatedEvent,
            FileDeletedEvent,
            FileModifiedEvent,
            FileMovedEvent,
            FileSystemEventHandler,
        )
        from watchdog.observers import Observer

        note = self._note

        class Handler(FileSystemEventHandler):
            def dispatch(self, event: FileSystemEvent) -> None:
                note(event)

        # To it the end of a watch is an error if an event comes at that moment.
        logging.getLogger("watchdog.observers.inotify").setLevel(logging.CRITICAL)
        self._observer = observer = Observer()
        observer.start()
        # No other events, above all none of files that are opened or closed: looking at them does that too.
        kinds: list[type[FileSystemEvent]] = [FileCreatedEvent, FileDeletedEvent, FileModifiedEvent, FileMovedEvent]
        self._schedule = functools.partial(observer.schedule, Handler(), event_filter=kinds)
        return observer


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where files lie on disk."""

    # What was laid out.
    asked: frozenset[str] = frozenset()
    # Those of them that may be watched.
    watched: frozenset[str] = frozenset()
    # These by the paths at which their content may be exchanged: their own, and of a link all that it leads over.
    # The folders of these paths are no links.
    files: Mapping[str | bytes, tuple[str, ...]] = field(default_factory=dict)
    # The folders of these paths that are there.
    folders: Mapping[str, _Identity] = field(default_factory=dict)
    # The same folders as they are spelled, which may be by links; None for one that is not there.
    spelled: Mapping[str, _Identity | None] = field(default_factory=dict)

    def is_off(self) -> bool:
        """Whether a folder has another in its place by now, or none, or has come."""
        return any(_identity(folder) != identity for folder, identity in self.spelled.items())

    def replaces(self, before: _Layout) -> bool:
        """Whether a folder is not the one that it was before."""
        return any(self.spelled.get(folder, identity) != identity for folder, identity in before.spelled.items())


def _layout(paths: frozenset[str]) -> _Layout:
    """Look at where files lie; for a thread, since it asks the disk."""
    real_path = functools.cache(os.path.realpath)
    ours = tuple(real_path(str(folder)) for folder in our_folders())
    files: dict[str | bytes, tuple[str, ...]] = {}
    folders: dict[str, _Identity] = {}
    spelled: dict[str, _Identity | None] = {}
    # No file has such a name, and the functions of the system raise for it.
    for path in [path for path in paths if "\0" not in path]:
        for spelled_folder, folder, name in _places(path, real_path):
            if _is_left_out(folder, ours):
                continue
            if spelled_folder not in spelled:
                identity = spelled[spelled_folder] = _identity(spelled_folder)
                if identity is not None:
                    folders[folder] = identity
            place = str(Path(folder, name))
            files[place] = (*files.get(place, ()), path)
    watched = frozenset(path for several in files.values() for path in several)
    return _Layout(paths, watched, files, folders, spelled)


def _places(path: str, real_path: Callable[[str], str]) -> Iterator[tuple[str, str, str]]:
    """Where a file has an entry, and if that is a link, where it leads to, link by link: folder, real folder, name."""
    for _ in range(_LINKS):
        spelled_folder, name = os.path.split(path)
        folder = real_path(spelled_folder)
        yield spelled_folder, folder, name
        try:
            target = Path(folder, name).readlink()
        except OSError:
            return
        path = str(Path(folder, target))


def _is_left_out(folder: str, ours: tuple[str, ...]) -> bool:
    path = PurePath(folder)
    return not _TOOL_FOLDERS.isdisjoint(path.parts) or any(path.is_relative_to(own) for own in ours)


def _identity(folder: str) -> _Identity | None:
    try:
        status = Path(folder).stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def _stamps(paths: Iterable[str]) -> dict[str, _Stamp]:
    """What tells that files may have changed; for a thread."""
    return {path: _stamp(path) for path in paths}


def _stamp(path: str) -> _Stamp:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    # The last one cannot be put back to what it was.
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _complaint(error: Exception) -> str:
    name, value = _LIMITS.get(error.errno or 0, ("", 0)) if isinstance(error, OSError) else ("", 0)
    late = "what other programs write is looked for once a second, in open files only"
    if not name:
        return f"files cannot be watched ({error}): {late}"
    return f"the limit {name} is used up: {late}; raise it (sudo sysctl {name}={value}) and restart the server"
