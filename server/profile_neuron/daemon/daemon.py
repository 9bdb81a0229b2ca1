"""What the language server knows and does between requests: open files, results, and the runs that make them.

State changes only on the event loop's thread. Which run starts when is the scheduler's to say; this is its shell.
Disk and processes are used in tasks and threads, so that whoever asks for a view is answered from memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profile_neuron.core.fingerprint import digest
from profile_neuron.core.keys import circumstances, needs_no_run, result_key
from profile_neuron.core.model import Activity, Failure, LineCosts
from profile_neuron.core.project import module_place, project_root
from profile_neuron.core.render import total_text
from profile_neuron.daemon import disk
from profile_neuron.daemon.editor import Editor, RunNews
from profile_neuron.daemon.files import OpenFile, Outcome, analysis
from profile_neuron.daemon.input_sets import InputSets
from profile_neuron.daemon.interpreters import Place, interpreter
from profile_neuron.daemon.permission import Permission
from profile_neuron.daemon.recordings import recording_of
from profile_neuron.daemon.results import Results, limited, module_paths, result_of
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
from profile_neuron.daemon.toolchains import Toolchains
from profile_neuron.daemon.trust import TrustRecord
from profile_neuron.folders import cache_folder, state_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from profile_neuron.core.model import FunctionView, ShownState, State, Toolchain
    from profile_neuron.core.outline import FunctionOutline, Outline
    from profile_neuron.daemon.runs import Runs
    from profile_neuron.errors import SourceError

log = logging.getLogger(__name__)

# Above this a text is analysed in a thread: a request must not wait for seconds of it.
LARGE_TEXT = 300_000
_LOG_LINES = 2000
# How long saves wait for the first settings.
_AWAITED_S = 5.0


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
class _Saved:
    """The saved text of an open file, with what its results depend on, as all of it was on disk."""

    file: OpenFile
    sha256: str
    outline: Outline
    # Of all its functions.
    keys: dict[FunctionId, str]


class Daemon:
    """One per server. What an editor says is taken up at once; what a person asks for waits for the disk only."""

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
        # Set while the first settings are awaited, with the saves that came meanwhile and whether a person made them.
        self._awaited: asyncio.TimerHandle | None = None
        self._early_saves: list[tuple[str, bool]] = []
        # Functions of saved files that will be run as soon as the saves are gathered, and those that will not,
        # because a person cancelled them before.
        self._expected: dict[str, frozenset[FunctionId]] = {}
        self._unwanted: dict[str, frozenset[FunctionId]] = {}
        self._plans: dict[str, _Plan] = {}
        self._running: RunNews | None = None
        # From the first run on.
        self._runs: Runs | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._permission = Permission(TrustRecord(_folder(state_folder, "trust")))
        # Saved files of which nothing was run, because nobody had said that it may.
        self._unsure: set[str] = set()
        # Of the interpreters at the last run with each.
        self._stamps: dict[Place, tuple[int, int | None]] = {}
        self._toolchains = Toolchains(_folder(cache_folder, "toolchains"))
        self._results = Results(editor.log)
        self._input_sets = InputSets(_folder(state_folder, "inputs"))
        # Whether a person wants to see nothing of ours.
        self.is_hidden = False
        # What functions printed in their last run.
        self._output: dict[FunctionId, list[str]] = {}

    # What the editor says.

    def set_roots(self, roots: Iterable[str]) -> None:
        """The workspace folders, as absolute paths."""
        before, self._roots = self._roots, tuple(roots)
        removed = set(before) - set(self._roots)
        for file in list(self._files.values()):
            root = self._root_of(file.path)
            if root != file.root or root in removed:
                self._cancel_files([file.path])
                file.root, file.results, file.outcomes = root, (), {}
                if root not in removed:
                    self._start(self._load(file.path), f"load {file.path}")
        for root in removed:
            if self._runs is not None:
                self._start(self._runs.agents.end_root(root), f"end agents of {root}")
        self._repaint(urgent=True)

    def set_settings(self, root: str, settings: Settings) -> None:
        """The settings of a workspace folder, or with an empty root of files outside of all."""
        before = self.settings_of(root)
        self._settings[root] = settings
        if before == settings:
            return
        if not settings.enable:
            self._cancel_files([file.path for file in self._files.values() if file.root == root or not root])
        for file in self._files.values():
            if file.root == root or root == "":
                if before.decorator_modules != settings.decorator_modules:
                    file.forget_analysis()
                self._start(self._load(file.path), f"load {file.path}")
        self._repaint(urgent=True)

    def set_trust(self, trusted: bool | None) -> None:
        """What a client that knows trust says of all folders; None for one that does not know it."""
        self._permission.of_client = trusted
        if trusted is False:
            self._handle(CancelAsked(None))
        self._repaint(urgent=True)

    def answer_trust(self, root: str, trusted: bool) -> None:
        """The person's answer for a folder, which is kept."""
        try:
            self._permission.answer(root, trusted)
        except OSError as error:
            self._editor.warn(f"the answer for {root} cannot be kept ({error}); it holds until the server ends")
        if not trusted:
            self._cancel_files([file.path for file in self._files.values() if file.root == root])
        else:
            # What was saved while the question stood.
            for path in [path for path in self._unsure if self._files[path].root == root]:
                self._unsure.discard(path)
                self._handle(FileSaved(path))
        self._repaint(urgent=True)

    def opened(self, path: str, uri: str, text: str, version: int) -> None:
        """A file is shown."""
        root = self._root_of(path)
        package = module_place(Path(path), os.path.exists).package
        self._files[path] = OpenFile(path, uri, root, package, text, version, saved_text=text, opened_text=text)
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
                self._start(self._load_when_saved(other.path, path), f"load {other.path}")
        if self._awaited is not None:
            self._early_saves.append((path, manual))
        else:
            self._judge_save(path, manual)

    def _judge_save(self, path: str, manual: bool) -> None:
        """Take up a save, if it is one that the person wants functions to be run by."""
        file = self._files.get(path)
        if file is None:
            return
        settings = self.settings_of(file.root)
        wanted = settings.run_on_save == "always" or (settings.run_on_save == "manual" and manual)
        if settings.enable and wanted:
            # Saved anew, so wanted anew.
            self._unwanted.pop(path, None)
            self._expected[path] = self._expected_of(file)
            self._handle(FileSaved(path))

    def await_settings(self) -> None:
        """Settings were asked for; saves wait for the answer, but not for one that never comes."""
        if self._awaited is None:
            self._awaited = asyncio.get_running_loop().call_later(_AWAITED_S, self.settings_came)

    def settings_came(self) -> None:
        """What was asked for is known, or will not be."""
        if self._awaited is not None:
            self._awaited.cancel()
            self._awaited = None
            saves, self._early_saves = self._early_saves, []
            for path, manual in saves:
                self._judge_save(path, manual)

    def closed(self, path: str) -> None:
        """A file is no longer shown; a run of it that is on ends by itself, and its result is kept."""
        if self._files.pop(path, None) is not None:
            self._expected.pop(path, None)
            self._unwanted.pop(path, None)
            self._unsure.discard(path)
            self._output = {function: lines for function, lines in self._output.items() if function.path != path}
            self._handle(FileClosed(path))

    def renamed(self, old: str, new: str) -> None:
        """A file got another name; what is known of it goes with it."""
        root = self._root_of(new)

        async def move() -> None:
            await self._results.rename(old, new, root, self.settings_of(root))
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
        if not self._permission.granted(file.root):
            if self._permission.of_client is False:
                self._editor.warn("this workspace is not trusted, so nothing in it is run; trust it in the editor")
                return ()
            self.answer_trust(file.root, trusted=True)
        return await self._ask(path, None if ids is None else frozenset(ids), stale_only)

    async def profile_all_stale(self) -> tuple[str, ...]:
        """Run what has no result of today's code in all open files of folders that may be run."""
        may = [file.path for file in self._files.values() if self._permission.granted(file.root)]
        asked = await asyncio.gather(*(self._ask(path, None, stale_only=True) for path in may))
        return tuple(run_id for ids in asked for run_id in ids)

    def cancel(self, ids: Iterable[FunctionId] | None) -> None:
        """End the runs of these functions, waiting or on; None means all."""
        functions = None if ids is None else frozenset(ids)
        for path, expected in self._expected.items():
            cancelled = expected if functions is None else expected & functions
            self._unwanted[path] = self._unwanted.get(path, frozenset()) | cancelled
            self._expected[path] = expected - cancelled
        self._handle(CancelAsked(functions))

    def cancel_run(self, run_id: str) -> None:
        """End one run."""
        if self._running is not None and self._running.run_id == run_id:
            self.cancel([self._running.function])

    def select_inputs(self, function: FunctionId, name: str) -> None:
        """Run a function with those of its named inputs from now on, which is kept."""
        file = self._files.get(function.path)
        if file is None:
            return
        try:
            self._input_sets.choose(file.root, function.path, function.qualname, name)
        except OSError as error:
            self._editor.warn(f"the choice of inputs cannot be kept ({error}); it holds until the server ends")
        self._repaint(urgent=True)

    def clear(self, path: str) -> None:
        """Forget the results of a file, on disk as well."""
        file = self._files.get(path)
        if file is None:
            return
        file.results, file.outcomes, file.save_problem = (), {}, None
        self._start(self._results.remove(path, file.root, self.settings_of(file.root)), f"clear {path}")
        self._repaint(urgent=True)

    def toggle(self) -> None:
        """Hide or show all hints and lenses."""
        self.is_hidden = not self.is_hidden
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
                file.analyse(self.settings_of(file.root).decorator_modules)
            else:
                await self._analyse_aside(file)
        return file

    async def _analyse_aside(self, file: OpenFile) -> None:
        """Analyse a large text in a thread, once however many ask for it."""
        task = self._analyses.get(file.path)
        if task is None:
            modules = self.settings_of(file.root).decorator_modules

            async def analyse() -> None:
                text = file.text
                file.take_analysis(text, *await asyncio.to_thread(analysis, text, modules, file.package, file.outline))

            task = self._analyses[file.path] = asyncio.create_task(analyse(), name=f"analyse {file.path}")
            task.add_done_callback(lambda _: self._analyses.pop(file.path, None))
        await asyncio.shield(task)

    def settings_of(self, root: str) -> Settings:
        """The settings that count for a folder."""
        return self._settings.get(root) or self._settings.get("") or Settings()

    def output_of(self, function: FunctionId) -> tuple[str, ...]:
        """Lines that a function printed in its last run."""
        return tuple(self._output.get(function, ()))

    def views(self, file: OpenFile) -> tuple[FunctionView, ...]:
        """Views of the functions of an analysed file, in source order."""
        if not self.settings_of(file.root).enable:
            return ()
        state: ShownState | None = None if self._permission.granted(file.root) else "untrusted"
        return file.views(self.epoch, self._activity, state)

    # How it ends.

    async def close(self) -> None:
        """End all runs and everything that was started; takes no longer than ending an agent may."""
        if self._closing:
            return
        self._closing = True
        for timer in [*self._timers.values(), *filter(None, [self._awaited])]:
            timer.cancel()
        if self._runs is not None:
            await self._runs.agents.end_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._results.close()

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
                    self._start(self._ready_runs().cancel(run_id), f"cancel {run_id}")
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
        """Bring what is known of a file up to the store and the disk, and show it."""
        file = self._files.get(path)
        if file is not None:
            await self._look(file)
            self._repaint(urgent=True)

    async def _load_when_saved(self, path: str, module: str) -> None:
        """The same after a module was saved that the file imports, which its editor may still be writing."""
        await disk.settled(module, lambda: self._saved_texts(module))
        await self._load(path)

    def _saved_texts(self, path: str) -> tuple[str, ...]:
        """What an open file may hold on disk: what was saved, or what its editor took over from disk since."""
        file = self._files.get(path)
        return () if file is None else (file.saved_text, file.text)

    async def _look(self, file: OpenFile) -> None:
        """Take over what another server stored, what the person answered, and what lies on disk by now."""
        stored = await self._results.load(file.path, file.root, self.settings_of(file.root), file.results)
        self._permission.look_up(file.root)
        known = {result.run_id for result in stored}
        unstored = tuple(result for result in file.results if result.run_id not in known)
        file.results = limited(sorted((*unstored, *stored), key=lambda result: -result.finished_s))
        self._take_surroundings(file, *await asyncio.to_thread(self._surroundings, file))

    def _surroundings(self, file: OpenFile) -> tuple[dict[str, str], Toolchain | None]:
        """What the results of a file depend on outside of it; for a thread, since it reads files."""
        settings = self.settings_of(file.root)
        toolchain = self._toolchains.known(interpreter(file.root, settings.interpreter))
        return disk.hashes(module_paths(file.results)), toolchain

    def _take_surroundings(self, file: OpenFile, hashes: dict[str, str], toolchain: Toolchain | None) -> None:
        file.hashes = hashes
        settings = self.settings_of(file.root)
        file.circumstances = _circumstances(file.path, file.root, settings, toolchain) if toolchain is not None else ""

    async def _saved_text(self, path: str) -> _Saved | None:
        """The saved text of an open file as it is on disk, with its outline; None where there is nothing to run.

        Why there is not is kept with the file.
        """
        saved = await disk.settled(path, lambda: self._saved_texts(path))
        if isinstance(saved, disk.Problem):
            self._take_problem(path, saved)
        file = self._files.get(path)
        if file is None or not isinstance(saved, disk.SavedFile):
            return None
        if disk.same_text(saved.text, file.text):
            # Also where another program wrote it and the editor took it over without a save of its own.
            file.saved_text = file.text
        await self._look(file)
        found, source_error = await self._analysis(file, saved.text)
        if file is not self._files.get(path):
            return None
        if found is None:
            self._take_problem(path, disk.Problem(source_error.line if source_error else None, str(source_error)))
            return None
        file.save_problem = None
        keys = {file.id_of(function): result_key(found, function) for function in found.functions}
        return _Saved(file, saved.sha256, found, keys)

    async def _analysis(self, file: OpenFile, text: str) -> tuple[Outline | None, SourceError | None]:
        """The outline of another text of a file than the one that is edited, or why there is none."""
        modules = self.settings_of(file.root).decorator_modules
        if len(text) < LARGE_TEXT:
            return analysis(text, modules, file.package, file.outline)
        # With the digest of all functions, which the keys need.
        return await asyncio.to_thread(_thorough_analysis, text, modules, file.package, file.outline)

    def _take_problem(self, path: str, problem: disk.Problem) -> None:
        file = self._files.get(path)
        if file is not None:
            file.save_problem = problem
            self._editor.log(problem.text)
            self._repaint(urgent=True)

    # Deciding what to run.

    async def _check(self, path: str) -> None:
        """Answer a save: find out what of the file has to be run."""
        checked = FileChecked(path, ())
        try:
            found = await self._saved_text(path)
            if found is not None:
                needed = await self._chosen(found)
                wishes = tuple(self._wish(found, function) for function in needed)
                keys = tuple((item, self._wish_key(found.file, key)) for item, key in found.keys.items())
                checked = FileChecked(path, wishes, keys)
        finally:
            self._expected.pop(path, None)
            self._unwanted.pop(path, None)
            self._handle(checked)

    async def _chosen(self, saved: _Saved) -> list[FunctionOutline]:
        """The functions of a saved file that are to be run."""
        file = saved.file
        settings = self.settings_of(file.root)
        needed = [function for function in saved.outline.functions if self._needs_run(file, function, saved.keys)]
        if not needed or not settings.enable:
            return []
        if not self._permission.granted(file.root):
            self._unsure.add(file.path)
            if self._permission.is_to_be_asked(file.root):
                self._editor.ask_trust(file.root, [function.spec.qualname for function in needed])
            return []
        if file.baseline is None and len(needed) > settings.run_max_per_save:
            file.baseline, _ = await self._analysis(file, file.opened_text)
        chosen = self._limited(file, needed)
        if len(chosen) < len(needed):
            name = Path(file.path).name
            self._editor.log(f"{len(needed)} functions of {name} have no result; {len(chosen)} of them are run")
        file.baseline = saved.outline
        file.refused.clear()
        unwanted = self._unwanted.get(file.path, frozenset())
        return [function for function in chosen if file.id_of(function) not in unwanted]

    def _expected_of(self, file: OpenFile) -> frozenset[FunctionId]:
        """What a save of a file will most likely run, to be shown at once."""
        if len(file.text) >= LARGE_TEXT or not self._permission.granted(file.root):
            return frozenset()
        file.analyse(self.settings_of(file.root).decorator_modules)
        if file.error is not None or file.outline is None:
            return frozenset()
        functions = file.outline.functions
        keys = {file.id_of(function): result_key(file.outline, function) for function in functions}
        needed = [function for function in functions if self._needs_run(file, function, keys)]
        if file.baseline is None and len(needed) > self.settings_of(file.root).run_max_per_save:
            return frozenset()
        return frozenset(file.id_of(function) for function in self._limited(file, needed))

    async def _ask(self, path: str, ids: frozenset[FunctionId] | None, stale_only: bool) -> tuple[str, ...]:
        """Answer a person who wants functions to be run; gives the ids of the runs."""
        found = await self._saved_text(path)
        if found is None:
            file = self._files.get(path)
            if file is not None and file.save_problem is not None and not stale_only:
                self._editor.warn(file.save_problem.text)
            return ()
        file = found.file
        if not self.settings_of(file.root).enable:
            if not stale_only:
                self._editor.warn("profiling is switched off here by the setting profileNeuron.enable")
            return ()
        wanted = [
            function
            for function in found.outline.functions
            if (ids is None or file.id_of(function) in ids)
            and (not stale_only or self._needs_run(file, function, found.keys))
        ]
        if not wanted and not stale_only:
            name = Path(path).name
            self._editor.warn(
                f"the function is not in {name} as it is on disk; save it and profile again"
                if ids
                else f"{name} has no function marked @profile_neuron; put the decorator on one"
            )
        wishes = tuple(self._wish(found, function) for function in wanted)
        self._handle(Asked(wishes))
        # One that is on already is not run twice.
        on = [*self._scheduler.waiting, *filter(None, [self._scheduler.running])]
        functions = {wish.function for wish in wishes}
        return tuple(wish.run_id for wish in on if wish.function in functions)

    def _needs_run(self, file: OpenFile, function: FunctionOutline, keys: dict[FunctionId, str]) -> bool:
        function_id = file.id_of(function)
        key = keys[function_id]
        outcome = file.outcomes.get(function_id)
        if outcome is not None and outcome.state == "noInputs" and outcome.key == key:
            return False
        return not any(
            needs_no_run(result, key, file.circumstances, file.hashes) for result in file.results_of(function)
        )

    def _limited(self, file: OpenFile, needed: list[FunctionOutline]) -> list[FunctionOutline]:
        """All of them if they are few, else those that were edited, and no more than one save may run."""
        most = self.settings_of(file.root).run_max_per_save
        if len(needed) <= most:
            return needed
        before = file.baseline
        # What an earlier save wanted to run and did not yet is still to be run.
        due = {wish.function for wish in self._scheduler.waiting} | file.refused
        if self._scheduler.running is not None:
            due.add(self._scheduler.running.function)
        edited = []
        for function in needed:
            old = None if before is None else before.function(function.spec.qualname, function.occurrence)
            if old is None or not old.same_tree(function) or file.id_of(function) in due:
                edited.append(function)
        return edited[:most]

    def _wish(self, saved: _Saved, function: FunctionOutline) -> Wish:
        file = saved.file
        function_id = file.id_of(function)
        key = saved.keys[function_id]
        run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
        settings = self.settings_of(file.root)
        self._plans[run_id] = _Plan(file.path, saved.sha256, saved.outline, function, key, file.root, settings)
        return Wish(run_id, function_id, self._wish_key(file, key))

    def _wish_key(self, file: OpenFile, key: str) -> str:
        """What makes two runs the same: the text, and on disk the modules that earlier runs imported."""
        return digest([key, file.circumstances, *(f"{path} {file.hashes[path]}" for path in sorted(file.hashes))])

    # Running.

    async def _run(self, wish: Wish, plan: _Plan) -> None:
        started_s = time.monotonic()
        news = RunNews(wish.run_id, wish.function)
        self._editor.run_started(news)
        self._output[wish.function] = []
        summary = "cancelled"
        try:
            place = Place(plan.root, interpreter(plan.root, plan.settings.interpreter), plan.settings.run_env)
            end = await self._carry_out(wish, plan, place)
            if isinstance(end, LineCosts) and end.functions[0].state == "fresh":
                summary = await self._take_costs(wish, plan, end, place.python)
            else:
                state, failure = _failure(end) if isinstance(end, LineCosts) else end
                summary = state if failure.reason == state else f"{state}: {failure.reason}"
                if state == "failed" and await asyncio.to_thread(disk.is_changed, plan.path, plan.sha256):
                    # A save was quicker than this run: the newer text is run in its place.
                    if wish.asked:
                        self._start(self._ask(plan.path, frozenset([wish.function]), False), f"again {wish.run_id}")
                    elif (file := self._files.get(plan.path)) is not None:
                        file.refused.add(wish.function)
                        self._judge_save(plan.path, manual=True)
                else:
                    self._end_without_result(wish, plan, state, failure)
        except Exception as error:
            log.exception("run %s", wish.run_id)
            summary = f"failed: profile-neuron itself failed ({error}); its log has the traceback, profile again"
            self._end_without_result(wish, plan, "failed", Failure(summary.removeprefix("failed: ")))
        finally:
            self._running = None
            self._editor.run_ended(news, summary)
            self._editor.log(f"{wish.function.qualname}: {summary} ({time.monotonic() - started_s:.1f} s)")
            self._handle(RunEnded(wish.run_id))

    async def _carry_out(self, wish: Wish, plan: _Plan, place: Place) -> LineCosts | tuple[State, Failure]:
        from profile_neuron.daemon.runs import request_for

        runs = self._ready_runs()
        stamp = await asyncio.to_thread(self._toolchains.stamp, place.python)
        before = self._stamps.get(place, stamp)
        if before[0] != stamp[0] or (None not in (before[1], stamp[1]) and before[1] != stamp[1]):
            # Packages came or went, and a warm worker would still have the old ones.
            await runs.agents.end([place])
        self._stamps[place] = stamp

        def progress(phase: str, done: int, total: int) -> None:
            news = RunNews(wish.run_id, wish.function, phase, done, total)
            if self._running != news:
                self._running = news
                self._editor.run_progressed(news)
                self._repaint(urgent=False)

        settings = plan.settings
        request = request_for(
            wish.run_id,
            plan.path,
            plan.sha256,
            plan.function.spec,
            settings.decorator_modules,
            disk.project_folders(plan.path, plan.root, settings),
            disk.working_folder(plan.path, plan.root, settings),
            settings.run_import_timeout_s,
            settings.run_timeout_s,
        )
        recorded = await asyncio.to_thread(recording_of, plan.path, plan.function.spec.qualname)
        request = replace(request, input_set=self._input_set(plan), recorded_inputs=recorded)
        if not self._permission.granted(plan.root):
            # Taken back while the run waited.
            return "cancelled", Failure("the workspace is not trusted any more")
        return await runs.run(request, place, progress, lambda text: self._take_output(wish.function, text))

    def _input_set(self, plan: _Plan) -> str:
        """The inputs that were chosen for a function, as long as its decorator has that name."""
        spec = plan.function.spec
        name = self._input_sets.chosen(plan.root, plan.path, spec.qualname) if spec.input_sets else ""
        return name if name in spec.input_sets else ""

    def _ready_runs(self) -> Runs:
        # Imported with the first run: the wire costs a start of the server more than anything else of ours.
        from profile_neuron.daemon.runs import Runs

        if self._runs is None:
            self._runs = Runs()
        return self._runs

    def _take_output(self, function: FunctionId, text: str) -> None:
        kept = self._output.setdefault(function, [])
        lines = text.split("\n")
        room = max(0, _LOG_LINES - len(kept))
        for line in lines[:room]:
            self._editor.log(f"{function.qualname} │ {line}")
        kept += lines[:room]
        if room and len(lines) > room:
            self._editor.log(f"{function.qualname} │ … more lines are not shown")

    async def _take_costs(self, wish: Wish, plan: _Plan, costs: LineCosts, python: str) -> str:
        """Take over the result of a run; gives its time as text."""
        modules = {module.path for module in costs.modules}
        hashes = await asyncio.to_thread(self._learn, python, costs.toolchain, modules)
        made_with = _circumstances(plan.path, plan.root, plan.settings, costs.toolchain)
        result = result_of(
            wish.function, wish.run_id, time.time(), plan.key, made_with, plan.function, plan.outline, costs
        )
        file = self._files.get(plan.path)
        if file is not None and file.root == plan.root:
            file.results = limited((result, *file.results))
            file.outcomes.pop(wish.function, None)
            # What was on disk when the run imported it may be another by now.
            file.hashes = {**file.hashes, **hashes}
            settings = self.settings_of(plan.root)
            if interpreter(plan.root, settings.interpreter) == python:
                for other in self._files.values():
                    if other is file or (other.root == file.root and not other.circumstances):
                        other.circumstances = _circumstances(other.path, other.root, settings, costs.toolchain)
        self._start(self._results.add(result, plan.root, plan.settings), f"store {wish.run_id}")
        return total_text(result)

    def _learn(self, python: str, toolchain: Toolchain, modules: set[str]) -> dict[str, str]:
        """Keep what a run said of its interpreter; gives the content of the modules now. For a thread."""
        self._toolchains.learn(python, toolchain)
        return disk.hashes(modules)

    def _end_without_result(self, wish: Wish, plan: _Plan, state: State, failure: Failure) -> None:
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

    # Folders and settings.

    def _root_of(self, path: str) -> str:
        holding = [root for root in self._roots if Path(path).is_relative_to(root)]
        return max(holding, key=len) if holding else str(project_root(Path(path), os.path.exists))

    def _cancel_files(self, paths: Sequence[str]) -> None:
        """End what is on of some files, and let nothing of them start that waits."""
        functions = {wish.function for wish in self._scheduler.waiting}
        if self._running is not None:
            functions.add(self._running.function)
        self._handle(CancelAsked(frozenset(function for function in functions if function.path in paths)))
        for path in paths:
            self._expected.pop(path, None)
            self._handle(FileClosed(path))


def _folder(make: Callable[[str], Path], name: str) -> Path:
    """A folder of ours; where it cannot be had, one in which nothing can be kept."""
    try:
        return make(name)
    except OSError as error:
        log.warning("%s cannot be kept: %s", name, error)
        return Path(os.devnull)


def _circumstances(path: str, root: str, settings: Settings, toolchain: Toolchain) -> str:
    folders = (disk.working_folder(path, root, settings), *disk.project_folders(path, root, settings))
    return circumstances(toolchain, settings.run_env, folders)


def _failure(costs: LineCosts) -> tuple[State, Failure]:
    """How a function ended that raised."""
    target = costs.functions[0]
    return target.state, Failure(target.reason or "", target.frames)


def _thorough_analysis(
    text: str, modules: Sequence[str], package: str, before: Outline | None
) -> tuple[Outline | None, SourceError | None]:
    found, error = analysis(text, modules, package, before)
    if found is not None:
        found.digest  # noqa: B018 - worked out when it is asked for
    return found, error
