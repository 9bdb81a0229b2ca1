"""Watches the folders in which the user's own programs leave profiles, and keeps what is in those that are complete.

Such folders are often on file systems that tell of no change, so they are looked at, at most once a second. Traces are
read by the command line's report in a process of its own; nothing is written there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from profile_neuron.core.foreign_capture import captures_in
from profile_neuron.core.foreign_places import definitions
from profile_neuron.core.run_folder import RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from profile_neuron.core.foreign_capture import ForeignCapture, ForeignFunction
    from profile_neuron.core.foreign_places import Definition
    from profile_neuron.core.outline import Outline
    from profile_neuron.daemon.files import OpenFile

log = logging.getLogger(__name__)

# Files that did not change for so long are complete, and a trace that is cut short will not be continued.
QUIET_S = 1.0
CUT_QUIET_S = 5.0
# Looks take no more than this part of the time, however many files there are.
_LOOK_SHARE = 0.05
_READ_S = 300.0
# So many files of a folder are looked at, and the newest of all traces.
MOST_FILES = 10_000
MOST_TRACES = 20

_TRACE = re.compile(r"(.*[._-])?trace(_rank_[0-9]+)?\.json(\.gz)?")
_OF_PROCESS = re.compile(r"_pid_[0-9]+(/|$)")
_UNFINISHED = ".tmp"


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file as a look found it, by its path with slashes."""

    path: str
    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """A trace whose session was the same in two looks."""

    path: str
    # What tells it from the same trace written again.
    files: frozenset[SeenFile]
    quiet_s: float


class Arrivals:
    """Which traces are complete, from one look at all files to the next."""

    def __init__(self) -> None:
        # By trace: the files of its session, and since when they are as they are.
        self._since: dict[str, tuple[frozenset[SeenFile], float]] = {}

    def look(self, files: Iterable[SeenFile], now_s: float) -> tuple[Arrived, ...]:
        """The newest traces, of those in sessions that no longer change and hold no unfinished file."""
        # A folder may lie in another one that is watched.
        files = tuple(dict.fromkeys(files))
        before, self._since = self._since, {}
        arrived = []
        for path, session in _sessions(files):
            known = before.get(path)
            since_s = known[1] if known is not None and known[0] == session else now_s
            self._since[path] = (session, since_s)
            is_finished = not any(file.path.endswith(_UNFINISHED) for file in session)
            if is_finished and now_s - since_s >= QUIET_S:
                arrived.append(Arrived(path, session, now_s - since_s))
        return tuple(arrived)


class ForeignProfiles:
    """What is known from the user's own profiles. Made and used on the thread of a running loop."""

    def __init__(self, changed: Callable[[], None], complain: Callable[[str], None]) -> None:
        """changed: called when something else is to be shown. complain: gets one sentence, once for each folder."""
        self._changed = changed
        self._complain = complain
        self._complained: set[str] = set()
        self._folders: tuple[str, ...] = ()
        self._roots: tuple[str, ...] = ()
        self._open: tuple[str, ...] = ()
        self._arrivals = Arrivals()
        # By trace: the files of its session when it was read, and what it holds.
        self._read: dict[str, tuple[frozenset[SeenFile], tuple[ForeignCapture, ...]]] = {}
        # Newest first; and by path of a source what is told of its functions.
        self._shown: tuple[ForeignCapture, ...] = ()
        self._by_source: dict[str, list[tuple[ForeignCapture, ForeignFunction]]] = {}
        # When files that are open were written last, in seconds since the epoch.
        self._written_s: dict[str, float] = {}
        # By path: the functions of the text that was asked about last.
        self._definitions: dict[str, tuple[Outline, tuple[Definition, ...]]] = {}
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def watch(self, folders: Iterable[str], roots: Iterable[str], open_files: Iterable[str]) -> None:
        """Take these absolute folders, in place of earlier ones. roots: the project that functions are looked up in."""
        wanted = tuple(dict.fromkeys(folders)), tuple(dict.fromkeys(roots)), tuple(open_files)
        if wanted == (self._folders, self._roots, self._open):
            return
        if wanted[1] != self._roots:
            # Functions may be found in other files now.
            self._read.clear()
        self._folders, self._roots, self._open = wanted
        if self._folders and self._task is None:
            self._task = asyncio.create_task(self._attend(), name="watch profiles of others")
        self._woken.set()

    def functions(self, file: OpenFile) -> Iterator[tuple[Definition, ForeignCapture, ForeignFunction]]:
        """The functions of an analysed file that profiles are of, each as often as it was profiled, newest first."""
        found = self._by_source.get(file.path)
        if file.outline is None or found is None:
            return
        known = self._definitions.get(file.path)
        if known is None or known[0] is not file.outline:
            known = self._definitions[file.path] = (file.outline, definitions(file.outline))
        by_name = {(item.qualname, item.occurrence): item for item in known[1]}
        for capture, function in found:
            place = by_name.get((function.qualname or "", function.occurrence or 0))
            if place is not None:
                yield place, capture, function

    def is_stale(self, file: OpenFile, capture: ForeignCapture) -> bool:
        """Whether a file was changed since a trace was written, on disk or in the editor."""
        written_s = self._written_s.get(file.path)
        return file.text != file.saved_text or written_s is None or written_s > (capture.written_s or 0.0)

    async def close(self) -> None:
        """Watch nothing any more; leaves no process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _attend(self) -> None:
        while True:
            # Folders that come from here on are looked at at once.
            self._woken.clear()
            pause_s = QUIET_S
            try:
                pause_s = max(pause_s, await self._look() / _LOOK_SHARE)
            except Exception:
                log.exception("profiles of others are not read")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._woken.wait(), pause_s if self._folders else None)

    async def _look(self) -> float:
        """Take up what is there by now; gives how many seconds it took to see it."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        seen, written_s = await asyncio.to_thread(_looked_at, self._folders, self._open)
        seen_s = loop.time()
        for folder, files in seen.items():
            if len(files) == MOST_FILES and folder not in self._complained:
                self._complained.add(folder)
                self._complain(f"{folder} holds {MOST_FILES} files or more; no more are looked at, so watch one below")
        found = [file for files in seen.values() for file in files]
        await self._take_up(self._arrivals.look(found, seen_s), frozenset(file.path for file in found))
        if written_s != self._written_s:
            self._written_s = written_s
            self._changed()
        return seen_s - began_s

    async def _take_up(self, arrived: Sequence[Arrived], there: frozenset[str]) -> None:
        """Read what is new, and show what is complete."""
        for item in arrived:
            known = self._read.get(item.path)
            if known is None or known[0] != item.files:
                roots = self._roots
                captures = await self._captures(item.path)
                if roots == self._roots:
                    self._read[item.path] = (item.files, captures)
                    self._show(arrived, there)
        self._show(arrived, there)

    def _show(self, arrived: Sequence[Arrived], there: frozenset[str]) -> None:
        self._read = {path: found for path, found in self._read.items() if path in there}
        quiet_s = {item.path: item.quiet_s for item in arrived}
        shown = [
            capture
            for path, (_, captures) in self._read.items()
            for capture in captures
            if capture.status == "complete"
            or (capture.status == "partial" and (capture in self._shown or quiet_s.get(path, 0.0) >= CUT_QUIET_S))
        ]
        shown.sort(key=lambda capture: -(capture.written_s or 0.0))
        if tuple(shown) != self._shown:
            self._shown, self._by_source = tuple(shown), {}
            for capture in shown:
                for function in capture.functions:
                    if function.path is not None:
                        self._by_source.setdefault(function.path, []).append((capture, function))
            self._changed()

    async def _captures(self, path: str) -> tuple[ForeignCapture, ...]:
        """What a trace holds; nothing where it cannot be read, which is logged."""
        roots = [argument for root in self._roots for argument in ("--root", root) if os.path.isdir(root)]  # noqa: PTH112
        # Imported with the first trace: most servers never see one.
        from profile_neuron.daemon.hosts import own_command

        process = await asyncio.create_subprocess_exec(
            *own_command("report", path, "--json", *roots),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd="/" if os.name == "posix" else tempfile.gettempdir(),
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), _READ_S)
            return captures_in(json.loads(out))
        except asyncio.TimeoutError:
            log.warning("%s is not read, since that takes more than %d s", path, _READ_S)
        except (ValueError, TypeError):
            log.warning("%s is not read: %s", path, err.decode(errors="replace").strip())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return ()


def _looked_at(
    folders: Sequence[str], open_files: Sequence[str]
) -> tuple[Mapping[str, tuple[SeenFile, ...]], dict[str, float]]:
    """The files of the folders, and when the open ones were written; for a thread, since it asks the disk."""
    written_s = {}
    for path in open_files:
        with contextlib.suppress(OSError, ValueError):
            written_s[path] = Path(path).stat().st_mtime
    return {folder: tuple(files_below(folder)) for folder in folders}, written_s


def files_below(folder: str) -> Iterator[SeenFile]:
    """The files below a folder, no more than there may be; links lead nowhere."""
    count = 0
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(parent, name)  # noqa: PTH118 - of many thousand files, once a second
            try:
                status = os.lstat(path)
            except OSError:
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            if count == MOST_FILES:
                return
            count += 1
            yield SeenFile(path.replace(os.sep, "/"), status.st_size, status.st_mtime_ns)


def _sessions(files: Sequence[SeenFile]) -> Iterator[tuple[str, frozenset[SeenFile]]]:
    """The newest traces with the files that are written together with them; those of runs of ours are left out.

    These are all in the folder of one that lies below a process's folder, and else itself and its unfinished form.
    """
    ours = {file.path.rpartition("/")[0] for file in files if file.path.endswith(f"/{RECORD}")}
    traces = [
        file
        for file in files
        if _TRACE.fullmatch(file.path.rpartition("/")[2])
        and ours.isdisjoint(map(str, PurePosixPath(file.path).parents))
    ]
    traces.sort(key=lambda file: (-file.mtime_ns, file.path))
    for trace in traces[:MOST_TRACES]:
        folder = trace.path.rpartition("/")[0]
        if _OF_PROCESS.search(folder):
            yield trace.path, frozenset(file for file in files if file.path.startswith(f"{folder}/"))
        else:
            unfinished = f"{trace.path}{_UNFINISHED}"
            yield trace.path, frozenset(file for file in files if file.path in (trace.path, unfinished))
