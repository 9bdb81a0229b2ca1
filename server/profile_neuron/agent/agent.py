"""Requests from the server to one warm worker and one report, with limits; runs no user code itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import profile_neuron
from profile_neuron.agent.child import Child
from profile_neuron.agent.orphans import end_orphans
from profile_neuron.agent.runs import make_run_folder, remove_run_folder
from profile_neuron.core.launch import isolated_command
from profile_neuron.core.model import Failure
from profile_neuron.errors import HostError, ProfileNeuronError, WireError
from profile_neuron.wire.messages import (
    PROTOCOL_VERSION,
    Cancel,
    Captured,
    Environment,
    EnvironmentFailed,
    EnvironmentRequest,
    Hello,
    Message,
    ReportDone,
    ReportFailed,
    ReportRequest,
    RunDone,
    RunFailed,
    RunOutput,
    RunProgress,
    RunRequest,
)
from profile_neuron.wire.stdio import end_of_output

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

_HELLO_S = 60.0
_START_S = 600.0
_ENVIRONMENT_S = 120.0
_REPORT_S = 600.0
# How long a finished run's last output is waited for: user code may have closed the descriptor.
_OUTPUT_S = 1.0


class Agent:
    """At most one run at a time; the worker stays for the next one unless it had to be ended."""

    def __init__(self, send: Callable[[Message], None], own_path: str) -> None:
        self._send = send
        self._own_path = own_path
        self._worker: _Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._reporter: _Reporter | None = None
        self._run_id = ""
        self._cancelled = False
        # Paths of files that a worker could not execute twice.
        self._execute_once: set[str] = set()

    async def handle(self, message: Message) -> None:
        """Take up one message of the server; runs go on in a task of their own."""
        match message:
            case RunRequest():
                if self._task is not None and not self._task.done():
                    self._send(RunFailed(message.run_id, "failed", Failure("the agent is busy with another run")))
                    return
                self._run_id, self._cancelled = message.run_id, False
                self._task = asyncio.create_task(self._run(message), name=f"run {message.run_id}")
            case Cancel(run_id=run_id):
                if run_id == self._run_id and self._task is not None and not self._task.done():
                    self._cancelled = True
                    await self._end_children()
            case EnvironmentRequest():
                if self._task is not None and not self._task.done():
                    self._send(EnvironmentFailed("the agent is busy with a run; ask again when it is over"))
                    return
                self._task = asyncio.create_task(self._environment(), name="environment")
            case Hello():
                pass
            case _:
                log.warning("a %s message is not for an agent", type(message).__name__)

    async def close(self) -> None:
        """End the run, the worker and everything that either started."""
        self._cancelled = True
        try:
            await self._end_children()
            await self._end_worker()
            if self._task is not None:
                self._task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._task
        finally:
            # The task fails where it still had something to say to a server that is gone.
            await self._end_reporter()

    async def _run(self, request: RunRequest) -> None:
        folder: Path | None = None
        # A capture of which the report made nothing stays, so that it can be reported on again.
        keep = False
        try:
            folder = make_run_folder(request.run_id)
            request_here = replace(request, run_folder=str(folder), executes_once=request.path in self._execute_once)
            answer = await self._capture(request_here)
            if isinstance(answer, RunFailed) and answer.again and not self._cancelled:
                # Registrations and the like work once per process; the worker that had them has been ended.
                answer = await self._capture(replace(request_here, executes_once=True))
                if isinstance(answer, Captured):
                    self._execute_once.add(request.path)
            if isinstance(answer, Captured):
                answer = await self._report(request, folder)
                keep = request.keep or isinstance(answer, RunFailed)
        except (ProfileNeuronError, OSError) as error:
            answer = _failed(request, str(error))
        except Exception as error:
            log.exception("run %s", request.run_id)
            answer = _failed(request, f"the agent failed ({error}); its log has the traceback, profile again")
        finally:
            if folder is not None and (self._cancelled or not keep):
                remove_run_folder(folder)
        if self._cancelled:
            answer = RunFailed(request.run_id, "cancelled", Failure("cancelled"))
        self._send(answer)

    async def _capture(self, request: RunRequest) -> Captured | RunDone | RunFailed:
        worker = await self._ready_worker(request.cwd)
        worker.run_id = request.run_id
        try:
            if self._cancelled:
                # While the worker was being started there was nothing to end.
                return _failed(request, "cancelled")
            worker.child.send(request)
            # While the worker is busy; where that fails, the report itself says why.
            with contextlib.suppress(HostError, OSError):
                await self._ready_reporter()
            answer = await self._await_answer(worker, request)
            if worker.child.alive:
                await worker.output_until_end_of(request.run_id, _OUTPUT_S)
            if answer.retire:
                await self._end_worker()
        finally:
            worker.run_id = ""
        return answer

    async def _await_answer(self, worker: _Worker, request: RunRequest) -> Captured | RunFailed:
        loop = asyncio.get_running_loop()
        limits = {"import": request.limits.import_s, "inputs": request.limits.run_s, "read": _REPORT_S}
        phase, limit_s = "start", _START_S
        deadline = loop.time() + limit_s
        while True:
            try:
                message = await asyncio.wait_for(worker.child.receive(), max(0.0, deadline - loop.time()))
            except asyncio.TimeoutError:
                await self._end_worker()
                return _failed(request, f"timeout: {_PHASES[phase]} took longer than {limit_s:g} s; {_RAISE[phase]}")
            except WireError as error:
                await self._end_worker()
                return _failed(request, f"the worker broke the wire: {error}")
            match message:
                case None:
                    # Not ended by us, or its own cause of death would be lost.
                    cause = await worker.child.ended()
                    await self._end_worker()
                    return _failed(request, f"crashed: the worker ended with {cause} during {_PHASES[phase]}")
                case RunProgress(run_id=request.run_id):
                    # Inputs and calls share a limit; starting and reading out are not the user's code.
                    if message.phase != phase and message.phase in limits:
                        limit_s = limits[message.phase]
                        deadline = loop.time() + limit_s
                    phase = message.phase
                    self._send(message)
                case Captured() | RunFailed() if message.run_id == request.run_id:
                    return message
                case _:
                    log.warning("a %s message came from the worker out of turn", type(message).__name__)

    async def _report(self, request: RunRequest, folder: Path) -> RunDone | RunFailed:
        reporter = await self._ready_reporter()
        if self._cancelled:
            return _failed(request, "cancelled")
        reporter.busy = True
        reporter.said.clear()
        try:
            reporter.child.send(ReportRequest(str(folder)))
            while True:
                message = await asyncio.wait_for(reporter.child.receive(), _REPORT_S)
                match message:
                    case RunProgress():
                        self._send(replace(message, run_id=request.run_id))
                    case ReportDone(costs=costs):
                        reporter.busy = False
                        return RunDone(request.run_id, costs, str(folder) if request.keep else "")
                    case ReportFailed(reason=reason):
                        reporter.busy = False
                        return _failed(request, reason)
                    case None:
                        # Not ended by us, or its own cause of death would be lost.
                        cause = await reporter.child.ended()
                        await reporter.output_end(_OUTPUT_S)
                        said = reporter.said[-1] if reporter.said else "it said nothing"
                        return _failed(request, f"{folder}: the report ended with {cause} ({said}); try report again")
        except asyncio.TimeoutError:
            return _failed(request, f"{folder}: the report took longer than {_REPORT_S:g} s; try report again")
        finally:
            if reporter.busy:
                await self._end_reporter()

    async def _environment(self) -> None:
        try:
            worker = await self._ready_worker("/")
            worker.child.send(EnvironmentRequest())
            message = await asyncio.wait_for(worker.child.receive(), _ENVIRONMENT_S)
        except (ProfileNeuronError, asyncio.TimeoutError) as error:
            self._send(EnvironmentFailed(str(error) or "the worker did not answer in time"))
            return
        self._send(message if isinstance(message, Environment) else EnvironmentFailed("the worker ended early"))

    async def _ready_worker(self, cwd: str) -> _Worker:
        """The warm worker, or a new one. Raises HostError where it does not come up."""
        if self._worker is not None and self._worker.child.alive:
            return self._worker
        # One that died between two runs may have left others in its group.
        await self._end_worker()
        script = Path(profile_neuron.__file__).parent / "worker" / "__main__.py"
        child = await Child.start([sys.executable, str(script), self._own_path], cwd)
        worker = _Worker(child, self._send)
        self._worker = worker
        try:
            hello = await asyncio.wait_for(child.receive(), _HELLO_S)
        except (asyncio.TimeoutError, WireError) as error:
            await self._end_worker()
            raise HostError(f"the worker {sys.executable} did not say hello ({error or 'too slow'})") from error
        if not isinstance(hello, Hello) or hello.protocol != PROTOCOL_VERSION:
            cause = await self._end_worker()
            said = f": {worker.last_line}" if worker.last_line else ""
            raise HostError(f"the worker {sys.executable} could not start ({cause}){said}")
        log.info("worker %d is ready", child.pid)
        return worker

    async def _ready_reporter(self) -> _Reporter:
        """The report that waits, or a new one. Raises HostError where it cannot be started."""
        if self._reporter is not None and self._reporter.child.alive:
            return self._reporter
        await self._end_reporter()
        command = isolated_command(sys.executable, "profile_neuron.report.__main__", self._own_path)
        self._reporter = _Reporter(await Child.start(command, "/"))
        return self._reporter

    async def _end_children(self) -> None:
        """End what the current run is in: the report, while one is on, and otherwise the worker."""
        if self._reporter is not None and self._reporter.busy:
            await self._reporter.child.end()
        else:
            await self._end_worker()

    async def _end_reporter(self) -> None:
        reporter, self._reporter = self._reporter, None
        if reporter is not None:
            await reporter.child.end()
            await reporter.output_end(_OUTPUT_S)

    async def _end_worker(self) -> str:
        """End the worker, its group, and what left that group; says how the worker itself ended."""
        worker, self._worker = self._worker, None
        if worker is None:
            return ""
        cause = await worker.child.end()
        orphans = end_orphans(Child.running)
        await worker.output_end(_OUTPUT_S)
        log.info("worker %d was ended (%s), and %d orphans", worker.child.pid, cause, orphans)
        return cause


class _Reporter:
    """The report's program: it has imported what it needs, waits for a run folder, and forks to report on it."""

    def __init__(self, child: Child) -> None:
        self.child = child
        # A report is on.
        self.busy = False
        # What it printed last.
        self.said: deque[str] = deque(maxlen=1)
        self._listener = asyncio.create_task(self._listen(), name=f"output of report {child.pid}")

    async def output_end(self, limit_s: float) -> None:
        """Wait until the pipe closes."""
        await asyncio.wait([self._listener], timeout=limit_s)
        self._listener.cancel()
        self.child.close_output()

    async def _listen(self) -> None:
        async for lines in self.child.output():
            self.said += lines


class _Worker:
    """A worker process and the pump that passes its output on."""

    def __init__(self, child: Child, send: Callable[[Message], None]) -> None:
        self.child = child
        self.run_id = ""
        self.last_line = ""
        self._send = send
        self._ends: dict[str, asyncio.Event] = {}
        self._pump = asyncio.create_task(self._pass_on(), name=f"output of worker {child.pid}")

    async def output_until_end_of(self, run_id: str, limit_s: float) -> None:
        """Wait until everything that a run printed has been passed on."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._end_event(run_id).wait(), limit_s)
        self._ends.pop(run_id, None)

    async def output_end(self, limit_s: float) -> None:
        """Wait until the pipe closes; a process that left the group may keep it open."""
        await asyncio.wait([self._pump], timeout=limit_s)
        self._pump.cancel()
        self.child.close_output()

    async def _pass_on(self) -> None:
        async for lines in self.child.output():
            printed, ends = [], []
            for line in lines:
                text, mark, run_id = line.partition(end_of_output(""))
                if text or not mark:
                    printed.append(text)
                if mark:
                    ends.append(run_id)
            if printed:
                self.last_line = next((text for text in reversed(printed) if text), self.last_line)
                self._send(RunOutput(self.run_id, "\n".join(printed)))
            for run_id in ends:
                self._end_event(run_id).set()

    def _end_event(self, run_id: str) -> asyncio.Event:
        return self._ends.setdefault(run_id, asyncio.Event())


_PHASES = {
    "start": "importing torch",
    "import": "importing the file",
    "inputs": "building the inputs",
    "warm-up": "the warm-up calls",
    "capture": "the profiled calls",
    "read": "reading out the profiler",
}
_RAISE = {
    "start": "look at what slows this machine down",
    "import": "raise the limit with --import-timeout, in an editor run.importTimeout",
    "inputs": "raise the limit with --timeout, in an editor run.timeout",
    "warm-up": "raise the limit with --timeout, in an editor run.timeout",
    "capture": "raise the limit with --timeout, in an editor run.timeout",
    "read": "profile fewer calls with repeats= of the decorator",
}


def _failed(request: RunRequest, reason: str) -> RunFailed:
    return RunFailed(request.run_id, "failed", Failure(reason))
