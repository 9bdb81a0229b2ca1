"""Who gets which NeuronCore, and who lets go of it when: a real agent, a real worker, and a stand-in for the cores.

Constructed: a lock on the file of its number is a core, and the process that holds it is who neuron-ls names, in the
form that its documentation gives. The marked function takes cores at import as the runtime does at its first use: those
that NEURON_RT_VISIBLE_CORES names, else all.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.core.model import AgentNotes, Holder
from profile_neuron.core.plain import from_plain
from profile_neuron.core.run_folder import AGENT
from profile_neuron.daemon.agent_client import AgentClient
from profile_neuron.daemon.hosts import LocalHost
from profile_neuron.daemon.release import Outcome, release
from profile_neuron.folders import socket_folder
from profile_neuron.wire.messages import RunDone, RunFailed, RunOutput, RunRequest, RunWaiting
from tests.conftest import Finished, request
from tests.contract.test_agent import agent_of, ended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform != "linux", reason="the end of a process is told by the kernel of Linux"),
]

CORES = 2
NEURON_LS = """\
#!{python}
import fcntl, json, sys
from pathlib import Path
if sys.argv[1:] != ["--json-output"]:
    sys.exit("neuron-ls: unknown arguments")
folder = Path({folder!r})
with (folder / "asked").open("a") as asked:
    asked.write("x")
# For a test in which it does not know yet.
first = (folder / "blind").exists() and (folder / "asked").read_text() == "x"
holders = {{}}
for number in range({cores}):
    with (folder / f"core{{number}}").open("a+") as core:
        try:
            fcntl.flock(core, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            core.seek(0)
            if not first:
                holders.setdefault(int(core.read()), []).append(number)
processes = [{{"pid": pid, "command": "python", "neuroncore_ids": cores}} for pid, cores in holders.items()]
ids = list(range({cores}))
print(json.dumps([{{"neuron_device": 0, "nc_count": {cores}, "neuroncore_ids": ids, "neuron_processes": processes}}]))
"""
TAKE = """
import fcntl, os, sys
def take(folder, numbers):
    taken = []
    for number in numbers:
        core = open(folder + "/core" + str(number), "a+")
        try:
            fcntl.flock(core, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("NRT:nrt_allocate_neuron_cores NeuronCore(s) not available - Requested:1 Available:0", file=sys.stderr)
            raise RuntimeError("the stand-in runtime could not be started")
        core.truncate(0)
        core.write(str(os.getpid()))
        core.flush()
        taken.append(core)
    return taken
"""
MODEL = (
    TAKE
    + """
import types
import torch
from profile_neuron import profile_neuron

if not hasattr(torch, "neuron"):
    visible = os.environ.get("NEURON_RT_VISIBLE_CORES")
    held = take({folder!r}, [int(visible.partition("-")[0])] if visible else range({cores}))
    # In a module that stays, where the worker looks.
    torch.neuron = types.SimpleNamespace(is_initialized=lambda: True, held=held)

@profile_neuron(warmup=0, repeats=1)
def f():
    {body}
    return torch.ones(2)
"""
)
PLAIN = """
import os
import torch
from profile_neuron import profile_neuron

@profile_neuron(warmup=0, repeats=1)
def plain():
    print("worker", os.getpid())
    return torch.ones(2)
"""


@dataclass(frozen=True)
class StandIn:
    """A host with two NeuronCores and one device."""

    folder: Path
    cache: Path

    def host(self, **environment: str) -> LocalHost:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return LocalHost(sys.executable, tuple(sorted({"PATH": path, **environment}.items())))

    def model(self, body: str = "pass") -> Path:
        path = self.folder / "model.py"
        path.write_text(MODEL.format(folder=str(self.folder), cores=CORES, body=body))
        return path

    def holders(self) -> list[int | None]:
        """The process that holds each core; None for a free one."""
        found: list[int | None] = []
        for number in range(CORES):
            with (self.folder / f"core{number}").open("a+") as core:
                try:
                    fcntl.flock(core, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    found.append(None)
                except BlockingIOError:
                    core.seek(0)
                    found.append(int(core.read()))
        return found

    def asked(self) -> int:
        """How often neuron-ls was asked."""
        asked = self.folder / "asked"
        return len(asked.read_text()) if asked.exists() else 0


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    # Sockets whose paths are long lie in one folder for everybody.
    cache = Path(tempfile.mkdtemp(prefix="pn-"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    program = tmp_path / "bin" / "neuron-ls"
    program.parent.mkdir()
    program.write_text(NEURON_LS.format(python=sys.executable, folder=str(tmp_path), cores=CORES))
    program.chmod(0o755)
    yield StandIn(tmp_path, cache)
    shutil.rmtree(cache)


@pytest.fixture
def foreign(standin: StandIn) -> Iterator[Callable[[int], int]]:
    """Start a process of somebody else that holds a core, and give its id."""
    started: list[subprocess.Popen[bytes]] = []

    def hold(number: int) -> int:
        script = f"{TAKE}\nheld = take({str(standin.folder)!r}, [{number}])\nprint(flush=True)\nsys.stdin.read()"
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        started.append(process)
        assert process.stdout is not None
        process.stdout.read(1)
        return process.pid

    yield hold
    for process in started:
        assert process.poll() is None, "nobody else was ended"
        process.communicate()


def talk(host: LocalHost, conversation: Callable[[AgentClient], Coroutine[Any, Any, None]]) -> None:
    async def with_agent() -> None:
        async with agent(host) as client:
            await conversation(client)

    asyncio.run(with_agent())


@contextlib.asynccontextmanager
async def agent(host: LocalHost) -> AsyncIterator[AgentClient]:
    client = await AgentClient.start(host)
    try:
        yield client
    finally:
        await client.close()


async def done(client: AgentClient, wanted: RunRequest) -> RunDone:
    end = [message async for message in client.run(wanted)][-1]
    assert isinstance(end, RunDone), end
    assert end.costs.functions[0].state == "fresh", end.costs.functions[0].reason
    return end


async def failed(client: AgentClient, wanted: RunRequest) -> RunFailed:
    end = [message async for message in client.run(wanted)][-1]
    assert isinstance(end, RunFailed), end
    return end


async def worker_of(client: AgentClient, wanted: RunRequest) -> int:
    """The process that carries out a run which prints it."""
    said = [message.text async for message in client.run(wanted) if isinstance(message, RunOutput)]
    return int(said[0].split()[1])


def pid_of(holder: int | None) -> int:
    assert holder is not None
    return holder


def test_a_worker_takes_the_lowest_core_that_nobody_holds(standin: StandIn, foreign: Callable[[int], int]) -> None:
    other = foreign(0)

    async def conversation(client: AgentClient) -> None:
        await done(client, request(standin.model()))
        first = standin.holders()
        assert first[0] == other
        assert first[1] not in (None, other)
        # The holder itself runs on, with what it has.
        await done(client, request(standin.model()))
        assert standin.holders() == first

    talk(standin.host(), conversation)


def test_two_agents_take_a_core_each(standin: StandIn) -> None:
    async def conversation(first: AgentClient) -> None:
        await done(first, request(standin.model()))
        async with agent(standin.host()) as second:
            await done(second, request(standin.model()))
            holders = standin.holders()
            assert None not in holders
            assert holders[0] != holders[1]

    talk(standin.host(), conversation)


def test_a_core_that_is_taken_after_all_is_given_up_for_another(
    standin: StandIn, foreign: Callable[[int], int]
) -> None:
    (standin.folder / "blind").touch()
    other = foreign(0)

    async def conversation(client: AgentClient) -> None:
        await done(client, request(standin.model()))
        assert standin.asked() == 2
        assert standin.holders()[0] == other
        assert standin.holders()[1] is not None

    talk(standin.host(), conversation)


def test_a_core_that_was_free_but_not_used_yet_is_given_up_when_somebody_takes_it(
    standin: StandIn, foreign: Callable[[int], int]
) -> None:
    plain = standin.folder / "plain.py"
    plain.write_text(PLAIN)

    async def conversation(client: AgentClient) -> None:
        first = await worker_of(client, request(plain))
        assert await worker_of(client, request(plain)) == first
        other = foreign(0)
        await done(client, request(standin.model()))
        assert standin.holders()[0] == other
        assert standin.holders()[1] not in (None, first)
        assert standin.asked() == 3, "no run had to be refused first"

    talk(standin.host(), conversation)


def test_cores_of_the_request_are_taken_and_others_by_another_worker(standin: StandIn) -> None:
    async def conversation(client: AgentClient) -> None:
        await done(client, request(standin.model(), cores="1"))
        first, second = standin.holders()
        assert first is None
        await done(client, request(standin.model(), cores="0"))
        now = standin.holders()
        assert now[0] not in (None, second)
        assert now[1] is None

    talk(standin.host(), conversation)


@pytest.mark.parametrize("said_by", ["request", "variable"])
def test_a_core_that_was_asked_for_and_is_held_is_busy_although_another_is_free(
    said_by: str, standin: StandIn, foreign: Callable[[int], int]
) -> None:
    other = foreign(1)
    environment = {"NEURON_RT_VISIBLE_CORES": "1"} if said_by == "variable" else {}
    cores = "1" if said_by == "request" else "auto"

    async def conversation(client: AgentClient) -> None:
        end = await failed(client, request(standin.model(), cores=cores, when_busy="skip"))
        reason = f"device-busy: pid {other} (python) holds 1 NeuronCore; end it or wait"
        assert (end.state, end.failure.reason) == ("busy", reason)
        assert standin.holders() == [None, other]

    talk(standin.host(**environment), conversation)


def test_a_number_of_cores_of_the_user_is_waited_for(standin: StandIn, foreign: Callable[[int], int]) -> None:
    other = foreign(1)

    async def conversation(client: AgentClient) -> None:
        wanted = request(standin.model())
        messages = []
        async for message in client.run(wanted):
            messages.append(message)
            if isinstance(message, RunWaiting):
                await client.cancel(wanted.run_id)
        assert RunWaiting(wanted.run_id, (Holder(other, "python", (1,)),)) in messages

    talk(standin.host(NEURON_RT_NUM_CORES="2"), conversation)


def test_what_is_measured_on_the_cpu_waits_for_nobody(standin: StandIn, foreign: Callable[[int], int]) -> None:
    foreign(0)
    foreign(1)
    plain = standin.folder / "plain.py"
    plain.write_text(PLAIN)

    async def conversation(client: AgentClient) -> None:
        assert await worker_of(client, request(plain, device="cpu"))

    talk(standin.host(), conversation)
    assert standin.asked() == 0


def test_an_idle_worker_lets_go_of_its_core_after_a_while(standin: StandIn) -> None:
    async def conversation(client: AgentClient) -> None:
        wanted = request(standin.model(), idle_release_s=0.5)
        await done(client, wanted)
        worker = pid_of(standin.holders()[0])
        assert await asyncio.to_thread(ended, worker, 20.0)
        assert standin.holders() == [None, None]
        await done(client, request(standin.model()))
        assert standin.holders()[0] not in (None, worker)

    talk(standin.host(), conversation)


def test_a_worker_lets_go_with_the_run_where_it_is_not_to_be_idle_at_all(standin: StandIn) -> None:
    async def conversation(client: AgentClient) -> None:
        await done(client, request(standin.model(), idle_release_s=0.0))
        assert standin.holders() == [None, None]

    talk(standin.host(), conversation)


def test_a_worker_without_cores_stays(standin: StandIn) -> None:
    plain = standin.folder / "plain.py"
    plain.write_text(PLAIN)

    async def conversation(client: AgentClient) -> None:
        first = await worker_of(client, request(plain, idle_release_s=0.0))
        assert await release() == Outcome(("nothing is held",), False)
        assert await worker_of(client, request(plain, idle_release_s=0.0)) == first

    talk(standin.host(), conversation)


def test_an_idle_worker_lets_go_when_another_program_asks(standin: StandIn, command: Callable[..., Finished]) -> None:
    async def conversation(client: AgentClient) -> None:
        await done(client, request(standin.model()))
        worker = pid_of(standin.holders()[0])
        finished = await asyncio.to_thread(command, "release")
        assert (finished.code, finished.out) == (0, f"released core 0 (worker {worker})\n"), finished.err
        assert standin.holders() == [None, None]
        finished = await asyncio.to_thread(command, "release")
        assert (finished.code, finished.out) == (0, "nothing is held\n")
        # The agent itself goes on.
        await done(client, request(standin.model(), cores="0-0"))
        assert await release({client.pid + 1}) == Outcome(("nothing is held",), False)
        last = pid_of(standin.holders()[0])
        assert await release({client.pid}) == Outcome((f"released cores 0-0 (worker {last})",), False)

    talk(standin.host(), conversation)


def test_a_worker_in_a_run_is_named_and_not_ended(standin: StandIn, command: Callable[..., Finished]) -> None:
    async def conversation(client: AgentClient) -> None:
        wanted = request(standin.model("print('on', flush=True); __import__('time').sleep(600)"))
        async for message in client.run(wanted):
            if isinstance(message, RunOutput):
                worker = pid_of(standin.holders()[0])
                finished = await asyncio.to_thread(command, "release")
                assert finished.code == 1
                said = f"pid {worker} is profiling f; cancel it in its editor or press Ctrl-C there\n"
                assert finished.out == said
                assert standin.holders()[0] == worker
                await client.cancel(wanted.run_id)
        assert isinstance(message, RunFailed)
        assert message.state == "cancelled"
        assert standin.holders() == [None, None]

    talk(standin.host(), conversation)


def test_agents_leave_no_socket_and_those_of_killed_ones_are_removed(standin: StandIn) -> None:
    async def conversation(client: AgentClient) -> None:
        async with agent(standin.host()) as second:
            assert {path.name for path in socket_folder().iterdir()} == {str(client.pid), str(second.pid)}
        assert [path.name for path in socket_folder().iterdir()] == [str(client.pid)]
        (socket,) = socket_folder().iterdir()
        assert socket.stat().st_mode & 0o077 == 0
        os.kill(agent_of(client), signal.SIGKILL)
        assert await asyncio.to_thread(ended, client.pid, 10.0)
        assert socket.exists()
        assert await release() == Outcome(("nothing is held",), False)
        assert not socket.exists()

    talk(standin.host(), conversation)


def test_what_is_no_agent_is_said_not_to_answer(standin: StandIn) -> None:
    async def ask() -> Outcome:
        server = await asyncio.start_unix_server(lambda _, writer: writer.close(), socket_folder() / "4711")
        async with server:
            return await release()

    expected = Outcome(("the agent 4711 does not answer; end it with: kill 4711",), True)
    assert asyncio.run(ask()) == expected


def test_an_agent_that_is_asked_something_else_goes_on(standin: StandIn) -> None:
    async def conversation(client: AgentClient) -> None:
        reader, writer = await asyncio.open_unix_connection(socket_folder() / str(client.pid))
        writer.write(b"\nprofile-neuron wire 1\n\0\0\0\2\xc1\xc1")
        assert await reader.read() == b""
        writer.close()
        assert await release() == Outcome(("nothing is held",), False)

    talk(standin.host(), conversation)


def test_the_worker_gets_an_environment_for_profiles_and_the_run_folder_what_to_know_of_it(standin: StandIn) -> None:
    body = """
    names = ("NEURON_RT_INSPECT_ENABLE", "NEURON_FRAMEWORK_DEBUG", "TORCH_NEURONX_NEFF_CACHE_DIR", "MINE")
    print("variables", [os.environ.get(name) for name in names])
    print("Operator 'aten::foo' fell back to CPU", file=sys.stderr)
    print("Warning: 12 trace events were dropped", file=sys.stderr)
    """

    async def conversation(client: AgentClient) -> None:
        said = []
        async for message in client.run(request(standin.model(body), keep=True)):
            if isinstance(message, RunOutput):
                said += message.text.split("\n")
        cache = standin.cache / "profile-neuron" / "neff"
        assert f"variables [None, '1', '{cache}', 'kept']" in said
        assert isinstance(message, RunDone), message
        plain = json.loads((Path(message.run_folder) / AGENT).read_text())
        assert plain["schema"] == 1
        remark = (
            "NEURON_RT_INSPECT_ENABLE was unset for this run, since the runtime's own capture and torch.profiler "
            "disturb each other"
        )
        assert from_plain(AgentNotes, plain) == AgentNotes((remark,), 12, ("aten::foo",))
        # Said once in a process, and true for its whole life.
        end = await done(client, request(standin.model("pass"), keep=True))
        plain = json.loads((Path(end.run_folder) / AGENT).read_text())
        assert from_plain(AgentNotes, plain) == AgentNotes((remark,), 0, ("aten::foo",))

    talk(standin.host(NEURON_RT_INSPECT_ENABLE="1", MINE="kept"), conversation)


def test_the_doctors_questions_take_no_core(standin: StandIn) -> None:
    async def conversation(client: AgentClient) -> None:
        environment = await client.environment()
        assert environment.host is not None
        assert (environment.host.core_count, environment.host.holders) == (CORES, ())
        assert [tool.name for tool in environment.host.tools if tool.is_on_path] == ["neuron-ls"]
        assert standin.holders() == [None, None]

    talk(standin.host(), conversation)
