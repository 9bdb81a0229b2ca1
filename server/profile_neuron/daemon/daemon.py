"""What the language server knows and does between requests: open files, results, and the runs that make them.

State changes only on the event loop's thread. Which run starts when is the scheduler's to say; this is its shell.
Disk and processes are used in tasks and threads, so that whoever asks for a view is answered from memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from profile_neuron.core.anchor import row_costs
from profile_neuron.core.findings import Finding, findings, unparsable
from profile_neuron.core.fingerprint import digest as digest_of
from profile_neuron.core.hover import Now, function_hover, line_hover, report
from profile_neuron.core.keys import circumstances, needs_no_run, result_key
from profile_neuron.core.model import Activity, Failure, Result
from profile_neuron.core.plain import from_plain, to_plain
from profile_neuron.core.project import module_place, project_root
from profile_neuron.core.render import HintSettings, hints, lenses, total_text
from profile_neuron.core.text import decode, split_lines
from profile_neuron.daemon.agents import Agents, Place
from profile_neuron.daemon.editor import Editor, RunNews
from profile_neuron.daemon.files import OpenFile, Outcome, analysis
from profile_neuron.daemon.interpreters import interpreter
from profile_neuron.daemon.scheduler import (
    Asked,
    CancelAsked,
    CancelRun,
    CheckFile,
    Dropped,
    Event,
    FileChecked,
    FileClosed,
    FileSaved,
    FunctionId,
    RunEnded,
    Scheduler,
    StartRun,
    StartTimer,
    TimerFired,
    Wish,
)
from profile_neuron.daemon.settings import Settings
from profile_neuron.daemon.store import Row, Store
from profile_neuron.daemon.toolchains import Toolchains
from profile_neuron.daemon.trust import TrustRecord
from profile_neuron.errors import AgentError, ProfileNeuronError, SourceError, StoreError
from profile_neuron.folders import cache_folder, state_folder
from profile_neuron.wire.messages import Limits, RunDone, RunFailed, RunOutput, RunProgress, RunRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from profile_neuron.core.model import FunctionView, LineCosts, ShownState, Toolchain
    from profile_neuron.core.outline import FunctionOutline, Outline
    from profile_neuron.core.render import Hint, Lens

log = logging.getLogger(__name__)

T = TypeVar("T")

# Above this a text is analysed in a thread: a request must not wait for seconds of it.
LARGE_TEXT = 300_000
_MAX_AGE_S = 90 * 86400.0
# An editor may still be writing when it says that it saved.
_WRITING_S = 0.3
_WRITING_TRIES = 10
# Or between the removal of a file and the renaming of the one that takes its place.
_MISSING_TRIES = 2
_LOG_LINES = 2000


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a wish was made of: one text of a file, as its bytes on disk were."""

    path: str
    sha256: str
    outline: Outline
    function: FunctionOutline
    key: str
    root: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class _Disk:
    """What a look at the disk gave."""

    source: bytes
    text: str
    hashes: dict[str, str]
    toolchain: Toolchain | None


class Daemon:
    """One per server; every method but close returns at once."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        # Rises whenever something else than a text may be shown differently.
        self.epoch = 0
        self._files: dict[str, OpenFile] = {}
        self._analyses: dict[str, asyncio.Task[None]] = {}
        self._roots: tuple[str, ...] = ()
        # By root; that of no root is for files outside of all workspace folders.
        self._settings: dict[str, Settings] = {}
        self._scheduler = Scheduler()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        # Functions of saved files that will be run as soon as the saves are gathered, and those that will not,
        # because a person cancelled them before.
        self._expected: dict[str, frozenset[FunctionId]] = {}
        self._unwanted: set[FunctionId] = set()
        self._plans: dict[str, _Plan] = {}
        self._running: RunNews | None = None
        self._cancelled: set[str] = set()
        self._running_agent: Any = None
        self._agents = Agents()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        # What the client says of trust; None for a client that has no notion of it.
        self._client_trust: bool | None = None
        self._trust = TrustRecord(_folder(state_folder, "trust"))
        self._answers: dict[str, bool | None] = {}
        self._asked_trust: set[str] = set()
        # Saved files of which nothing was run, because nobody had said that it may.
        self._unsure: set[str] = set()
        self._toolchains = Toolchains(_folder(cache_folder, "toolchains"))
        self._stores: dict[str, Store] = {}
        self._store_thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._store_complaints: set[str] = set()
        self._hidden = False
        # What functions printed in their last run.
        self._output: dict[FunctionId, list[str]] = {}

    # What the editor says.

    def set_roots(self, roots: Iterable[str]) -> None:
        """The workspace folders, as absolute paths."""
        before, self._roots = self._roots, tuple(roots)
        for gone in set(before) - set(self._roots):
            self._start(self._agents.end_root(gone), f"end agents of {gone}")
        for file in list(self._files.values()):
            root = self._root_of(file.path)
            if root != file.root:
                self._cancel_file(file.path)
                file.root, file.results, file.outcomes = root, (), {}
                self._start(self._load(file.path), f"load {file.path}")
        self._repaint(urgent=True)

    def set_settings(self, root: str, settings: Settings) -> None:
        """The settings of a workspace folder, or with an empty root of files outside of all."""
        before = self._settings_of(root)
        self._settings[root] = settings
        if before == settings:
            return
        for file in self._files.values():
            if file.root == root or root == "":
                if before.decorator_modules != settings.decorator_modules:
                    file.forget_analysis()
                self._start(self._load(file.path), f"load {file.path}")
        self._repaint(urgent=True)

    def set_trust(self, trusted: bool | None) -> None:
        """What a client that knows trust says of all folders; None for one that does not know it."""
        self._client_trust = trusted
        if trusted is False:
            self._handle(CancelAsked(None))
        self._repaint(urgent=True)

    def answer_trust(self, root: str, trusted: bool) -> None:
        """The person's answer for a folder, which is kept."""
        self._answers[root] = trusted
        try:
            self._trust.keep(root, trusted)
        except OSError as error:
            self._editor.warn(f"the answer for {root} cannot be kept ({error}); it holds until the server ends")
        if trusted:
            # What was saved while the question stood.
            for path in [path for path in self._unsure if self._files[path].root == root]:
                self._unsure.discard(path)
                self._handle(FileSaved(path))
        self._repaint(urgent=True)

    def opened(self, path: str, uri: str, text: str, version: int) -> None:
        """A file is shown."""
        root = self._root_of(path)
        package = module_place(Path(path), os.path.exists).package
        self._files[path] = OpenFile(path, uri, root, package, text, version, saved_text=text)
        self._start(self._load(path), f"load {path}")

    def changed(self, path: str, text: str, version: int) -> None:
        """A file was edited; nothing was saved."""
        file = self._files.get(path)
        if file is not None:
            file.replace_text(text, version)

    def saved(self, path: str, manual: bool, text: str | None = None) -> None:
        """A file was saved. text: what the client says was written, which then counts."""
        file = self._files.get(path)
        if file is None:
            return
        if text is not None and text != file.text:
            log.info("%s was saved with another text than was edited; the saved one counts", path)
            file.replace_text(text, file.version)
        file.saved_text = file.text
        for other in self._files.values():
            if other is not file and path in other.hashes:
                self._start(self._load(other.path), f"load {other.path}")
        settings = self._settings_of(file.root)
        wanted = settings.run_on_save == "always" or (settings.run_on_save == "manual" and manual)
        if settings.enable and wanted:
            self._expected[path] = self._expected_of(file)
            self._handle(FileSaved(path))

    def closed(self, path: str) -> None:
        """A file is no longer shown; a run of it that is on ends by itself, and its result is kept."""
        if self._files.pop(path, None) is not None:
            self._expected.pop(path, None)
            self._unsure.discard(path)
            self._handle(FileClosed(path))

    def renamed(self, old: str, new: str) -> None:
        """A file got another name; what is known of it goes with it."""
        store = self._store(self._root_of(new))

        async def move() -> None:
            await self._in_store_thread(store.rename, old, new)
            await self._load(new)

        self._start(move(), f"rename {old}")

    # What the person asks for.

    async def profile(self, path: str, ids: Iterable[FunctionId] | None, stale_only: bool = False) -> tuple[str, ...]:
        """Run functions of an open file as they are on disk; None means all of them.

        Gives the ids of the runs that were queued, without waiting for any; for none the person is told why.
        """
        file = self._files.get(path)
        if file is None:
            self._editor.warn(f"{Path(path).name} is not open; open it first")
            return ()
        if not self._may_run(file.root):
            if self._client_trust is False:
                self._editor.warn("this workspace is not trusted, so nothing in it is run; trust it in the editor")
                return ()
            self.answer_trust(file.root, trusted=True)
        return await self._ask(path, None if ids is None else frozenset(ids), stale_only)

    async def profile_all_stale(self) -> tuple[str, ...]:
        """Run what has no result of today's code in all open files of folders that may be run."""
        may = [file.path for file in self._files.values() if self._may_run(file.root)]
        asked = [await self._ask(path, None, stale_only=True) for path in may]
        return tuple(run_id for ids in asked for run_id in ids)

    def cancel(self, ids: Iterable[FunctionId] | None) -> None:
        """End the runs of these functions, waiting or on; None means all."""
        functions = None if ids is None else frozenset(ids)
        for path, expected in self._expected.items():
            cancelled = expected if functions is None else expected & functions
            self._unwanted |= cancelled
            self._expected[path] = expected - cancelled
        self._handle(CancelAsked(functions))

    def cancel_run(self, run_id: str) -> None:
        """End one run."""
        if self._running is not None and self._running.run_id == run_id:
            self.cancel([self._running.function])

    def clear(self, path: str) -> None:
        """Forget the results of a file, on disk as well."""
        file = self._files.get(path)
        if file is None:
            return
        file.results, file.outcomes, file.save_problem = (), {}, None
        store = self._store(file.root)
        self._start(self._in_store_thread(store.remove, path), f"clear {path}")
        self._repaint(urgent=True)

    def toggle(self) -> None:
        """Hide or show all hints and lenses."""
        self._hidden = not self._hidden
        self._repaint(urgent=True)

    # What there is to show.

    def file(self, path: str) -> OpenFile | None:
        return self._files.get(path)

    @property
    def files(self) -> tuple[OpenFile, ...]:
        return tuple(self._files.values())

    @property
    def roots(self) -> tuple[str, ...]:
        return self._roots

    async def analysed(self, path: str) -> OpenFile | None:
        """An open file with the outline of its text as it is when this returns; None for one that is not open."""
        while (file := self._files.get(path)) is not None and not file.is_analysed:
            if len(file.text) < LARGE_TEXT:
                file.analyse(self._settings_of(file.root).decorator_modules)
            else:
                await self._analyse_aside(file)
        return file

    async def _analyse_aside(self, file: OpenFile) -> None:
        """Analyse a large text in a thread, once however many ask for it."""
        task = self._analyses.get(file.path)
        if task is None:
            modules = self._settings_of(file.root).decorator_modules

            async def analyse() -> None:
                text = file.text
                file.take_analysis(text, *await asyncio.to_thread(analysis, text, modules, file.package, file.outline))

            task = self._analyses[file.path] = asyncio.create_task(analyse(), name=f"analyse {file.path}")
            task.add_done_callback(lambda _: self._analyses.pop(file.path, None))
        await asyncio.shield(task)

    def views(self, file: OpenFile) -> tuple[FunctionView, ...]:
        """Views of the functions of an analysed file, in source order."""
        if not self._settings_of(file.root).enable:
            return ()
        state: ShownState | None = None if self._may_run(file.root) else "untrusted"
        return file.views(self.epoch, self._activity, state)

    def hints(self, file: OpenFile) -> tuple[Hint, ...]:
        """Inlay hints of an analysed file, sorted by line."""
        settings = self._settings_of(file.root)
        if self._hidden or not settings.hints_enable:
            return ()
        wanted = HintSettings(
            settings.hints_min_share,
            settings.hints_min_time_ns,
            settings.hints_max_per_function,
            settings.hints_stale == "mark",
        )
        return hints(self.views(file), wanted)

    def lenses(self, file: OpenFile) -> tuple[Lens, ...]:
        """Code lenses of an analysed file, sorted by line."""
        if self._hidden or not self._settings_of(file.root).code_lens_enable:
            return ()
        return lenses(self.views(file), time.time())

    def findings(self, file: OpenFile) -> tuple[Finding, ...]:
        """Remarks at lines of an analysed file."""
        settings = self._settings_of(file.root)
        if not settings.diagnostics_enable:
            return ()
        severities = dict(settings.diagnostics_severity)
        found = findings(file.path, self.views(file), severities)
        if file.save_problem is not None:
            found += unparsable(*file.save_problem, severities)
        return found

    def hover(self, file: OpenFile, line: int) -> str:
        """Markdown about a line of an analysed file; empty where there is nothing to say."""
        inner = [view for view in self.views(file) if view.spec.first_line <= line <= view.spec.last_line]
        for view in reversed(inner):
            if view.spec.first_line <= line <= view.spec.def_line:
                return function_hover(view, _now())
            for row in view.rows:
                if row.line == line:
                    return line_hover(view, row, _now())
        return ""

    def row_hover(self, file: OpenFile, function: int, row: int) -> str:
        """Markdown about one row of a function, by their positions in the views."""
        found = self.views(file)
        if function >= len(found) or row >= len(found[function].rows):
            return ""
        return line_hover(found[function], found[function].rows[row], _now())

    def report(self, file: OpenFile, function: FunctionId) -> str:
        """A Markdown document about a function of an analysed file; empty where it is not there."""
        for view in self.views(file):
            if self._id(file, view) == function:
                numbered = enumerate(file.lines[view.spec.def_line - 1 : view.spec.last_line], view.spec.def_line)
                return report(view, numbered, _now())
        return ""

    def log_of(self, function: FunctionId) -> str:
        """What a function printed in its last run, and how that ended."""
        lines = list(self._output.get(function, ()))
        file = self._files.get(function.path)
        outcome = file.outcomes.get(function) if file is not None else None
        if outcome is not None:
            lines += [f"{outcome.state}: {outcome.failure.reason}"]
            lines += [f"  {frame.path}:{frame.line} {frame.function}: {frame.text}" for frame in outcome.failure.frames]
        return "\n".join(lines or ["nothing was printed"]) + "\n"

    def functions_at(self, file: OpenFile, line: int) -> tuple[FunctionId, ...]:
        """The innermost decorated function of an analysed file that a line is in, if any."""
        inner = [view for view in self.views(file) if view.spec.first_line <= line <= view.spec.last_line]
        return tuple(self._id(file, view) for view in inner[-1:])

    # How it ends.

    async def close(self) -> None:
        """End all runs and everything that was started; takes no longer than ending an agent may."""
        if self._closing:
            return
        self._closing = True
        for timer in self._timers.values():
            timer.cancel()
        await self._agents.end_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for store in self._stores.values():
            with contextlib.suppress(StoreError):
                await asyncio.get_running_loop().run_in_executor(self._store_thread, store.close)
        self._store_thread.shutdown(wait=False)

    # The scheduler's shell.

    def _repaint(self, urgent: bool) -> None:
        self.epoch += 1
        self._editor.repaint(urgent)

    def _handle(self, event: Event) -> None:
        if self._closing:
            return
        loop = asyncio.get_running_loop()
        for action in self._scheduler.handle(event, loop.time()):
            match action:
                case StartTimer(path, at_s):
                    if path in self._timers:
                        self._timers[path].cancel()
                    self._timers[path] = loop.call_at(at_s, self._timer_fired, path)
                case CheckFile(path):
                    self._start(self._check(path), f"check {path}")
                case StartRun(wish):
                    self._running = RunNews(wish.run_id, wish.function)
                    self._start(self._run(wish, self._plans.pop(wish.run_id)), f"run {wish.run_id}")
                case CancelRun(run_id):
                    self._cancelled.add(run_id)
                    if self._running_agent is not None:
                        self._start(self._running_agent.cancel(run_id), f"cancel {run_id}")
                case Dropped(wish, cancelled):
                    plan = self._plans.pop(wish.run_id, None)
                    if cancelled and plan is not None:
                        self._end_without_result(wish, plan, "cancelled", Failure("cancelled"))
        # Plans of wishes that newer ones replaced.
        waiting = {wish.run_id for wish in self._scheduler.waiting}
        self._plans = {run_id: plan for run_id, plan in self._plans.items() if run_id in waiting}
        if not isinstance(event, (TimerFired, FileClosed)):
            # What follows in a moment is shown together with this.
            goes_on = isinstance(event, (FileChecked, RunEnded)) and self._scheduler.running is not None
            self._repaint(urgent=not goes_on)

    def _timer_fired(self, path: str) -> None:
        self._timers.pop(path, None)
        self._handle(TimerFired(path))

    def _start(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        """Run a task that this object owns; its error is logged, once and in full."""
        if self._closing:
            work.close()
            return

        async def owned() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("%s", name)

        task = asyncio.create_task(owned(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Reading what is on disk.

    async def _load(self, path: str) -> None:
        """Bring what is known of a file up to the store and the disk."""
        file = self._files.get(path)
        if file is None:
            return
        store = self._store(file.root)
        rows = await self._in_store_thread(store.load, path) or ()
        self._answers[file.root] = self._trust.answer(file.root)
        stored = _results(rows)
        if file is not self._files.get(path):
            return
        known = {result.run_id for result in stored}
        fresh = tuple(result for result in file.results if result.run_id not in known)
        file.results = tuple(sorted((*fresh, *stored), key=lambda result: -result.finished_s))
        hashes, toolchain = await asyncio.to_thread(self._surroundings, file.root, _module_paths(file.results))
        self._take_surroundings(file, hashes, toolchain)
        self._repaint(urgent=True)

    def _surroundings(self, root: str, paths: Iterable[str]) -> tuple[dict[str, str], Toolchain | None]:
        settings = self._settings_of(root)
        return _hashes(paths), self._toolchains.known(interpreter(root, settings.interpreter))

    def _take_surroundings(self, file: OpenFile, hashes: dict[str, str], toolchain: Toolchain | None) -> None:
        file.hashes = hashes
        file.circumstances = self._circumstances(file, toolchain) if toolchain is not None else ""

    def _circumstances(self, file: OpenFile, toolchain: Toolchain) -> str:
        settings = self._settings_of(file.root)
        return circumstances(toolchain, settings.run_env, (self._cwd(file.path, file.root), *self._project(file)))

    def _look(self, path: str, root: str, modules: Iterable[str]) -> _Disk:
        """Read a file and what its results depend on. Raises OSError or SourceError."""
        source = Path(path).read_bytes()
        hashes, toolchain = self._surroundings(root, modules)
        return _Disk(source, decode(source), hashes, toolchain)

    async def _saved_text(self, path: str) -> tuple[OpenFile, _Disk, Outline] | None:
        """The saved text of an open file as it is on disk, with its outline; None where there is nothing to run.

        Why there is not is kept with the file.
        """
        problem: tuple[int | None, str] = (None, "")
        for number in range(_WRITING_TRIES):
            file = self._files.get(path)
            if file is None:
                return None
            try:
                disk = await asyncio.to_thread(self._look, path, file.root, _module_paths(file.results))
            except FileNotFoundError:
                problem = (None, f"{path} is not on disk; save it first")
                if number >= _MISSING_TRIES - 1:
                    self._take_problem(path, problem)
                    return None
            except OSError as error:
                problem = (None, f"{path} cannot be read: {error.strerror or error}")
            except SourceError as error:
                problem = (error.line, str(error))
            else:
                if _same_text(disk.text, file.saved_text):
                    break
                problem = (None, f"{path} on disk differs from what the editor saved; save it again")
            if number < _WRITING_TRIES - 1:
                await asyncio.sleep(_WRITING_S)
        else:
            self._take_problem(path, problem)
            return None
        if file is not self._files.get(path):
            return None
        modules = self._settings_of(file.root).decorator_modules
        if len(disk.text) < LARGE_TEXT:
            found, source_error = analysis(disk.text, modules, file.package, file.outline)
        else:
            found, source_error = await asyncio.to_thread(analysis, disk.text, modules, file.package, file.outline)
            if found is not None:
                # A key needs the digest of every function, which in a large file takes a while.
                await asyncio.to_thread(lambda: found.digest)
        if found is None:
            self._take_problem(path, (source_error.line, str(source_error)) if source_error else (None, ""))
            return None
        file.save_problem = None
        self._take_surroundings(file, disk.hashes, disk.toolchain)
        return file, disk, found

    def _take_problem(self, path: str, problem: tuple[int | None, str]) -> None:
        file = self._files.get(path)
        if file is not None:
            file.save_problem = problem
            self._editor.log(problem[1])
            self._repaint(urgent=True)

    # Deciding what to run.

    async def _check(self, path: str) -> None:
        """Answer a save: find out what of the file has to be run."""
        found = await self._saved_text(path)
        self._expected.pop(path, None)
        if found is None:
            self._handle(FileChecked(path, ()))
            return
        file, disk, saved = found
        keys = {file.id_of(function): result_key(saved, function) for function in saved.functions}
        needed = [function for function in saved.functions if self._needs_run(file, function, keys)]
        if needed and not self._may_run(file.root):
            self._unsure.add(path)
            self._ask_trust(file.root, [function.spec.qualname for function in needed])
            needed = []
        else:
            chosen = self._limited(file, needed)
            if len(chosen) < len(needed):
                name = Path(path).name
                self._editor.log(f"{len(needed)} functions of {name} have no result; {len(chosen)} of them are run")
            needed = [function for function in chosen if file.id_of(function) not in self._unwanted]
            file.baseline = saved
        self._unwanted.clear()
        wishes = [self._wish(file, disk, saved, function, keys) for function in needed]
        self._handle(FileChecked(path, tuple(wishes), tuple((wish, self._wish_key(file, keys[wish])) for wish in keys)))

    def _expected_of(self, file: OpenFile) -> frozenset[FunctionId]:
        """What a save of a file will most likely run, to be shown at once."""
        if len(file.text) >= LARGE_TEXT or not self._may_run(file.root):
            return frozenset()
        file.analyse(self._settings_of(file.root).decorator_modules)
        if file.error is not None or file.outline is None:
            return frozenset()
        functions = file.outline.functions
        keys = {file.id_of(function): result_key(file.outline, function) for function in functions}
        needed = [function for function in functions if self._needs_run(file, function, keys)]
        return frozenset(file.id_of(function) for function in self._limited(file, needed))

    async def _ask(self, path: str, ids: frozenset[FunctionId] | None, stale_only: bool) -> tuple[str, ...]:
        """Answer a person who wants functions to be run; gives the ids of the runs."""
        found = await self._saved_text(path)
        if found is None:
            file = self._files.get(path)
            if file is not None and file.save_problem is not None:
                self._editor.warn(file.save_problem[1])
            return ()
        file, disk, saved = found
        keys = {file.id_of(function): result_key(saved, function) for function in saved.functions}
        wanted = [
            function
            for function in saved.functions
            if (ids is None or file.id_of(function) in ids)
            and (not stale_only or self._needs_run(file, function, keys))
        ]
        if not wanted and not stale_only:
            name = Path(path).name
            self._editor.warn(
                f"the function is not in {name} as it is on disk; save it and profile again"
                if ids
                else f"{name} has no function marked @profile_neuron; put the decorator on one"
            )
        wishes = [self._wish(file, disk, saved, function, keys) for function in wanted]
        self._handle(Asked(tuple(wishes)))
        return tuple(wish.run_id for wish in wishes)

    def _needs_run(self, file: OpenFile, function: FunctionOutline, keys: dict[FunctionId, str]) -> bool:
        function_id = file.id_of(function)
        key = keys[function_id]
        outcome = file.outcomes.get(function_id)
        if outcome is not None and outcome.state == "noInputs" and outcome.key == key:
            return False
        return not any(
            needs_no_run(result, key, file.circumstances, file.hashes)
            for result in file.results
            if (result.qualname, result.occurrence) == function_id[1:]
        )

    def _limited(self, file: OpenFile, needed: list[FunctionOutline]) -> list[FunctionOutline]:
        """All of them if they are few, else those that were edited, and no more than one save may run."""
        most = self._settings_of(file.root).run_max_per_save
        if len(needed) <= most:
            return needed
        before = file.baseline
        edited = []
        for function in needed:
            old = None if before is None else before.function(function.spec.qualname, function.occurrence)
            if old is None or not old.same_tree(function):
                edited.append(function)
        return edited[:most]

    def _wish(
        self, file: OpenFile, disk: _Disk, saved: Outline, function: FunctionOutline, keys: dict[FunctionId, str]
    ) -> Wish:
        function_id = file.id_of(function)
        run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
        sha256 = hashlib.sha256(disk.source).hexdigest()
        settings = self._settings_of(file.root)
        self._plans[run_id] = _Plan(file.path, sha256, saved, function, keys[function_id], file.root, settings)
        return Wish(run_id, function_id, self._wish_key(file, keys[function_id]))

    def _wish_key(self, file: OpenFile, key: str) -> str:
        """What makes two runs the same: the text, and on disk the modules that earlier runs imported."""
        return digest_of([key, file.circumstances, *(f"{path} {file.hashes[path]}" for path in sorted(file.hashes))])

    # Running.

    async def _run(self, wish: Wish, plan: _Plan) -> None:
        started_s = time.monotonic()
        news = self._running or RunNews(wish.run_id, wish.function)
        self._editor.run_started(news)
        self._output[wish.function] = []
        place = Place(plan.root, interpreter(plan.root, plan.settings.interpreter), plan.settings.run_env)
        summary = "cancelled"
        try:
            end = await self._outcome(wish, plan, place)
            if isinstance(end, RunDone):
                summary = await self._take_costs(wish, plan, end.costs, place.python)
            else:
                summary = f"{end.state}: {end.failure.reason}"
                if end.state == "failed" and await asyncio.to_thread(_changed_on_disk, plan):
                    # A later save was quicker than this run, and asks for its own.
                    self._handle(FileSaved(plan.path))
                else:
                    self._end_without_result(wish, plan, end.state, end.failure)
        finally:
            self._running, self._running_agent = None, None
            self._cancelled.discard(wish.run_id)
            self._editor.run_ended(news, summary)
            self._editor.log(f"{wish.function.qualname}: {summary} ({time.monotonic() - started_s:.1f} s)")
            self._handle(RunEnded(wish.run_id))

    async def _outcome(self, wish: Wish, plan: _Plan, place: Place) -> RunDone | RunFailed:
        try:
            if await asyncio.to_thread(self._toolchains.known, place.python) is None:
                # Packages came or went, and a warm worker would still have the old ones.
                await self._agents.end([place])
            agent = self._running_agent = await self._agents.ready(place)
            if wish.run_id in self._cancelled:
                return RunFailed(wish.run_id, "cancelled", Failure("cancelled"))
            async for message in agent.run(self._request(wish, plan)):
                match message:
                    case RunProgress(phase=phase, done=done, total=total):
                        is_new = self._running is None or self._running.phase != phase
                        self._running = RunNews(wish.run_id, wish.function, phase, done, total)
                        self._editor.run_progressed(self._running)
                        if is_new:
                            self._repaint(urgent=False)
                    case RunOutput(text=text):
                        self._take_output(wish.function, text)
                    case RunDone() | RunFailed():
                        return message
        except AgentError as error:
            await self._agents.end([place])
            if wish.run_id in self._cancelled:
                return RunFailed(wish.run_id, "cancelled", Failure("cancelled"))
            return RunFailed(wish.run_id, "failed", Failure(str(error)))
        except ProfileNeuronError as error:
            return RunFailed(wish.run_id, "failed", Failure(str(error)))
        raise AssertionError("a run ends with RunDone or RunFailed")

    def _request(self, wish: Wish, plan: _Plan) -> RunRequest:
        spec, settings = plan.function.spec, plan.settings
        return RunRequest(
            run_id=wish.run_id,
            path=plan.path,
            sha256=plan.sha256,
            qualname=spec.qualname,
            first_line=spec.first_line,
            def_line=spec.def_line,
            repeats=None,
            device="cpu",
            decorator_modules=settings.decorator_modules,
            project_roots=_project(plan.path, plan.root, settings),
            cwd=_cwd(plan.path, plan.root, settings),
            limits=Limits(settings.run_import_timeout_s, settings.run_timeout_s),
        )

    def _take_output(self, function: FunctionId, text: str) -> None:
        kept = self._output.setdefault(function, [])
        lines = text.split("\n")
        room = max(0, _LOG_LINES - len(kept))
        for line in lines[:room]:
            self._editor.log(f"{function.qualname} │ {line}")
        kept += lines[:room]
        if room and len(lines) >= room:
            self._editor.log(f"{function.qualname} │ … more lines are not shown")

    async def _take_costs(self, wish: Wish, plan: _Plan, costs: LineCosts, python: str) -> str:
        """Take over the result of a run; gives how it went in a few words."""
        target = costs.functions[0]
        await asyncio.to_thread(self._toolchains.learn, python, costs.toolchain)
        if target.state != "fresh":
            failure = Failure(target.reason or "", target.frames)
            self._end_without_result(wish, plan, target.state, failure)
            return f"{target.state}: {target.reason}"
        file = self._files.get(plan.path)
        made_with = circumstances(
            costs.toolchain,
            plan.settings.run_env,
            (_cwd(plan.path, plan.root, plan.settings), *_project(plan.path, plan.root, plan.settings)),
        )
        result = _result(wish, plan, costs, made_with)
        if file is not None and file.root == plan.root:
            file.results = (result, *file.results)
            file.outcomes.pop(wish.function, None)
            file.circumstances = made_with
            for module in result.modules:
                file.hashes.setdefault(module.path, module.sha256)
            for other in self._files.values():
                if other is not file and other.root == file.root and not other.circumstances:
                    other.circumstances = self._circumstances(other, costs.toolchain)
        row = Row(plan.path, *wish.function[1:], result.key, result.finished_s, _encoded(result))
        self._start(self._in_store_thread(self._store(plan.root).add, row), f"store {wish.run_id}")
        return total_text(result)

    def _end_without_result(self, wish: Wish, plan: _Plan, state: Any, failure: Failure) -> None:
        file = self._files.get(plan.path)
        if file is not None:
            file.outcomes[wish.function] = Outcome(state, failure, plan.key, plan.outline.lines)

    def _activity(self, function: FunctionId) -> Activity | None:
        running = self._running
        if running is not None and running.function == function:
            return Activity(running.run_id, None, running.phase, running.done, running.total)
        ahead = self._scheduler.ahead_of(function)
        if ahead is None and function in self._expected.get(function.path, ()):
            ahead = len(self._scheduler.waiting) + (self._scheduler.running is not None)
        return None if ahead is None else Activity("", ahead)

    # Trust.

    def _may_run(self, root: str) -> bool:
        if self._client_trust is not None:
            return self._client_trust
        return bool(self._answers.get(root))

    def _ask_trust(self, root: str, names: Sequence[str]) -> None:
        """Ask once, and only where nobody else decides and no answer is kept."""
        if self._client_trust is None and self._answers.get(root) is None and root not in self._asked_trust:
            self._asked_trust.add(root)
            self._editor.ask_trust(root, names)

    # Folders, settings and the store.

    def _root_of(self, path: str) -> str:
        holding = [root for root in self._roots if Path(path).is_relative_to(root)]
        return max(holding, key=len) if holding else str(project_root(Path(path), os.path.exists))

    def _settings_of(self, root: str) -> Settings:
        return self._settings.get(root) or self._settings.get("") or Settings()

    def _cwd(self, path: str, root: str) -> str:
        return _cwd(path, root, self._settings_of(root))

    def _project(self, file: OpenFile) -> tuple[str, ...]:
        return _project(file.path, file.root, self._settings_of(file.root))

    def _cancel_file(self, path: str) -> None:
        functions = {wish.function for wish in self._scheduler.waiting}
        if self._running is not None:
            functions.add(self._running.function)
        mine = frozenset(function for function in functions if function.path == path)
        if mine:
            self._handle(CancelAsked(mine))

    def _id(self, file: OpenFile, view: FunctionView) -> FunctionId:
        return FunctionId(file.path, view.spec.qualname, view.occurrence)

    def _store(self, root: str) -> Store:
        settings = self._settings_of(root)
        name = hashlib.sha256(root.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        given = Path(settings.store_directory).expanduser() if settings.store_directory else None
        if given is not None and given.is_relative_to(root):
            self._complain(f"{given} lies in the workspace, where no results are kept; using the cache folder")
            given = None
        try:
            if given is None:
                folder = cache_folder(f"results/{name}")
            else:
                folder = given / name
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            self._complain(f"the folder for results cannot be used ({error}); results last until the server ends")
            folder = Path(os.devnull)
        known = self._stores.get(str(folder))
        if known is None:
            known = self._stores[str(folder)] = Store(folder, settings.store_max_bytes, _MAX_AGE_S)
        return known

    async def _in_store_thread(self, call: Callable[..., T], *arguments: Any) -> T | None:
        """Call the store; None, and one complaint, where it cannot be used."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._store_thread, call, *arguments)
        except StoreError as error:
            self._complain(str(error))
            return None

    def _complain(self, text: str) -> None:
        if text not in self._store_complaints:
            self._store_complaints.add(text)
            self._editor.log(text)


def _folder(make: Callable[[str], Path], name: str) -> Path:
    """A folder of ours; where it cannot be had, one in which nothing can be kept."""
    try:
        return make(name)
    except OSError as error:
        log.warning("%s cannot be kept: %s", name, error)
        return Path(os.devnull)


def _now() -> Now:
    now_s = time.time()
    return Now(now_s, time.localtime(now_s).tm_gmtoff)


def _result(wish: Wish, plan: _Plan, costs: LineCosts, made_with: str) -> Result:
    target, *_ = costs.functions
    function = plan.function
    reached = [item.qualname for item in costs.functions if item.path == plan.path]
    return Result(
        path=plan.path,
        qualname=wish.function.qualname,
        occurrence=wish.function.occurrence,
        run_id=wish.run_id,
        finished_s=time.time(),
        key=plan.key,
        circumstances=made_with,
        tree=function.tree,
        body=function.body,
        interface=function.interface,
        module_code=plan.outline.module_code,
        functions=plan.outline.dependencies(function, reached),
        modules=costs.modules,
        statements=tuple(statement.digest for statement in function.statements),
        rows=row_costs(target, function),
        costs=target,
        device_kind=costs.device_kind,
        device_name=costs.device_name,
        repeats=costs.repeats,
        warmup=costs.warmup,
        inputs=costs.inputs,
        toolchain=costs.toolchain,
    )


def _encoded(result: Result) -> bytes:
    return json.dumps(to_plain(result)).encode("ascii")


def _results(rows: Iterable[Row]) -> tuple[Result, ...]:
    """Results of what the store gave; those of another version of this program are left out."""
    found = []
    for row in rows:
        try:
            # The file may have had another name when it was run.
            found.append(replace(from_plain(Result, json.loads(row.body)), path=row.path))
        except (ValueError, TypeError, RecursionError) as error:
            log.info("a stored result of %s is left out: %s", row.path, error)
    return tuple(found)


def _module_paths(results: Iterable[Result]) -> frozenset[str]:
    return frozenset(module.path for result in results for module in result.modules)


def _hashes(paths: Iterable[str]) -> dict[str, str]:
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):
            found[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return found


def _changed_on_disk(plan: _Plan) -> bool:
    return _hashes([plan.path]).get(plan.path) != plan.sha256


def _same_text(disk: str, editor: str) -> bool:
    """Whether a file holds what an editor shows: editors keep line ends and the mark at the start for themselves."""
    return disk == editor or split_lines(disk) == split_lines(editor)


def _project(path: str, root: str, settings: Settings) -> tuple[str, ...]:
    own = str(project_root(Path(path), os.path.exists))
    given = [str(Path(root, Path(folder).expanduser())) for folder in settings.project_roots]
    return tuple(dict.fromkeys([own, root, *given]))


def _cwd(path: str, root: str, settings: Settings) -> str:
    match settings.run_cwd:
        case "workspace":
            return root
        case "file":
            return str(Path(path).parent)
    return str(Path(root, Path(settings.run_cwd).expanduser()))
