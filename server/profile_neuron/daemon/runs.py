"""One run, from the request to its end: its costs, or the reason why there are none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from profile_neuron.core.model import Failure
from profile_neuron.daemon.agents import Agents
from profile_neuron.errors import AgentError, AgentLostError, HostError, ProfileNeuronError
from profile_neuron.wire.messages import RunDone, RunFailed, RunOutput, RunProgress, RunRequest, RunWaiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from profile_neuron.core.model import FunctionSpec, Holder, State
    from profile_neuron.daemon.agent_client import AgentClient
    from profile_neuron.daemon.interpreters import Place
    from profile_neuron.wire.messages import Limits

_CANCELLED: tuple[State, Failure] = ("cancelled", Failure("cancelled"))


class Runs:
    """Carries out one run at a time, wherever its agent is."""

    def __init__(self) -> None:
        self.agents = Agents()
        self._agent: AgentClient | None = None
        # Set when the run that is on is cancelled.
        self._cancelled = asyncio.Event()
        self._run_id = ""
        # Asked to end, of which some may not have begun here.
        self._unwanted: set[str] = set()
        # An agent that is still being started when its run was cancelled.
        self._starts: set[asyncio.Task[AgentClient]] = set()

    async def run(
        self,
        request: RunRequest,
        place: Place,
        progress: Callable[[str, int, int], None],
        output: Callable[[str], None],
        waiting: Callable[[tuple[Holder, ...]], None] = lambda _: None,
    ) -> RunDone | tuple[State, Failure]:
        """Carry out a request; progress gets the phase and its calls, output what user code prints.

        waiting gets who holds the NeuronCores, before the first phase and whenever it is somebody else.
        Raises AgentLostError where the agent went away before it answered.
        """
        self._run_id = request.run_id
        self._cancelled.clear()
        try:
            if request.run_id in self._unwanted:
                return _CANCELLED
            self._agent = await self._ready(place)
            if self._agent is None:
                return _CANCELLED
            async for message in self._agent.run(request):
                match message:
                    case RunProgress(phase=phase, done=done, total=total):
                        progress(phase, done, total)
                    case RunWaiting(holders=holders):
                        waiting(holders)
                    case RunOutput(text=text):
                        output(text)
                    case RunDone():
                        return message
                    case RunFailed(state=state, failure=failure):
                        return state, failure
        except ProfileNeuronError as error:
            if isinstance(error, AgentError):
                # What is left of it, if anything, is of no more use.
                await self.agents.end([place])
            if self._cancelled.is_set():
                return _CANCELLED
            if isinstance(error, AgentLostError):
                raise
            return "failed", Failure(str(error), is_of_interpreter=isinstance(error, HostError))
        finally:
            self._agent, self._run_id = None, ""
            self._unwanted.clear()
        raise AssertionError("a run ends with RunDone or RunFailed")

    async def cancel(self, run_id: str) -> None:
        """End the run that is on, or is about to be; it then ends with the state cancelled."""
        self._unwanted.add(run_id)
        if run_id == self._run_id:
            self._cancelled.set()
            if self._agent is not None:
                await self._agent.cancel(run_id)

    async def _ready(self, place: Place) -> AgentClient | None:
        """The agent for a place; None where the run is cancelled before it is up, which may take long."""
        start = asyncio.create_task(self.agents.ready(place), name=f"agent of {place.root}")
        self._starts.add(start)
        start.add_done_callback(self._started)
        cancelled = asyncio.create_task(self._cancelled.wait(), name="cancelled")
        await asyncio.wait([start, cancelled], return_when=asyncio.FIRST_COMPLETED)
        cancelled.cancel()
        return None if self._cancelled.is_set() else await start

    def _started(self, start: asyncio.Task[AgentClient]) -> None:
        self._starts.discard(start)
        if not start.cancelled():
            # Seen, in case that nobody waits for it any more.
            start.exception()


def request_for(
    run_id: str,
    path: str,
    sha256: str,
    spec: FunctionSpec,
    decorator_modules: tuple[str, ...],
    project_roots: tuple[str, ...],
    cwd: str,
    limits: Limits,
    **more: Any,
) -> RunRequest:
    """The request to run a function of a file with this content. more: fields of it that have a default."""
    return RunRequest(
        run_id=run_id,
        path=path,
        sha256=sha256,
        qualname=spec.qualname,
        first_line=spec.first_line,
        def_line=spec.def_line,
        repeats=None,
        device="auto",
        decorator_modules=decorator_modules,
        project_roots=project_roots,
        cwd=cwd,
        limits=limits,
        **more,
    )
