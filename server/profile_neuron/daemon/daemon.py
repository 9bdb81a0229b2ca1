"""What the language server knows and does between requests: open files, results, and the runs that make them.

State changes only on the event loop's thread. Which run starts when is the scheduler's to say; this is its shell.
Disk and processes are used in tasks and threads, so that whoever asks for a view is answered from memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import secrets
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profile_neuron.core.fingerprint import digest
from profile_neuron.core.keys import circumstances
from profile_neuron.core.model import Activity, Failure
from profile_neuron.core.project import module_place, project_root
from profile_neuron.core.recording import file_name
from profile_neuron.core.render import total_text
from profile_neuron.core.status import EndedRun, Situation
from profile_neuron.daemon import disk
from profile_neuron.daemon.editor import Editor, RunNews
from profile_neuron.daemon.files import OpenFile, Outcome, analysis
from profile_neuron.daemon.foreign import ForeignProfiles
from profile_neuron.daemon.input_sets import InputSets
from profile_neuron.daemon.interpreters import Interpreter, Place, interpreter
from profile_neuron.daemon.modules import ProjectModules, wanted_modules
from profile_neuron.daemon.permission import Permission
from profile_neuron.daemon.recordings import recorded_files, recording_digest, recording_of
from profile_neuron.daemon.results import Results, limited, result_of
from profile_neuron.daemon.scheduler import (
    GATHER_S,
    Asked,
    CancelAsked,
    CancelRun,
    CheckFile,
    Dropped,
    Event,
    FileChecked,
    FileClosed,
    FileEdited,
    FileSaved,
    FunctionId,
    Rest,
    Rested,
    RunEnded,
    RunEntered,
    Scheduler,
    StartRun,
    StartTimer,
    TimerFired,
    Wish,
)
from profile_neuron.daemon.settings import Settings
from profile_neuron.daemon.toolchains import Toolchains
from profile_neuron.daemon.trust import TrustRecord
from profile_neuron.daemon.wanted import Cause, needed, needs_run
from profile_neuron.daemon.wanted import limited as limited_functions
from profile_neuron.daemon.watcher import Watcher
from profile_neuron.errors import AgentLostError, HostError, ProfileNeuronError
from profile_neuron.folders import cache_folder, state_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence

    from profile_neuron.core.model import (
        FunctionView,
        Holder,
        LineCosts,
        ModuleDependency,
        Result,
        ShownState,
        State,
        Toolchain,
    )
    from profile_neuron.core.modules import Module
    from profile_neuron.core.outline import FunctionOutline, Outline
    from profile_neuron.daemon.opening import Capture, Opening
    from profile_neuron.daemon.runs import Runs
    from profile_neuron.errors import SourceError
    from profile_neuron.wire.messages import RunDone

log = logging.getLogger(__name__)

# Above this a text is analysed in a thread: a request must not wait for seconds of it.
LARGE_TEXT = 300_000
# How long saves wait for the first settings.
_AWAITED_S = 5.0
_COMPILE_TICK_S = 5.0
# How often run folders are told that their results are shown; they are kept for far longer than that.
_NOTE_SHOWN_S = 600.0


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a wish was made of: one text of a file, as its bytes on disk were."""

    path: str
    sha256: str
    outline: Outline
    function: FunctionOutline
    # Of the code and the inputs, as for Outcome, and what else decides about it.
    key: str
    circumstances: str
    choice: str
    root: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class _Saved:
    """The saved text of an open file, with what its results depend on, as all of it was on disk."""

    file: OpenFile
    sha256: str
    outline: Outline


class Daemon:
    """One per server. What an editor says is taken up at once; what a person asks for waits for the disk only."""

    def __init__(self, editor: Editor, fallback_interpreter: str = "") -> None:
        """fallback_interpreter: the Python to run code with where nothing else names one; empty for our own."""
        self._editor = editor
        self._fallback_interpreter = fallback_interpreter
        # The interpreters that a person chose elsewhere in the editor, by workspace folder; of none for other files.
        self._active_interpreters: dict[str, str] = {}
        # Those that were used last, by root.
        self._used_interpreters: dict[str, Interpreter] = {}
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
        # Why files are about to be looked at.
        self._causes: dict[str, Cause] = {}
        # Set while an edit may be about to end the run that is on.
        self._edit_timer: asyncio.TimerHandle | None = None
        self._plans: dict[str, _Plan] = {}
        # How often a run was begun, for those that were lost with their agent, and why the last one was.
        self._attempts: dict[str, int] = {}
        self._lost_because = ""
        # Runs that are being ended because there is a newer text.
        self._replaced: set[str] = set()
        self._running: RunNews | None = None
        # Since when it is in its phase, and how long functions were compiled in their last runs.
        self._phase_began_s = 0.0
        self._compiled_s: dict[FunctionId, float] = {}
        # From the first run on.
        self._runs: Runs | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Results of captures that are shown may be others than a moment ago.
        self._shown_changed = asyncio.Event()
        self._is_noting_shown = False
        self._closing = False
        self._permission = Permission(TrustRecord(_folder(state_folder, "trust")))
        # Saved files of which nothing was run, because nobody had said that it may.
        self._unsure: set[str] = set()
        # Of the interpreters at the last run with each.
        self._stamps: dict[Place, tuple[int, int | None]] = {}
        # What the person was told is wrong with an interpreter, by its path, and the stamp that it had.
        self._told_of: dict[str, tuple[str, tuple[int, int | None]]] = {}
        self._toolchains = Toolchains(_folder(cache_folder, "toolchains"))
        self._results = Results(editor.log)
        self._modules = ProjectModules()
        # From the first open file on.
        self._watcher: Watcher | None = None
        self._foreign: ForeignProfiles | None = None
        self._input_sets = InputSets(_folder(state_folder, "inputs"))
        # Whether a person wants to see nothing of ours.
        self.is_hidden = False
        # The last run that was not cancelled.
        self._last_run: EndedRun | None = None
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
        self._watch_foreign()
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
                if before.interpreter != settings.interpreter:
                    file.forget_interpreter()
                self._start(self._load(file.path), f"load {file.path}")
        self._watch_foreign()
        self._repaint(urgent=True)

    def set_interpreters(self, active: Mapping[str, str]) -> None:
        """The interpreters that a person chose elsewhere in the editor, by workspace folder."""
        chosen = {root: path for root, path in active.items() if path}
        if chosen == self._active_interpreters:
            return
        self._active_interpreters = chosen
        for file in self._files.values():
            file.forget_interpreter()
            self._start(self._load(file.path), f"load {file.path}")
        self._repaint(urgent=True)

    def set_trust(self, trusted: bool | None) -> None:
        """What a client that knows trust says of all folders; None for one that does not know it."""
        self._permission.of_client = trusted
        if trusted is False:
            self._handle(CancelAsked(None))
        self._watch_foreign()
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
                self._want(self._files[path], Cause(is_saved=True))
        self._watch_foreign()
        self._repaint(urgent=True)

    def opened(self, path: str, uri: str, text: str, version: int) -> None:
        """A file is shown."""
        root = self._root_of(path)
        package = module_place(Path(path), os.path.exists).package
        self._files[path] = OpenFile(path, uri, root, package, text, version, saved_text=text, opened_text=text)
        self._watch()
        self._start(self._load(path), f"load {path}")

    def changed(self, path: str, text: str, version: int) -> None:
        """A file was edited; nothing was saved."""
        file = self._files.get(path)
        if file is None:
            return
        file.replace_text(text, version)
        is_on = self._running is not None and self._running.function.path == path
        if is_on and self._edit_timer is None and self.settings_of(file.root).run_on_edit_during_run == "cancel":
            self._edit_timer = asyncio.get_running_loop().call_later(GATHER_S, self._edited, path)

    def _edited(self, path: str) -> None:
        """A file was edited during a run of it, which the person wants to end then."""
        self._edit_timer = None
        file = self._files.get(path)
        if file is not None and len(file.text) < LARGE_TEXT:
            file.analyse(self.settings_of(file.root).decorator_modules)
            if file.error is None and file.outline is not None:
                self._handle(FileEdited(path, self._wish_keys(file, file.outline)))

    def saved(self, path: str, manual: bool, text: str | None = None) -> None:
        """A file was saved. text: what the client says was written, which then counts."""
        file = self._files.get(path)
        if file is None:
            return
        if text is not None and text != file.text:
            log.info("%s was saved with another text than was edited; the saved one counts", path)
            file.replace_text(text, file.version)
        file.saved_text = file.text
        self._modules_changed({path}, manual)
        if self._awaited is not None:
            self._early_saves.append((path, manual))
        else:
            self._judge_save(path, manual)

    def _judge_save(self, path: str, manual: bool) -> None:
        """Take up a save, if it is one that the person wants functions to be run by."""
        file = self._files.get(path)
        if file is None:
            return
        if _runs_by_save(self.settings_of(file.root), manual):
            # Saved anew, so wanted anew.
            self._unwanted.pop(path, None)
            self._want(file, Cause(is_saved=True))

    def _want(self, file: OpenFile, cause: Cause) -> None:
        """Look at a file before long, and run what this is a reason to run."""
        self._causes.setdefault(file.path, Cause()).add(cause)
        self._expected[file.path] = self._expected_of(file)
        self._handle(FileSaved(file.path))

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
            self._causes.pop(path, None)
            self._unsure.discard(path)
            self._watch()
            self._output = {function: lines for function, lines in self._output.items() if function.path != path}
            self._handle(FileClosed(path))

    def changed_on_disk(self, paths: Iterable[str]) -> None:
        """Files were written, maybe by something else than the editor."""
        written = frozenset(paths)
        for path in written & self._files.keys():
            self._start(self._written(path), f"written {path}")
        self._modules_changed(written, manual=True)

    def _modules_changed(self, paths: Collection[str], manual: bool) -> None:
        for file in self._files.values():
            if found := {path for path in paths if path in file.modules and path != file.path}:
                self._start(self._take_modules(file.path, found, manual), f"modules of {file.path}")

    async def _written(self, path: str) -> None:
        """Take up what something else wrote to an open file, once the editor has taken it over."""
        await asyncio.sleep(GATHER_S)
        # By now an editor that wrote the file itself has said so.
        saved = await disk.settled(path, lambda: self._saved_texts(path))
        file = self._files.get(path)
        if file is None or not isinstance(saved, disk.SavedFile):
            return
        if disk.same_text(saved.text, file.saved_text):
            if file.refused:
                # It was gone, or another one, when these were about to run.
                self._want(file, Cause(functions=set(file.refused)))
            return
        file.saved_text = file.text
        if _runs_by_save(self.settings_of(file.root), manual=True):
            self._want(file, Cause(is_outside=True))

    def _watch(self) -> None:
        """Let the watcher know what is of interest by now."""
        if self._closing:
            return
        if self._watcher is None:
            self._watcher = Watcher(self.changed_on_disk, self._editor.warn)
        self._watcher.watch(self._files, [module for file in self._files.values() for module in file.modules])
        self._watch_foreign()

    def _watch_foreign(self) -> None:
        """Watch the folders that trusted workspace folders name, and take those of others as if there were none."""
        roots = [
            root
            for root in dict.fromkeys((*self._roots, *(file.root for file in self._files.values())))
            if self._permission.granted(root) and self.settings_of(root).enable
        ]
        folders = [
            os.path.join(root, os.path.expanduser(folder))  # noqa: PTH111, PTH118 - an absolute one stays as it is
            for root in roots
            for folder in self.settings_of(root).watch_folders
        ]
        if self._closing or (self._foreign is None and not folders):
            return
        if self._foreign is None:
            self._foreign = ForeignProfiles(lambda: self._repaint(urgent=True), self._editor.warn)
        self._foreign.watch(folders, roots, self._files)

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
        self._start(self._run_with_chosen_inputs(function), f"inputs of {function.qualname}")

    async def _run_with_chosen_inputs(self, function: FunctionId) -> None:
        """Show what is known of a function with its inputs, or find it out."""
        await self._load(function.path)
        file = self._files.get(function.path)
        found = file.outline.function(*function[1:]) if file is not None and file.outline is not None else None
        if file is not None and file.outline is not None and found is not None and needs_run(file, found, file.outline):
            await self.profile(function.path, [function])

    def clear(self, path: str) -> None:
        """Forget the results of a file, on disk as well."""
        file = self._files.get(path)
        if file is None:
            return
        file.results, file.outcomes, file.save_problem = (), {}, None
        self._start(self._results.remove(path, file.root, self.settings_of(file.root)), f"clear {path}")
        self._repaint(urgent=True)

    def pin(self, function: FunctionId) -> None:
        """Make today's result of a function the one that later ones are compared with."""
        file = self._files.get(function.path)
        result = file.todays_result(function) if file is not None else None
        if file is None or result is None:
            self._editor.warn(f"{function.qualname} has no result of today's code to pin; profile it first")
        else:
            self._keep_pins(file, result, file.pin(function, result))

    def unpin(self, function: FunctionId) -> None:
        """Compare the results of a function with no pinned one any more."""
        file = self._files.get(function.path)
        unpinned = file.pin(function, None) if file is not None else ()
        if file is None or not unpinned:
            self._editor.warn(f"no result of {function.qualname} is pinned")
        else:
            self._keep_pins(file, None, unpinned)

    def _keep_pins(self, file: OpenFile, pinned: Result | None, unpinned: Iterable[Result]) -> None:
        async def keep() -> None:
            await self._results.pin(file.path, file.root, self.settings_of(file.root), pinned, unpinned)
            # What was being read meanwhile is from before.
            await self._load(file.path)

        self._start(keep(), f"pin a result of {file.path}")
        self._repaint(urgent=True)

    async def release(self) -> tuple[str, ...]:
        """End idle workers of ours that hold NeuronCores; gives in sentences what became of them."""
        from profile_neuron.daemon.release import release

        pids = self._runs.agents.pids if self._runs is not None else ()
        try:
            sentences = (await release(pids)).sentences
        except OSError as error:
            sentences = (f"no agent can be asked for its NeuronCores ({error})",)
        for sentence in sentences:
            self._editor.log(sentence)
        return sentences

    async def checkup(self, path: str) -> tuple[str, str]:
        """What the doctor says of the Python that runs the code of a path, with the folder that it runs it for.

        An empty path means the first workspace folder. Raises ProfileNeuronError with one sentence.
        """
        from profile_neuron.daemon.checkup import checkup

        file = self._files.get(path)
        root = file.root if file is not None else self._root_of(path) if path else "".join(self._roots[:1])
        if not root:
            raise HostError("no folder is open whose Python could be looked at; open one, or a Python file")
        if not self._permission.granted(root):
            # The interpreter, which may be one of the folder, is executed for it.
            raise HostError(f"{root} is not trusted, so its Python is not started; trust it in the editor")
        place = self._place(root, self.settings_of(root))
        return await checkup(place.python, place.environment), root

    async def capture(self, function: FunctionId) -> Capture | Opening:
        """The capture of the result that is shown of a function, or why it cannot be opened."""
        from profile_neuron.daemon.opening import Capture, Opening, without_viewer

        file = self._files.get(function.path)
        views = self.views(file) if file is not None else ()
        result = next((view.result for view in views if (view.spec.qualname, view.occurrence) == function[1:]), None)
        if file is None or result is None or not result.run_folder:
            return Opening(f"{function.qualname} has no capture of a NeuronCore to open; profile it on one first")
        if not await asyncio.to_thread(Path(result.run_folder).is_dir):
            return Opening(f"the capture of {function.qualname} is gone from {result.run_folder}; profile it again")
        settings = self.settings_of(file.root)
        if settings.explorer_mode == "none":
            why = "Neuron Explorer is not used, as the setting profileNeuron.explorer.mode says"
            return await asyncio.to_thread(without_viewer, result.run_folder, why)
        if not self._permission.granted(file.root):
            # An agent is started by the interpreter, which may be one of the folder.
            return Opening("this workspace is not trusted, so nothing is started for it; trust it in the editor")
        return Capture(result.qualname, result.run_folder, file.root, settings)

    async def open(self, capture: Capture) -> Opening:
        """Have a capture opened in Neuron Explorer, which may take many minutes."""
        from profile_neuron.daemon.opening import Opening, without_viewer
        from profile_neuron.wire.messages import Opened, OpenRequest

        settings = capture.settings
        request = OpenRequest(
            secrets.token_hex(8), capture.folder, capture.name, settings.explorer_ui_port, settings.explorer_api_port
        )
        place = self._place(capture.root, settings)
        try:
            answer = await (await self._ready_runs().agents.of_root(place)).open(request)
        except ProfileNeuronError as error:
            return Opening("" if self._closing else str(error))
        if isinstance(answer, Opened):
            return Opening(url=answer.url)
        if answer.is_missing:
            return await asyncio.to_thread(without_viewer, capture.folder, answer.reason)
        return Opening(answer.reason)

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
        return file.views(self.epoch, self._activity, state, self.settings_of(file.root).baseline)

    def situation(self) -> Situation:
        """What is going on, for a status item."""
        running = self._running.function if self._running is not None else None
        waiting = [wish.function for wish in self._scheduler.waiting]
        expected = [function for functions in self._expected.values() for function in sorted(functions)]
        return Situation(
            off_because=self._off_because(),
            is_hidden=self.is_hidden,
            running=running.qualname if running is not None else "",
            activity=self._activity(running) if running is not None else None,
            waiting=tuple(item.qualname for item in dict.fromkeys((*waiting, *expected)) if item != running),
            last=self._last_run,
        )

    def _off_because(self) -> str:
        if self._permission.of_client is False:
            return "The workspace is not trusted, so nothing in it is run; trust it in the editor."
        roots = self._roots or tuple(file.root for file in self._files.values()) or ("",)
        if not any(self.settings_of(root).enable for root in roots):
            return "Profiling is switched off by the setting profileNeuron.enable."
        return ""

    def interpreter(self, root: str) -> Interpreter:
        """Which Python runs the code of a folder; asks the disk, and may be called by any thread."""
        return self._interpreter(root, self.settings_of(root))

    def _interpreter(self, root: str, settings: Settings) -> Interpreter:
        active = self._active_interpreter(root)
        return interpreter(root, settings.interpreter, active=active, fallback=self._fallback_interpreter)

    def _active_interpreter(self, root: str) -> str:
        return self._active_interpreters.get(root if root in self._roots else "", "")

    async def interpreters_in_use(self) -> tuple[tuple[str, Interpreter, str], ...]:
        """The Python of each workspace folder, with what is wrong with it as far as the disk or the last run tells.

        Without a workspace folder that of the file that was opened last, for an empty root; none before one is open.
        """
        roots = [(root, root) for root in self._roots] or [("", file.root) for file in self._files.values()][-1:]
        told = dict(self._told_of)

        def told_of(python: str) -> str:
            sentence, stamp = told.get(python, ("", (0, None)))
            # It may have been mended since.
            return sentence if sentence and stamp == self._toolchains.stamp(python) else ""

        def look() -> tuple[tuple[str, Interpreter, str], ...]:
            found = [(name, self.interpreter(root)) for name, root in roots]
            return tuple((name, item, item.problem or told_of(item.path)) for name, item in found)

        return await asyncio.to_thread(look)

    def _place(self, root: str, settings: Settings) -> Place:
        """Where code of a folder runs now."""
        found = self._interpreter(root, settings)
        if self._used_interpreters.get(root) != found:
            self._used_interpreters[root] = found
            log.info("code in %s is run by %s, %s", root, found.path, found.source)
        return Place(root, found.path, settings.run_env)

    @property
    def foreign(self) -> ForeignProfiles | None:
        """The profiles that the user's own programs left; None where no folder of them is watched."""
        return self._foreign

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
        if self._watcher is not None:
            await self._watcher.close()
        if self._foreign is not None:
            await self._foreign.close()
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
                case CancelRun(run_id, is_replaced):
                    if is_replaced:
                        self._replaced.add(run_id)
                    self._start(self._ready_runs().cancel(run_id), f"cancel {run_id}")
                case Rest(until_s):
                    loop.call_at(until_s, self._handle, Rested())
                case Dropped(wish, why):
                    plan = self._plans.pop(wish.run_id, None)
                    if why == "cancelled" and plan is not None:
                        self._end_without_result(wish, plan, "cancelled", Failure("cancelled"))
                    elif why == "lost" and plan is not None:
                        self._end_without_result(wish, plan, "failed", Failure(self._lost_because))
        # Plans of wishes that newer ones replaced.
        waiting = {wish.run_id for wish in self._scheduler.waiting}
        self._plans = {run_id: plan for run_id, plan in self._plans.items() if run_id in waiting}
        on = {*waiting, *(wish.run_id for wish in filter(None, [self._scheduler.running]))}
        self._attempts = {run_id: count for run_id, count in self._attempts.items() if run_id in on}
        if not isinstance(event, (TimerFired, FileClosed, RunEntered)):
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
            self._watch_foreign()
            self._repaint(urgent=True)

    async def _take_modules(self, path: str, modules: set[str], manual: bool) -> None:
        """Take up the save of modules that a file imports, which their editor may still be writing."""
        for module in modules & self._files.keys():
            await disk.settled(module, functools.partial(self._saved_texts, module))
        await self._load(path)
        file = self._files.get(path)
        if file is None or not _runs_by_save(self.settings_of(file.root), manual):
            return
        if file.outline is not None and any(file.depends_on(item, modules) for item in file.outline.functions):
            self._want(file, Cause(modules=modules))

    def _note_shown(self) -> None:
        """Have the folders of shown runs marked soon, and then again and again."""
        if not self._is_noting_shown:
            self._is_noting_shown = True
            self._start(self._noted_shown(), "noting what is shown")
        self._shown_changed.set()

    async def _noted_shown(self) -> None:
        from profile_neuron.daemon.opening import note_shown

        while True:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._shown_changed.wait(), _NOTE_SHOWN_S)
            self._shown_changed.clear()
            views = [view for file in self._files.values() if file.is_analysed for view in self.views(file)]
            folders = {view.result.run_folder for view in views if view.result is not None}
            await asyncio.to_thread(note_shown, folders - {""})

    def _saved_texts(self, path: str) -> tuple[str, ...]:
        """What an open file may hold on disk: what was saved, or what its editor took over from disk since."""
        file = self._files.get(path)
        return () if file is None else (file.saved_text, file.text)

    async def _look(self, file: OpenFile) -> None:
        """Take over what another server stored, what the person answered, and what lies on disk by now."""
        await self.analysed(file.path)
        stored = await self._results.load(file.path, file.root, self.settings_of(file.root), file.results)
        self._permission.look_up(file.root)
        known = {result.run_id for result in stored}
        unstored = tuple(result for result in file.results if result.run_id not in known)
        file.results = limited(sorted((*unstored, *stored), key=lambda result: -result.finished_s))
        self._note_shown()
        self._take_surroundings(file, *await asyncio.to_thread(self._surroundings, file))

    def _surroundings(self, file: OpenFile) -> tuple[dict[str, Module], Toolchain | None, dict[FunctionId, str]]:
        """What the results of a file depend on outside of it; for a thread, since it reads files."""
        toolchain = self._toolchains.known(self.interpreter(file.root).path)
        return self._modules.look(self._wanted_modules(file)), toolchain, self._choices(file)

    def _choices(self, file: OpenFile) -> dict[FunctionId, str]:
        """Which inputs functions have that a person chose, or a program's recorded ones; for a thread."""
        recorded = recorded_files()
        real_path = os.path.realpath(file.path)
        found = {}
        for function in file.outline.functions if file.outline is not None else ():
            name = self._input_sets.current(file.root, file.path, function.spec)
            recording = ""
            if recorded and file_name(real_path, function.spec.qualname) in recorded:
                recording = recording_digest(recording_of(file.path, function.spec.qualname))
            if name or recording:
                found[file.id_of(function)] = digest([name, recording])
        return found

    def _know_modules(self, file: OpenFile, modules: dict[str, Module]) -> None:
        file.modules = modules
        self._watch()
        if self._watcher is not None:
            for path, module in modules.items():
                self._watcher.know(path, module.sha256)

    def _wanted_modules(self, file: OpenFile) -> dict[str, set[str]]:
        wanted = wanted_modules(file.results)
        for outcome in list(file.outcomes.values()):
            for path, sha256 in outcome.modules:
                wanted.setdefault(path, set()).add(sha256)
        return wanted

    def _take_surroundings(
        self,
        file: OpenFile,
        modules: dict[str, Module],
        toolchain: Toolchain | None,
        choices: dict[FunctionId, str],
    ) -> None:
        file.choices = choices
        self._know_modules(file, modules)
        settings = self.settings_of(file.root)
        file.circumstances = _circumstances(file.path, file.root, settings, toolchain) if toolchain is not None else ""
        file.device_kind = disk.device_kind() if toolchain is None else toolchain.device_kind
        file.has_decorator = None if toolchain is None else toolchain.has_decorator

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
        if self._watcher is not None:
            self._watcher.know(path, saved.sha256)
        return _Saved(file, saved.sha256, found)

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
        cause = self._causes.pop(path, Cause())
        try:
            found = await self._saved_text(path)
            if found is not None:
                chosen = await self._chosen(found, cause)
                wishes = tuple(self._wish(found, function) for function in chosen)
                ends_running = self.settings_of(found.file.root).run_on_edit_during_run == "cancel"
                checked = FileChecked(path, wishes, self._wish_keys(found.file, found.outline), ends_running)
        finally:
            self._expected.pop(path, None)
            self._unwanted.pop(path, None)
            self._handle(checked)

    async def _chosen(self, saved: _Saved, cause: Cause) -> list[FunctionOutline]:
        """The functions of a saved file that are to be run."""
        file = saved.file
        settings = self.settings_of(file.root)
        if cause.is_outside and file.baseline is None:
            file.baseline, _ = await self._analysis(file, file.opened_text)
        wanted = needed(file, saved.outline, cause, self._due(file))
        if not wanted or not settings.enable:
            return []
        if not self._permission.granted(file.root):
            self._unsure.add(file.path)
            if self._permission.is_to_be_asked(file.root):
                self._editor.ask_trust(file.root, [function.spec.qualname for function in wanted])
            return []
        if file.baseline is None and len(wanted) > settings.run_max_per_save:
            file.baseline, _ = await self._analysis(file, file.opened_text)
        chosen = limited_functions(file, wanted, settings.run_max_per_save, self._due(file))
        if len(chosen) < len(wanted):
            name = Path(file.path).name
            self._editor.log(f"{len(wanted)} functions of {name} have no result; {len(chosen)} of them are run")
        if cause.is_saved or cause.is_outside:
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
        cause, due, most = self._causes[file.path], self._due(file), self.settings_of(file.root).run_max_per_save
        if cause.is_outside and file.baseline is None:
            return frozenset()
        wanted = needed(file, file.outline, cause, due)
        if file.baseline is None and len(wanted) > most:
            return frozenset()
        return frozenset(file.id_of(function) for function in limited_functions(file, wanted, most, due))

    def _due(self, file: OpenFile) -> set[FunctionId]:
        """Functions of a file that an earlier save wanted to run, and that have not ended yet."""
        on = [*self._scheduler.waiting, *filter(None, [self._scheduler.running])]
        return file.refused | {wish.function for wish in on if wish.function.path == file.path}

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
            and (not stale_only or needs_run(file, function, found.outline))
        ]
        if not wanted and not stale_only:
            name = Path(path).name
            self._editor.warn(
                f"the function is not in {name} as it is on disk; save it and profile again"
                if ids
                else f"{name} has no function marked @profile_neuron; put the decorator on one"
            )
        wishes = tuple(self._wish(found, function) for function in wanted)
        file.refused -= {wish.function for wish in wishes}
        self._handle(Asked(wishes))
        # One that is on already is not run twice.
        on = [*self._scheduler.waiting, *filter(None, [self._scheduler.running])]
        functions = {wish.function for wish in wishes}
        return tuple(wish.run_id for wish in on if wish.function in functions)

    def _wish(self, saved: _Saved, function: FunctionOutline) -> Wish:
        file = saved.file
        function_id = file.id_of(function)
        run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
        self._plans[run_id] = _Plan(
            path=file.path,
            sha256=saved.sha256,
            outline=saved.outline,
            function=function,
            key=file.run_key(function, saved.outline),
            circumstances=file.circumstances,
            choice=file.choices.get(function_id, ""),
            root=file.root,
            settings=self.settings_of(file.root),
        )
        return Wish(run_id, function_id, self._wish_key(file, function, saved.outline))

    def _wish_keys(self, file: OpenFile, found: Outline) -> tuple[tuple[FunctionId, str], ...]:
        """What runs that are on or wait would be of in a text of their file; empty for a function that is gone."""
        on = [*self._scheduler.waiting, *filter(None, [self._scheduler.running])]
        mine = {wish.function: found.function(*wish.function[1:]) for wish in on if wish.function.path == file.path}
        return tuple(
            (item, self._wish_key(file, function, found) if function else "") for item, function in mine.items()
        )

    def _wish_key(self, file: OpenFile, function: FunctionOutline, found: Outline) -> str:
        """What makes two runs the same: code, inputs, settings, and the modules that the last one imported."""
        modules = [item.path for result in file.results_of(function)[:1] for item in result.modules]
        contents = [f"{path} {file.modules[path].sha256 if path in file.modules else ''}" for path in sorted(modules)]
        settings = self.settings_of(file.root)
        chosen = settings.interpreter or self._active_interpreter(file.root)
        return digest([file.run_key(function, found), chosen, *settings.of_runs, *contents])

    # Running.

    async def _run(self, wish: Wish, plan: _Plan) -> None:
        started_s = time.monotonic()
        news = RunNews(wish.run_id, wish.function)
        self._editor.run_started(news)
        self._output[wish.function] = []
        summary, is_lost = "cancelled", False
        try:
            place = self._place(plan.root, plan.settings)
            end = await self._carry_out(wish, plan, place)
            costs, kept = (None, "") if isinstance(end, tuple) else (end.costs, end.run_folder)
            if costs is not None and costs.functions[0].state == "fresh":
                self._tell_of_interpreter(place.python, None)
                summary = await self._take_costs(wish, plan, costs, kept, place.python)
            else:
                state, failure = end if isinstance(end, tuple) else _failure(end.costs)
                # A run that never began says nothing of it.
                if state not in ("cancelled", "busy"):
                    self._tell_of_interpreter(place.python, failure)
                summary = state if failure.reason == state else f"{state}: {failure.reason}"
                if state == "failed" and await asyncio.to_thread(disk.is_changed, plan.path, plan.sha256):
                    # A save was quicker than this run: the newer text is run in its place.
                    if (file := self._files.get(plan.path)) is not None:
                        file.refused.add(wish.function)
                        if wish.asked:
                            self._start(self._ask(plan.path, frozenset([wish.function]), False), f"again {wish.run_id}")
                        else:
                            self._want(file, Cause(functions={wish.function}))
                elif state == "cancelled" and wish.run_id in self._replaced:
                    summary = "ended, since there is a newer text"
                else:
                    self._end_without_result(wish, plan, state, failure, costs)
        except AgentLostError as error:
            is_lost = True
            summary = self._lost_because = str(error)
            # For another attempt; the scheduler says whether there is one.
            self._plans[wish.run_id] = plan
            self._attempts[wish.run_id] = self._attempts.get(wish.run_id, 0) + 1
        except Exception as error:
            log.exception("run %s", wish.run_id)
            summary = f"failed: profile-neuron itself failed ({error}); its log has the traceback, profile again"
            self._end_without_result(wish, plan, "failed", Failure(summary.removeprefix("failed: ")))
        finally:
            self._running = None
            self._replaced.discard(wish.run_id)
            self._editor.run_ended(news, summary)
            self._editor.log(f"{wish.function.qualname}: {summary} ({time.monotonic() - started_s:.1f} s)")
            self._handle(RunEnded(wish.run_id, is_lost))

    def _tell_of_interpreter(self, python: str, failure: Failure | None) -> None:
        """Tell the person once what is wrong with an interpreter, and anew when it was right meanwhile."""
        told, _ = self._told_of.pop(python, ("", None))
        if failure is not None and failure.is_of_interpreter:
            sentence = failure.reason.removeprefix("not-runnable: ")
            self._told_of[python] = sentence, self._toolchains.stamp(python)
            if sentence != told:
                self._editor.warn(sentence)

    async def _carry_out(self, wish: Wish, plan: _Plan, place: Place) -> RunDone | tuple[State, Failure]:
        from profile_neuron.daemon.runs import request_for
        from profile_neuron.wire.messages import Limits

        runs = self._ready_runs()
        stamp = await asyncio.to_thread(self._toolchains.stamp, place.python)
        before = self._stamps.get(place, stamp)
        if before[0] != stamp[0] or (None not in (before[1], stamp[1]) and before[1] != stamp[1]):
            # Packages came or went, and a warm worker would still have the old ones.
            await runs.agents.end([place])
        self._stamps[place] = stamp

        def progress(phase: str, done: int, total: int) -> None:
            news = RunNews(wish.run_id, wish.function, phase, done, total)
            before = self._running
            if before != news:
                if before is None or before.phase != phase:
                    self._phase_ended(before)
                    self._phase_began_s = time.time()
                self._running = news
                self._handle(RunEntered(wish.run_id, phase))
                if phase == "compile":
                    self._show_that_it_compiles(wish.run_id)
                self._editor.run_progressed(news)
                self._repaint(urgent=False)

        settings = plan.settings
        # An agent that was killed may have left the folder of the attempt before.
        attempt = self._attempts.get(wish.run_id, 0)
        request = request_for(
            f"{wish.run_id}-{attempt}" if attempt else wish.run_id,
            plan.path,
            plan.sha256,
            plan.function.spec,
            settings.decorator_modules,
            disk.project_folders(plan.path, plan.root, settings),
            disk.working_folder(plan.path, plan.root, settings),
            Limits(
                settings.run_import_timeout_s,
                settings.run_timeout_s,
                settings.run_compile_timeout_s,
                settings.run_memory_limit_bytes,
            ),
            usual_warmup=settings.run_warmup,
            usual_repeats=settings.run_repeats,
            when_busy=settings.device_when_busy,
            cores=settings.device_cores,
            idle_release_s=settings.device_idle_release_s,
            profile_mode=settings.profile_mode,
            keep_device_files=True,
            input_set=self._input_sets.current(plan.root, plan.path, plan.function.spec),
            recorded_inputs=await asyncio.to_thread(recording_of, plan.path, plan.function.spec.qualname),
        )
        if not self._permission.granted(plan.root):
            # Taken back while the run waited.
            return "cancelled", Failure("the workspace is not trusted any more")

        def waiting(holders: tuple[Holder, ...]) -> None:
            self._running = RunNews(wish.run_id, wish.function, "busy", holders=holders)
            self._editor.run_progressed(self._running)
            self._handle(RunEntered(wish.run_id, "busy"))
            self._repaint(urgent=True)

        return await runs.run(request, place, progress, functools.partial(self._take_output, wish.function), waiting)

    def _show_that_it_compiles(self, run_id: str) -> None:
        """Bring the seconds up to date that are shown of a compilation, which may take many minutes."""
        running = self._running
        if running is not None and (running.run_id, running.phase) == (run_id, "compile") and not self._closing:
            self._repaint(urgent=False)
            asyncio.get_running_loop().call_later(_COMPILE_TICK_S, self._show_that_it_compiles, run_id)

    def _phase_ended(self, news: RunNews | None) -> None:
        if news is not None and news.phase == "compile":
            self._compiled_s[news.function] = time.time() - self._phase_began_s

    def _ready_runs(self) -> Runs:
        # Imported with the first run: the wire costs a start of the server more than anything else of ours.
        from profile_neuron.daemon.runs import Runs

        if self._runs is None:
            self._runs = Runs()
        return self._runs

    def _take_output(self, function: FunctionId, text: str) -> None:
        # How much of it there may be is the agent's to say.
        lines = text.split("\n")
        self._output.setdefault(function, []).extend(lines)
        for line in lines:
            self._editor.log(f"{function.qualname} │ {line}")

    async def _take_costs(self, wish: Wish, plan: _Plan, costs: LineCosts, kept: str, python: str) -> str:
        """Take over the result of a run; gives its time as text. kept: its folder, if that was left in place."""
        dependencies = await asyncio.to_thread(self._learn, python, costs)
        made_with = _circumstances(plan.path, plan.root, plan.settings, costs.toolchain)
        result = result_of(
            wish.function,
            wish.run_id,
            time.time(),
            made_with,
            plan.function,
            plan.outline,
            costs,
            dependencies,
            plan.choice,
            kept,
        )
        self._last_run = EndedRun(result.qualname, result.finished_s, result)
        file = self._files.get(plan.path)
        if file is not None and file.root == plan.root:
            file.results = limited((result, *file.results))
            self._note_shown()
            file.outcomes.pop(wish.function, None)
            # What was on disk when the run imported it may be another by now.
            self._know_modules(file, await asyncio.to_thread(self._modules.look, self._wanted_modules(file)))
            settings = self.settings_of(plan.root)
            if self.interpreter(plan.root).path == python:
                for other in self._files.values():
                    if other is file or (other.root == file.root and not other.circumstances):
                        other.circumstances = _circumstances(other.path, other.root, settings, costs.toolchain)
                        other.device_kind = costs.toolchain.device_kind
                        other.has_decorator = costs.toolchain.has_decorator
            is_waiting = self._scheduler.ahead_of(wish.function) is not None
            if not is_waiting and not disk.same_text(plan.outline.text, file.saved_text):
                # The text that was saved meanwhile may differ in what only the run could tell that it depends on.
                self._want(file, Cause(functions={wish.function}))
        self._start(self._results.add(result, plan.root, plan.settings), f"store {wish.run_id}")
        return total_text(result)

    def _learn(self, python: str, costs: LineCosts) -> tuple[ModuleDependency, ...]:
        """Keep what a run said of its interpreter; gives what it depends on of the modules. For a thread."""
        self._toolchains.learn(python, costs.toolchain)
        return self._modules.dependencies(costs)

    def _end_without_result(
        self, wish: Wish, plan: _Plan, state: State, failure: Failure, costs: LineCosts | None = None
    ) -> None:
        if state != "cancelled":
            self._last_run = EndedRun(wish.function.qualname, time.time(), None, state, failure.reason)
        file = self._files.get(plan.path)
        if file is None:
            return
        executed = costs.modules if costs is not None else ()
        modules = {module.path: module.sha256 for module in executed}
        # Where an import failed nobody says which modules it read, but the lines that it failed at do.
        others = {frame.path for frame in failure.frames} - {*modules, plan.path}
        file.outcomes[wish.function] = Outcome(
            state,
            failure,
            plan.key,
            plan.circumstances,
            plan.outline.lines,
            (*sorted(modules.items()), *((path, "") for path in sorted(others))),
        )
        if modules or others:
            self._start(self._look_at_modules(plan.path, wish.function), f"modules of {wish.run_id}")

    async def _look_at_modules(self, path: str, function: FunctionId) -> None:
        """Note what the modules are that a run failed with, as far as the run itself did not say."""
        file = self._files.get(path)
        outcome = file.outcomes.get(function) if file is not None else None
        if file is None or outcome is None:
            return
        modules = await asyncio.to_thread(self._modules.look, self._wanted_modules(file))
        self._know_modules(file, modules)
        known = tuple((item, sha256 or modules[item].sha256) for item, sha256 in outcome.modules if item in modules)
        if file.outcomes.get(function) is outcome:
            file.outcomes[function] = replace(outcome, modules=known)

    def _activity(self, function: FunctionId) -> Activity | None:
        running = self._running
        if running is not None and running.function == function:
            return Activity(
                running.run_id,
                None,
                running.phase,
                running.done,
                running.total,
                self._phase_began_s,
                self._compiled_s.get(function),
                running.holders,
            )
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
    return circumstances(toolchain, settings.of_runs, folders)


def _runs_by_save(settings: Settings, manual: bool) -> bool:
    """Whether a save runs functions."""
    wanted = settings.run_on_save == "always" or (settings.run_on_save == "manual" and manual)
    return settings.enable and wanted


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
