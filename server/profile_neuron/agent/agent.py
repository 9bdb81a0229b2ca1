"""Requests from the server to one warm worker and one report, with limits; runs no user code itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from profile_neuron.agent import device
from profile_neuron.agent.child import Child
from profile_neuron.agent.environment import ANY_CORE, AUTO, needed_cores
from profile_neuron.agent.explorer import export_tables, find_session
from profile_neuron.agent.lease import lease
from profile_neuron.agent.orphans import end_orphans
from profile_neuron.agent.pauses import Pauses
from profile_neuron.agent.processes import descendants
from profile_neuron.agent.runs import RunFolder, leave_notes
from profile_neuron.agent.tool_texts import tool_texts
from profile_neuron.agent.viewer import Viewer
from profile_neuron.agent.watch import Watch
from profile_neuron.agent.worker import HELLO_S, WORKER, Piped, hello
from profile_neuron.core import run_folder
from profile_neuron.core.launch import isolated_command
from profile_neuron.core.model import NO_NOTES, AgentNotes, Failure
from profile_neuron.errors import HostError, ProfileNeuronError
from profile_neuron.wire.messages import (
    Cancel,
    Captured,
    Environment,
    EnvironmentFailed,
    EnvironmentRequest,
    Hello,
    Message,
    OpenRequest,
    Released,
    ReportDone,
    ReportFailed,
    ReportRequest,
    RunDone,
    RunFailed,
    RunProgress,
    RunRequest,
    RunWaiting,
    ViewerEnded,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from profile_neuron.agent.device import Device
    from profile_neuron.agent.environment import Need
    from profile_neuron.agent.lease import Lease
    from profile_neuron.core.model import Holder

T = TypeVar("T")

log = logging.getLogger(__name__)

_ENVIRONMENT_S = 120.0
_REPORT_S = 600.0
# A large capture may take it longer, for which nobody waits at a save.
_EXPLORER_S = 300.0
# How long the last output of a finished run, or of a process that has ended, is waited for.
_OUTPUT_S = 1.0
# Before a run is started again whose runtime had no core, and between two looks at who holds the cores.
_REFUSED_PAUSES_S = (1.0, 2.0)
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.5, 4.0


class Agent:
    """At most one run at a time; the worker stays for the next one unless it had to be ended.

    One that holds NeuronCores, which it does until it ends, stays for a while only.
    """

    def __init__(
        self, send: Callable[[Message], None], own_path: str, worker: Path = WORKER, hello_s: float = HELLO_S
    ) -> None:
        self._send = send
        self._own_path = own_path
        self._worker_script = worker
        self._hello_s = hello_s
        self._worker: Piped | None = None
        # Of the worker.
        self._lease: Lease | None = None
        self._holds_cores = False
        self._worker_pauses = Pauses()
        # Set while a worker that holds cores is idle, and the end of one for that reason.
        self._idle_timer: asyncio.TimerHandle | None = None
        self._releasing: asyncio.Task[str] | None = None
        # Of the last request.
        self._idle_release_s = 0.0
        # The devices at the last look; None where neuron-ls is not there, or was not asked.
        self._devices: tuple[Device, ...] | None = None
        # Of the last capture.
        self._notes = NO_NOTES
        self._task: asyncio.Task[None] | None = None
        self._reporter: Piped | None = None
        self._report_pauses = Pauses()
        # A report is on.
        self._is_reporting = False
        self._run_id = ""
        # Of the run that is on, or about to be.
        self._request: RunRequest | None = None
        # Set when the run that is on is cancelled, or the wire closed.
        self._stopped = asyncio.Event()
        self._is_closing = False
        self._viewer = Viewer(lambda reason: send(ViewerEnded(reason)))
        # Captures that are being opened, beside whatever run is on.
        self._openings: set[asyncio.Task[None]] = set()
        # Paths of files that a worker could not execute twice.
        self._execute_once: set[str] = set()

    async def handle(self, message: Message) -> None:
        """Take up one message of the server; runs go on in a task of their own."""
        match message:
            case RunRequest():
                if self._is_busy:
                    self._send(RunFailed(message.run_id, "failed", Failure("the agent is busy with another run")))
                    return
                self._run_id = message.run_id
                self._request = message
                self._idle_release_s = message.idle_release_s
                self._begin(self._run(message), f"run {message.run_id}")
            case Cancel(run_id=run_id):
                if run_id == self._run_id and self._is_busy:
                    self._stopped.set()
                    await self._end_children()
            case EnvironmentRequest():
                if self._is_busy:
                    self._send(EnvironmentFailed("the agent is busy with a run; ask again when it is over"))
                    return
                self._begin(self._environment(message), "environment")
            case OpenRequest():
                opening = asyncio.create_task(self._open(message), name=f"open {message.folder}")
                self._openings.add(opening)
                opening.add_done_callback(self._openings.discard)
            case Hello():
                pass
            case _:
                log.warning("a %s message is not for an agent", type(message).__name__)

    async def release(self) -> Released:
        """End the worker if it holds NeuronCores and is idle; says what became of it."""
        request = self._request
        # Of a run that is on nobody knows yet whether it uses the device.
        may_hold = self._holds_cores or (request is not None and request.device != "cpu")
        if self._worker is None or not may_hold:
            return Released()
        pid, cores = self._worker.child.pid, self._lease.known_cores if self._lease is not None else ""
        if self._is_busy:
            return Released(pid, cores, request.qualname) if request is not None else Released()
        self._release()
        await self._released()
        return Released(pid, cores)

    async def close(self) -> None:
        """End the run, the worker and everything that either started."""
        self._is_closing = True
        self._stopped.set()
        self._stop_idle_timer()
        try:
            for opening in self._openings:
                opening.cancel()
            await asyncio.gather(*self._openings, return_exceptions=True)
            await self._viewer.close()
            await self._released()
            await self._end_children()
            await self._end_worker()
            if self._task is not None:
                self._task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._task
        finally:
            # The task fails where it still had something to say to a server that is gone.
            await self._end_reporter()
            end_orphans(Child.running)

    async def _open(self, request: OpenRequest) -> None:
        self._send(await self._viewer.open(request))

    @property
    def _is_busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._stopped.clear()
        self._stop_idle_timer()
        self._task = asyncio.create_task(self._with_the_worker_kept(work), name=name)

    async def _with_the_worker_kept(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in which the worker is not idle."""
        try:
            # Its cores are free, and its process gone, only then.
            await self._released()
            await work
        finally:
            work.close()
            if self._worker is not None and self._holds_cores and not self._is_closing:
                loop = asyncio.get_running_loop()
                self._idle_timer = loop.call_later(self._idle_release_s, self._release)

    def _release(self) -> None:
        self._stop_idle_timer()
        if self._worker is not None and not self._is_closing:
            log.info("worker %d lets go of its NeuronCores", self._worker.child.pid)
            self._releasing = asyncio.create_task(self._end_worker(), name="release")

    async def _released(self) -> None:
        """Wait for the end of a worker that is being ended for its cores."""
        if self._releasing is not None:
            await asyncio.wait([self._releasing])

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    async def _run(self, request: RunRequest) -> None:
        folder: RunFolder | None = None
        # A capture of which the report made nothing stays, so that it can be reported on again.
        keep = False
        answer: RunDone | RunFailed
        try:
            folder = RunFolder(request.run_id)
            answer, is_captured = await self._profile_with_a_core(replace(request, run_folder=str(folder.path)))
            keep = is_captured and (request.keep or isinstance(answer, RunFailed))
            if isinstance(answer, RunDone) and await asyncio.to_thread(_has_session, answer, request, folder):
                keep, answer = True, replace(answer, run_folder=str(folder.path))
        except (ProfileNeuronError, OSError) as error:
            answer = _failed(request, str(error))
        except Exception as error:
            log.exception("run %s", request.run_id)
            answer = _failed(request, f"the agent failed ({error}); its log has the traceback, profile again")
        finally:
            self._request = None
            if folder is not None and keep and not self._stopped.is_set():
                folder.keep()
            elif folder is not None:
                folder.remove()
        if self._is_closing:
            # Nobody has cancelled it; whoever still listens sees the end of the wire.
            return
        if self._stopped.is_set():
            answer = RunFailed(request.run_id, "cancelled", Failure("cancelled"))
        self._send(answer)

    async def _profile_with_a_core(self, request: RunRequest) -> tuple[RunDone | RunFailed, bool]:
        """Profile when NeuronCores may be free, and again where the runtime finds that none is."""
        self._devices = None
        if request.device == "cpu":
            answer, is_captured, _ = await self._profile(request)
            return answer, is_captured
        needs = [needed_cores(os.environ, request.cores)]
        for pause_s in (*_REFUSED_PAUSES_S, None):
            holders = await self._wait_for_cores(request, needs)
            if holders:
                break
            answer, is_captured, is_refused = await self._profile(request)
            if self._stopped.is_set() or not is_refused:
                return answer, is_captured
            # Its runtime has failed to start, which it does not try again.
            await self._end_worker()
            # Who does not tell which cores it holds may hold the ones that were asked for.
            needs = [needs[0], ANY_CORE]
            if pause_s is not None:
                await self._pause(pause_s)
        else:
            holders = await self._look(needs)
        return RunFailed(request.run_id, "busy", Failure(_busy(holders))), False

    async def _wait_for_cores(self, request: RunRequest, needs: Sequence[Need]) -> tuple[Holder, ...]:
        """Wait while others hold what one of the needs is about; gives them where the request is not to wait."""
        told: tuple[Holder, ...] = ()
        pause_s = _FIRST_LOOK_S
        while True:
            holders = await self._look(needs)
            if not holders or request.when_busy == "skip" or self._stopped.is_set():
                return holders
            if holders != told:
                self._send(RunWaiting(request.run_id, holders))
                told, pause_s = holders, _FIRST_LOOK_S
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_LOOK_S)

    async def _look(self, needs: Sequence[Need]) -> tuple[Holder, ...]:
        """Look at the devices; gives who is in the way, empty where nobody is, and where the run is stopped first."""
        own_pids = descendants(os.getpid())
        self._devices = await self._unless_stopped(device.ask_devices())
        found = (device.holders(self._devices or (), own_pids, need) for need in needs)
        return next(filter(None, found), ())

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What a program's run gives; None where the run is stopped first, which ends the program."""
        working = asyncio.create_task(work, name="program")
        stopping = asyncio.create_task(self._stopped.wait(), name="stop")
        try:
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            stopping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            return await working
        return None

    async def _profile(self, request: RunRequest) -> tuple[RunDone | RunFailed, bool, bool]:
        """The end of a run, whether it left a capture, and whether the Neuron runtime had no core for it."""
        known = replace(request, executes_once=request.path in self._execute_once)
        answer, is_refused = await self._capture(known)
        if isinstance(answer, RunFailed) and answer.again and not self._stopped.is_set():
            # Registrations and the like work once per process; the worker that had them has been ended.
            answer, is_refused = await self._capture(replace(request, executes_once=True))
            if isinstance(answer, Captured):
                self._execute_once.add(request.path)
        if isinstance(answer, RunFailed):
            return answer, False, _is_refusal(answer.failure.reason, is_refused)
        end, session = await self._report(request)
        if session and not self._stopped.is_set():
            end = await self._report_with_tables(request, session, end)
        if isinstance(end, RunFailed):
            return end, True, False
        return end, True, _is_refusal(end.costs.functions[0].reason or "", is_refused)

    async def _capture(self, request: RunRequest) -> tuple[Captured | RunFailed, bool]:
        """The worker's answer, and whether the Neuron runtime printed that it has no core."""
        worker = await self._ready_worker(request.cwd, request.cores)
        worker.output.begin(request.run_id)
        try:
            if self._stopped.is_set():
                # While the worker was being started there was nothing to end.
                return _failed(request, "cancelled"), False
            watch = Watch(worker.child, request, self._send)
            worker.child.send(request)
            # While the worker is busy; where that fails, the report itself says why.
            if not self._report_pauses.left_s(_now_s()):
                with contextlib.suppress(HostError, OSError):
                    await self._ready_reporter()
            answer = await watch.answer()
            if watch.has_answered:
                await worker.output_of_run(_OUTPUT_S)
            if isinstance(answer, Captured):
                self._leave_notes(request, worker)
            self._holds_cores = answer.holds_cores
            if answer.retire or (answer.holds_cores and request.idle_release_s == 0):
                await self._end_worker()
        finally:
            worker.output.finish()
        return answer, worker.output.is_refused

    def _leave_notes(self, request: RunRequest, worker: Piped) -> None:
        output = worker.output
        remarks = self._lease.remarks if self._lease is not None else ()
        self._notes = AgentNotes(remarks, output.dropped_events, tuple(sorted(output.fallback_operators)))
        leave_notes(request.run_folder, self._notes)

    async def _report_with_tables(
        self, request: RunRequest, session: str, untold: RunDone | RunFailed
    ) -> RunDone | RunFailed:
        """Report once more, with the tables that Neuron Explorer makes of a session, or with why there are none."""
        into = Path(request.run_folder) / run_folder.EXPLORER
        why_not = await self._unless_stopped(export_tables(Path(session), into, _EXPLORER_S))
        if why_not is None:
            return untold
        if why_not:
            leave_notes(request.run_folder, replace(self._notes, remarks=(*self._notes.remarks, why_not)))
        end, _ = await self._report(request)
        return end

    async def _report(self, request: RunRequest) -> tuple[RunDone | RunFailed, str]:
        """The end of a run, and the session of which only Neuron Explorer can tell the times of the device."""
        folder = request.run_folder
        reporter = await self._ready_reporter()
        if self._stopped.is_set():
            return _failed(request, "cancelled"), ""
        self._is_reporting = True
        try:
            reporter.child.send(ReportRequest(folder))
            while True:
                message = await asyncio.wait_for(reporter.child.receive(), _REPORT_S)
                match message:
                    case RunProgress():
                        self._send(replace(message, run_id=request.run_id))
                    case ReportDone(costs=costs, untold_session=session):
                        self._is_reporting = False
                        self._report_pauses.succeeded()
                        return RunDone(request.run_id, costs, folder if request.keep else ""), session
                    case ReportFailed(reason=reason):
                        self._is_reporting = False
                        self._report_pauses.succeeded()
                        return _failed(request, reason), ""
                    case None:
                        # Not ended by us, or its own cause of death would be lost.
                        await reporter.child.exited()
                        cause = await reporter.child.end()
                        await reporter.output_end(_OUTPUT_S)
                        said = reporter.output.last_line or "it said nothing"
                        why = f"{folder}: the report ended with {cause} ({said}); try report again"
                        return _failed(request, why), ""
        except asyncio.TimeoutError:
            return _failed(request, f"{folder}: the report took longer than {_REPORT_S:g} s; try report again"), ""
        finally:
            if self._is_reporting:
                if not self._stopped.is_set():
                    self._report_pauses.failed(_now_s())
                await self._end_reporter()

    async def _environment(self, request: EnvironmentRequest) -> None:
        self._devices = None
        try:
            worker = await self._ready_worker("/", AUTO)
            worker.child.send(request)
            message = await asyncio.wait_for(worker.child.receive(), _ENVIRONMENT_S)
        except (ProfileNeuronError, asyncio.TimeoutError) as error:
            # What it still says would be taken for the answer to the next request.
            await self._end_worker()
            self._send(EnvironmentFailed(str(error) or "the worker did not answer in time"))
            return
        if not isinstance(message, Environment):
            self._send(EnvironmentFailed("the worker ended early"))
            return
        details = (*message.details, *(await tool_texts() if request.details else ()))
        self._send(replace(message, host=await device.neuron_host(), details=details))

    async def _ready_worker(self, cwd: str, cores: str) -> Piped:
        """The warm worker, or a new one. Raises HostError where it does not come up."""
        if self._worker is not None and self._worker.child.alive and self._lease is not None:
            if self._lease.serves(cores, self._devices, descendants(os.getpid())):
                return self._worker
            log.info("worker %d has other NeuronCores than are wanted", self._worker.child.pid)
        # One that died between two runs may have left others in its group.
        await self._end_worker()
        await self._pause(self._worker_pauses.left_s(_now_s()))
        if self._stopped.is_set():
            raise HostError("cancelled")
        self._lease = lease(cores, self._devices)
        command = [sys.executable, str(self._worker_script), self._own_path]
        child = await Child.start(command, cwd, self._lease.environment)
        worker = self._worker = Piped(child, self._send)
        wrong = await hello(worker.child, self._hello_s)
        if wrong:
            await self._end_worker()
            if not self._stopped.is_set():
                self._worker_pauses.failed(_now_s())
            said = f": {worker.output.last_line}" if worker.output.last_line else ""
            raise HostError(f"the worker {sys.executable} {wrong}{said}")
        self._worker_pauses.succeeded()
        log.info("worker %d is ready", child.pid)
        return worker

    async def _ready_reporter(self) -> Piped:
        """The report that waits, or a new one. Raises HostError where it cannot be started."""
        if self._reporter is not None and self._reporter.child.alive:
            return self._reporter
        await self._end_reporter()
        await self._pause(self._report_pauses.left_s(_now_s()))
        command = isolated_command(sys.executable, "profile_neuron.report.__main__", self._own_path)
        self._reporter = Piped(await Child.start(command, "/"), lambda _: None)
        return self._reporter

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than the run that is on."""
        if seconds > 0:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), seconds)

    async def _end_children(self) -> None:
        """End what the current run is in: the report, while one is on, and otherwise the worker."""
        if self._reporter is not None and self._is_reporting:
            await self._reporter.child.end()
        else:
            await self._end_worker()

    async def _end_reporter(self) -> None:
        reporter, self._reporter = self._reporter, None
        self._is_reporting = False
        if reporter is not None:
            await reporter.child.end()
            await reporter.output_end(_OUTPUT_S)

    async def _end_worker(self) -> str:
        """End the worker, its group, and what left that group; says how the worker itself ended."""
        worker, self._worker = self._worker, None
        self._holds_cores = False
        if worker is None:
            return ""
        cause = await worker.child.end()
        orphans = end_orphans(Child.running)
        await worker.output_end(_OUTPUT_S)
        log.info("worker %d was ended (%s), and %d orphans", worker.child.pid, cause, orphans)
        return cause


def _is_refusal(reason: str, is_printed: bool) -> bool:
    """Whether a run failed because the Neuron runtime had no core for it; some code survives that by going on without.

    The runtime says so on stderr or in its error, and ends the process or raises a RuntimeError of its own.
    """
    is_said = device.has_refusal(reason.encode("utf-8", "replace"))
    return is_said or (is_printed and reason.startswith(("crashed:", "RuntimeError")))


def _busy(holders: tuple[Holder, ...]) -> str:
    if holders:
        return f"device-busy: {device.describe(holders)}; end {'it' if len(holders) == 1 else 'one'} or wait"
    tries = len(_REFUSED_PAUSES_S) + 1
    return (
        f"device-busy: the Neuron runtime found no free NeuronCore in {tries} attempts; end what holds them, which "
        "neuron-ls names, or wait"
    )


def _has_session(done: RunDone, request: RunRequest, folder: RunFolder) -> bool:
    """Whether a run left what Neuron Explorer shows, where that is wanted."""
    is_wanted = request.keep_device_files and done.costs.functions[0].state == "fresh"
    return is_wanted and done.costs.device_kind == "neuron" and find_session(folder.path) is not None


def _failed(request: RunRequest, reason: str) -> RunFailed:
    return RunFailed(request.run_id, "failed", Failure(reason))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
