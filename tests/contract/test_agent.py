"""Conversations with a real agent: hello, limits, cancelling, and what is left when the wire closes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from profile_neuron.core.launch import isolated_command
from profile_neuron.daemon import agent_client
from profile_neuron.daemon.agent_client import AgentClient
from profile_neuron.daemon.agents import Agents
from profile_neuron.daemon.hosts import LocalHost, packages_folder
from profile_neuron.daemon.interpreters import Place
from profile_neuron.errors import AgentError, AgentLostError, HostError
from profile_neuron.folders import cache_folder
from profile_neuron.wire.codec import Decoder, encode
from profile_neuron.wire.messages import (
    PROTOCOL_VERSION,
    Cancel,
    Hello,
    Limits,
    Message,
    ReportFailed,
    ReportRequest,
    RunDone,
    RunFailed,
    RunOutput,
    RunProgress,
    RunRequest,
)
from profile_neuron.wire.stdio import MAGIC
from tests.conftest import case, request

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

SLOW = """
import os, subprocess, sys, time
from profile_neuron import profile_neuron
@profile_neuron
def f():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("pids", os.getpid(), child.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def slow(write: Callable[..., Path]) -> Path:
    """A function that starts a child and never ends."""
    return write("slow.py", SLOW)


# What user code can do to get out of the worker's process group.
ESCAPES = {
    "session": 'subprocess.Popen(["sleep", "600"], start_new_session=True).pid',
    "session of a fork": "fork_away()",
    "daemon": 'int(subprocess.check_output(["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & echo $!"]))',
}
# Operators enough that the report on them takes a while.
MANY = """
import torch
from profile_neuron import profile_neuron
@profile_neuron(warmup=0, repeats=1)
def f():
    x = torch.ones(2)
    for _ in range(10_000):
        x = x + 1
"""
ESCAPING = """
import os, subprocess, time
from profile_neuron import profile_neuron

def fork_away():
    child = os.fork()
    if child == 0:
        os.setsid()
        os.execvp("sleep", ["sleep", "600"])
    return child

@profile_neuron
def f():
    print("pids", os.getpid(), {escape}, flush=True)
    {then}
"""


def run_with_agent(conversation: Callable[[AgentClient], Coroutine[Any, Any, None]]) -> None:
    async def talk() -> None:
        client = await AgentClient.start(LocalHost(sys.executable))
        try:
            await conversation(client)
        finally:
            await client.close()

    asyncio.run(talk())


async def last(client: AgentClient, wanted: RunRequest) -> Message:
    """The message that ends a run."""
    return [message async for message in client.run(wanted)][-1]


def ended(pid: int, limit_s: float) -> bool:
    """Whether a process is gone within a time; told by the kernel and not by asking again and again."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            return bool(select.select([descriptor], [], [], limit_s)[0])
        finally:
            os.close(descriptor)
    return True


def pids(message: RunOutput) -> list[int]:
    return [int(word) for word in message.text.split()[1:]]


def children(pid: int) -> list[int]:
    """Processes that a process started, without its threads."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def agent_of(client: AgentClient) -> int:
    """The agent itself; on Linux the process that its client knows is its keeper."""
    started = client._process.pid
    return children(started)[0] if sys.platform == "linux" else started


def waiting_report(agent: int) -> int:
    """The process of an agent that waits for the next run folder."""
    (found,) = [pid for pid in children(agent) if b"profile_neuron.report" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found


def start_agent() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        LocalHost(sys.executable).command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_the_agent_says_hello_first() -> None:
    agent = start_agent()
    assert agent.stdout is not None
    decoder, messages = Decoder(), []
    while not messages:
        messages += decoder.feed(agent.stdout.read1())  # type: ignore[attr-defined]
    (hello,) = messages
    assert isinstance(hello, Hello)
    assert (hello.protocol, hello.role) == (PROTOCOL_VERSION, "agent")
    agent.communicate(timeout=10)
    assert agent.returncode == 0


def test_garbage_on_the_wire_ends_the_agent_with_one_line_in_its_log() -> None:
    agent = start_agent()
    _, log = agent.communicate(MAGIC + b"\x00\x00\x00\x02\xc1\xc1", timeout=30)
    assert agent.returncode == 0
    assert b"the server broke the wire: a frame is not msgpack" in log
    assert b"Traceback" not in log


@pytest.mark.torch
def test_cancelling_a_run_ends_its_processes_and_the_next_run_works(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    async def conversation(client: AgentClient) -> None:
        wanted = request(slow)
        started: list[int] = []
        async for message in client.run(wanted):
            if isinstance(message, RunOutput) and "pids" in message.text:
                started = pids(message)
                await client.cancel("another run")
                await client.cancel(wanted.run_id)
        assert isinstance(message, RunFailed)
        assert (message.state, message.failure.reason) == ("cancelled", "cancelled")
        assert all(ended(pid, 2.0) for pid in started)
        assert len(started) == 2
        assert list(cache_folder("runs").iterdir()) == [], "no run folder is left"
        message = await last(client, request(case("R12") / "argv.py", decorator_modules=("pn_api",)))
        assert isinstance(message, (RunDone, RunFailed))
        assert message.run_id != wanted.run_id

    run_with_agent(conversation)


def test_cancelling_what_does_not_run_is_no_error() -> None:
    async def conversation(client: AgentClient) -> None:
        await client._send(Cancel("nothing"))
        assert (await client.environment()).executable == sys.executable

    run_with_agent(conversation)


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt its orphans")
@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("end", ["cancel", "crash", "limit", "close"])
def test_a_process_that_left_the_group_is_ended_too(end: str, escape: str, write: Callable[..., Path]) -> None:
    then = "os._exit(3)" if end == "crash" else "time.sleep(600)"
    path = write("model.py", ESCAPING.format(escape=ESCAPES[escape], then=then))
    started: list[int] = []

    async def talk() -> None:
        client = await AgentClient.start(LocalHost(sys.executable))
        limits = Limits(60.0, 3.0 if end == "limit" else 60.0)
        wanted = request(path, "f", limits=limits)
        async for message in client.run(wanted):
            if isinstance(message, RunOutput) and "pids" in message.text:
                started.extend(pids(message))
                if end == "cancel":
                    await client.cancel(wanted.run_id)
                if end == "close":
                    break
        if end != "close":
            assert all(ended(pid, 2.0) for pid in started)
        await client.close()

    asyncio.run(talk())
    assert len(started) == 2
    assert all(ended(pid, 2.0) for pid in started)


@pytest.mark.torch
def test_closing_the_wire_ends_everything(slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    started: list[int] = []

    async def talk() -> None:
        client = await AgentClient.start(LocalHost(sys.executable))
        async for message in client.run(request(slow)):
            if isinstance(message, RunOutput) and "pids" in message.text:
                started.extend(pids(message))
                break
        await client.close()

    asyncio.run(talk())
    assert len(started) == 2
    assert all(ended(pid, 2.0) for pid in started)
    assert list(cache_folder("runs").iterdir()) == [], "no run folder is left"


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
@pytest.mark.parametrize("escape", ["none", *ESCAPES])
@pytest.mark.parametrize("killed", ["agent", "keeper", "agent with SIGTERM"])
def test_an_agent_that_is_killed_leaves_no_process(
    killed: str, escape: str, slow: Path, write: Callable[..., Path]
) -> None:
    path = slow if escape == "none" else write("model.py", ESCAPING.format(escape=ESCAPES[escape], then="while 1: ..."))
    started: list[int] = []

    async def conversation(client: AgentClient) -> None:
        with pytest.raises(AgentError, match="the agent ended early; profile again"):  # noqa: PT012 - the loop raises
            async for message in client.run(request(path)):
                if isinstance(message, RunOutput) and "pids" in message.text:
                    agent = agent_of(client)
                    started.extend([*pids(message), waiting_report(agent), agent, client._process.pid])
                    signal_number = signal.SIGTERM if "SIGTERM" in killed else signal.SIGKILL
                    os.kill(client._process.pid if killed == "keeper" else agent, signal_number)
        assert len(started) == 5
        assert all(ended(pid, 2.0) for pid in started)

    run_with_agent(conversation)


@pytest.mark.torch
def test_killing_the_command_line_leaves_no_process(slow: Path) -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "profile_neuron", "run", str(slow)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stderr is not None
    line = next(line for line in command.stderr if "│ pids" in line)
    started = [int(word) for word in line.split()[-2:]]
    if sys.platform == "linux":
        agent = int(Path(f"/proc/{started[0]}/stat").read_text().rpartition(")")[2].split()[1])
        started += [waiting_report(agent), agent]
    command.send_signal(signal.SIGKILL)
    command.wait(10)
    command.stderr.close()
    assert all(ended(pid, 5.0) for pid in started)


@pytest.mark.torch
def test_a_second_request_while_a_run_is_on_is_refused(slow: Path) -> None:
    async def conversation(client: AgentClient) -> None:
        first, second = request(slow), request(slow)
        await client._send(first)
        async for message in client.run(second):
            assert not isinstance(message, RunDone)
        assert isinstance(message, RunFailed)
        assert (message.run_id, message.failure.reason) == (second.run_id, "the agent is busy with another run")

    run_with_agent(conversation)


@pytest.mark.torch
def test_the_worker_stays_warm_between_runs(write: Callable[..., Path]) -> None:
    path = write(
        "model.py",
        """
        import os
        from profile_neuron import profile_neuron
        @profile_neuron(warmup=0, repeats=1)
        def f(): print(os.getpid())
        """,
    )

    async def conversation(client: AgentClient) -> None:
        printed = []
        for _ in range(2):
            async for message in client.run(request(path)):
                if isinstance(message, RunOutput):
                    printed += message.text.split("\n")
        assert len(set(printed)) == 1
        assert len(printed) == 2

    run_with_agent(conversation)


@pytest.mark.torch
def test_a_worker_that_dies_after_its_run_leaves_nobody(write: Callable[..., Path]) -> None:
    path = write(
        "model.py",
        """
        import os, subprocess, threading
        from profile_neuron import profile_neuron
        @profile_neuron(warmup=0, repeats=1)
        def f():
            child = subprocess.Popen(["sleep", "600"])
            print("pids", os.getpid(), child.pid)
            threading.Timer(5.0, os._exit, (0,)).start()
        """,
    )

    async def conversation(client: AgentClient) -> None:
        started: list[int] = []
        async for message in client.run(request(path)):
            if isinstance(message, RunOutput):
                started = pids(message)
        assert isinstance(message, RunDone)
        assert ended(started[0], 30.0), "the timer ends the worker"
        again = await last(client, request(case("R12") / "argv.py", decorator_modules=("pn_api",)))
        assert isinstance(again, (RunDone, RunFailed))
        assert ended(started[1], 2.0), "what it left of its group is ended before the next worker starts"

    run_with_agent(conversation)


@pytest.mark.torch
def test_run_folders_are_removed_unless_they_are_kept(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write("model.py", "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(): ...\n")
    runs = tmp_path / "cache" / "profile-neuron" / "runs"

    async def conversation(client: AgentClient) -> None:
        message = await last(client, request(path))
        assert isinstance(message, RunDone)
        assert (message.run_folder, list(runs.iterdir())) == ("", [])
        message = await last(client, replace(request(path), keep=True))
        assert isinstance(message, RunDone)
        assert [str(folder) for folder in runs.iterdir()] == [message.run_folder]
        files = sorted(item.name for item in (runs / message.run_folder).iterdir())
        assert files == ["agent.json", "lines.json", "operators.json", "run.json", "trace.json"], (
            "all that report needs"
        )

    run_with_agent(conversation)


@pytest.mark.torch
def test_the_run_folder_of_an_agent_that_was_killed_goes_with_the_next_run(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    mark = "from profile_neuron import profile_neuron\n@profile_neuron\n"
    slow = write("slow.py", f"{mark}def f():\n    print('runs', flush=True)\n    import time\n    time.sleep(600)\n")
    quick = write("model.py", f"{mark}def f(): ...\n")
    runs = tmp_path / "cache" / "profile-neuron" / "runs"

    async def until_it_runs(client: AgentClient, wanted: RunRequest) -> None:
        async for message in client.run(wanted):
            if isinstance(message, RunOutput) and "runs" in message.text:
                return

    async def conversation(client: AgentClient) -> None:
        killed = await AgentClient.start(LocalHost(sys.executable))
        busy = await AgentClient.start(LocalHost(sys.executable))
        own, others, kept = request(slow), request(slow), replace(request(quick), keep=True)
        await until_it_runs(killed, own)
        await until_it_runs(busy, others)
        # The one below the keeper; closing waits for the keeper, which ends when that is gone.
        keeper = killed._process.pid
        (agent,) = map(int, Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split())
        os.kill(agent, signal.SIGKILL)
        await killed.close()
        assert sorted(folder.name for folder in runs.iterdir()) == sorted([own.run_id, others.run_id])
        assert isinstance(await last(client, kept), RunDone)
        assert isinstance(await last(client, request(quick)), RunDone)
        assert sorted(folder.name for folder in runs.iterdir()) == sorted([others.run_id, kept.run_id])
        await busy.close()
        assert [folder.name for folder in runs.iterdir()] == [kept.run_id]

    run_with_agent(conversation)


@pytest.mark.torch
def test_an_agent_that_was_killed_between_two_runs_is_replaced_for_the_next_one(write: Callable[..., Path]) -> None:
    path = write("model.py", "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(): ...\n")
    place = Place(str(path.parent), sys.executable, ())

    async def talk() -> None:
        agents = Agents()
        killed = await agents.ready(place)
        assert isinstance(await last(killed, request(path)), RunDone)
        assert await agents.ready(place) is killed, "it stays for the next run"
        killed._process.kill()
        # Its end is known as soon as its pipe closes.
        await killed._drain()
        assert isinstance(await last(await agents.ready(place), request(path)), RunDone)
        await agents.end_all()

    asyncio.run(talk())


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_a_report_waits_outside_of_any_project_and_ends_with_the_wire(write: Callable[..., Path]) -> None:
    path = write("model.py", "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(): ...\n")
    waiting = []

    async def conversation(client: AgentClient) -> None:
        for _ in range(2):
            assert isinstance(await last(client, request(path)), RunDone)
            waiting.append(waiting_report(agent_of(client)))
        assert str(Path(f"/proc/{waiting[0]}/cwd").readlink()) == "/"
        assert os.getpgid(waiting[0]) == waiting[0]
        assert all(ended(pid, 2.0) for pid in children(waiting[0])), "each report was a process of its own"

    run_with_agent(conversation)
    assert waiting[0] == waiting[1]
    assert ended(waiting[0], 2.0)


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_a_waiting_report_that_was_killed_does_not_fail_the_next_run(write: Callable[..., Path]) -> None:
    path = write("model.py", "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(): ...\n")

    async def conversation(client: AgentClient) -> None:
        assert isinstance(await last(client, request(path)), RunDone)
        first = waiting_report(agent_of(client))
        os.kill(first, signal.SIGKILL)
        assert ended(first, 2.0)
        assert isinstance(await last(client, request(path)), RunDone)
        assert waiting_report(agent_of(client)) != first

    run_with_agent(conversation)


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_a_waiting_report_is_no_orphan_of_the_worker(slow: Path) -> None:
    async def conversation(client: AgentClient) -> None:
        wanted, waiting = request(slow), 0
        async for message in client.run(wanted):
            if isinstance(message, RunOutput) and "pids" in message.text:
                waiting = waiting_report(agent_of(client))
                await client.cancel(wanted.run_id)
        assert waiting_report(agent_of(client)) == waiting

    run_with_agent(conversation)


@pytest.mark.torch
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("end", ["cancel", "crash", "close"])
def test_a_report_that_does_not_finish_leaves_nobody_and_the_next_run_works(
    end: str, write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write("model.py", MANY)

    async def conversation(client: AgentClient) -> None:
        wanted = request(path)
        started: list[int] = []
        async for message in client.run(wanted):
            if isinstance(message, RunProgress) and message.phase == "attribute":
                waiting = waiting_report(agent_of(client))
                started = [waiting, *children(waiting)]
                if end == "close":
                    break
                if end == "cancel":
                    await client.cancel(wanted.run_id)
                else:
                    os.kill(started[1], signal.SIGKILL)
        assert len(started) == 2
        if end == "close":
            await client.close()
        assert all(ended(pid, 2.0) for pid in started)
        left = list(cache_folder("runs").iterdir())
        if end == "crash":
            assert isinstance(message, RunFailed)
            assert message.failure.reason.startswith(f"{left[0]}: the report ended with signal 9 (SIGKILL)")
        else:
            assert left == []
        if end == "cancel":
            assert isinstance(message, RunFailed)
            assert message.state == "cancelled"
        if end != "close":
            assert isinstance(await last(client, request(path)), RunDone)

    run_with_agent(conversation)


def start_report() -> subprocess.Popen[bytes]:
    command = isolated_command(sys.executable, "profile_neuron.report.__main__", str(packages_folder()))
    return subprocess.Popen(command, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_report_whose_wire_closes_while_it_waits_ends_without_a_word() -> None:
    report = start_report()
    assert report.communicate(MAGIC, timeout=30) == (MAGIC, b"")
    assert report.returncode == 0


def test_a_run_folder_that_is_gone_is_one_sentence_of_the_report(tmp_path: Path) -> None:
    report = start_report()
    out, log = report.communicate(MAGIC + encode(ReportRequest(str(tmp_path / "gone"))), timeout=30)
    *_, answer = Decoder().feed(out)
    assert isinstance(answer, ReportFailed)
    assert answer.reason.startswith(f"{tmp_path / 'gone'} is not a folder; ")
    assert (report.returncode, log) == (0, b"")


def test_progress_names_the_run(write: Callable[..., Path]) -> None:
    path = write("model.py", "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(x): ...\n")

    async def conversation(client: AgentClient) -> None:
        wanted = request(path)
        progress = []
        async for message in client.run(wanted):
            if isinstance(message, RunProgress):
                progress.append(message.run_id)
        assert isinstance(message, RunFailed)
        assert set(progress) == {wanted.run_id}

    run_with_agent(conversation)


@dataclass(frozen=True, slots=True)
class HostOfBadWorker(LocalHost):
    """Starts an agent whose worker is another script."""

    script: str = ""
    hello_s: float = 30.0

    def command(self) -> list[str]:
        own_path = str(packages_folder())
        boot = (
            "import sys; sys.path[:0] = [sys.argv[1]]; from pathlib import Path; "
            "from profile_neuron.agent.__main__ import main; "
            f"main(worker=Path({self.script!r}), hello_s={self.hello_s})"
        )
        return [self.python, "-I", "-c", boot, own_path]


# A worker that says hello and reads the request, to go on from there.
HELLO = """
import os, sys, time
sys.path[:0] = [sys.argv[1]]
from profile_neuron.wire.codec import Decoder, encode
from profile_neuron.wire.messages import *
from profile_neuron.wire.stdio import MAGIC
wire = os.fdopen(os.dup(1), "wb", buffering=0)
wire.write(MAGIC + encode(Hello({protocol}, "worker", "9", "3")))
decoder, found = Decoder(), []
while not any(isinstance(message, RunRequest) for message in found):
    found += decoder.feed(os.read(0, 65536))
request = found[-1]
"""
GOOD_HELLO = HELLO.format(protocol=PROTOCOL_VERSION)
BAD_WORKERS = {
    "crashes at hello": ("print('no such library'); raise SystemExit(3)", "could not start (exit code 3)"),
    "says why": ("import sys; sys.exit('no such library')", "could not start (exit code 1): no such library"),
    "hangs": ("import time; time.sleep(600)", "did not say hello within 1 s"),
    "hangs with a word": (
        "import sys, time; print('loading', file=sys.stderr, flush=True); time.sleep(600)",
        "did not say hello within 1 s: loading",
    ),
    "is garbage": (
        "import time\nfor _ in range(9000): print('not a protocol at all')\ntime.sleep(600)",
        "did not say hello",
    ),
    "is garbage after the start": (
        "import os, time; os.write(1, b'\\nprofile-neuron wire 1\\n\\0\\0\\0\\2\\xc1\\xc1'); time.sleep(600)",
        "did not say hello (a frame is not msgpack",
    ),
    "is too old": (HELLO.format(protocol=PROTOCOL_VERSION - 1), "speaks another protocol; install profile-neuron"),
    "begins with something else": (
        GOOD_HELLO.replace('Hello(1, "worker", "9", "3")', "EnvironmentRequest()"),
        "began with a EnvironmentRequest message",
    ),
}
# What one does that came up, and how the run ends.
BAD_RUNS = {
    "dies": ("os._exit(5)", "crashed: the worker ended with exit code 5 during importing torch"),
    "writes garbage": (
        "os.write(1, b'\\0\\0\\0\\2\\xc1\\xc1'); time.sleep(600)",
        "the worker broke the wire: a frame is not",
    ),
    "announces a huge frame": ("os.write(1, b'\\xff' * 64); time.sleep(600)", "the worker broke the wire: a frame of"),
    "answers for another run": (
        "wire.write(encode(Captured('other'))); wire.write(encode(RunFailed(request.run_id, 'failed', Failure('own'))))",
        "own",
    ),
    "floods its output and dies": (
        "[os.write(2, b'x' * 99 + b'\\n') for _ in range(300_000)]; os._exit(6)",
        "crashed: the worker ended with exit code 6",
    ),
    "closes the wire": ("wire.close(); os.close(1); time.sleep(600)", "crashed: the wire to the worker was closed"),
}


def bad_worker(tmp_path: Path, text: str, hello_s: float = 30.0) -> HostOfBadWorker:
    script = tmp_path / "bad_worker.py"
    script.write_text(text)
    return HostOfBadWorker(sys.executable, script=str(script), hello_s=hello_s)


@pytest.mark.parametrize("kind", BAD_WORKERS)
def test_a_worker_that_does_not_come_up_is_one_sentence_and_the_next_start_waits(
    kind: str, tmp_path: Path, write: Callable[..., Path]
) -> None:
    path = write("model.py", "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(): ...\n")
    script, sentence = BAD_WORKERS[kind]

    async def talk() -> list[tuple[str, float]]:
        client = await AgentClient.start(bad_worker(tmp_path, script, 1.0 if "hangs" in kind else 30.0))
        seen = []
        try:
            for _ in range(3):
                start_s = time.monotonic()
                message = await last(client, request(path))
                assert isinstance(message, RunFailed)
                seen.append((message.failure.reason, time.monotonic() - start_s))
        finally:
            await client.close()
        return seen

    seen = asyncio.run(talk())
    assert [reason.startswith(f"the worker {sys.executable} {sentence}") for reason, _ in seen] == [True] * 3, seen
    assert seen[1][1] >= 0.5
    assert seen[2][1] >= 1.0


@pytest.mark.parametrize("kind", BAD_RUNS)
def test_a_worker_that_misbehaves_in_a_run_costs_the_worker_and_not_the_agent(
    kind: str, tmp_path: Path, write: Callable[..., Path]
) -> None:
    path = write("model.py", "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(): ...\n")
    script, reason = BAD_RUNS[kind]
    text = f"{GOOD_HELLO}from profile_neuron.core.model import Failure\n{script}\n"

    async def talk() -> None:
        client = await AgentClient.start(bad_worker(tmp_path, text))
        try:
            for _ in range(2):
                messages = [message async for message in client.run(request(path))]
                end = messages[-1]
                assert isinstance(end, RunFailed)
                assert end.failure.reason.startswith(reason)
                printed = sum(len(message.text) for message in messages if isinstance(message, RunOutput))
                assert printed <= 1_010_000
        finally:
            await client.close()

    asyncio.run(talk())


def test_a_pause_before_a_start_can_be_cancelled(tmp_path: Path, write: Callable[..., Path]) -> None:
    path = write("model.py", "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(): ...\n")

    async def talk() -> Message:
        client = await AgentClient.start(bad_worker(tmp_path, "raise SystemExit(3)"))
        try:
            for _ in range(2):
                await last(client, request(path))
            wanted = request(path)
            await client._send(wanted)
            await client.cancel(wanted.run_id)
            return await client._receive()
        finally:
            await client.close()

    assert asyncio.run(talk()).state == "cancelled"  # type: ignore[union-attr]


def bad_python(tmp_path: Path, script: str) -> str:
    """An executable that stands in for an interpreter."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


BAD_AGENTS = {
    "not executable": (None, HostError, "cannot be started"),
    "ends at once": ("exit 3", HostError, r"/python cannot be used \(it ended with exit code 3\); name another"),
    "says why": (
        "echo 'disk is full' >&2; exit 3",
        HostError,
        r"/python cannot be used \(disk is full\); name another",
    ),
    "is no Python": ("exit 0", HostError, r"/python cannot be used \(it ended with exit code 0\)"),
    "is killed": ("kill -9 $$", AgentLostError, "the agent ended early"),
    "is killed below its keeper": ("exit 137", AgentLostError, "the agent ended early"),
    "hangs": ("exec sleep 600", HostError, "did not start an agent within 1 s; profile again, or name another"),
    "floods": ("while :; do echo not a protocol at all; done", AgentError, "does not speak this protocol"),
    "too old": (f"exec {shutil.which('cat')}", AgentError, "speaks another protocol"),
}


@pytest.mark.parametrize("kind", BAD_AGENTS)
def test_an_agent_that_misbehaves_at_hello_is_one_sentence(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "hangs":
        monkeypatch.setattr(agent_client, "_HELLO_S", 1.0)
    script, error, sentence = BAD_AGENTS[kind]
    python = str(tmp_path / "none") if script is None else bad_python(tmp_path, script)
    if kind == "too old":
        old = encode(Hello(PROTOCOL_VERSION + 1, "agent", "9.9", "3.11"))
        (tmp_path / "hello").write_bytes(MAGIC + old)
        python = bad_python(tmp_path, f"cat {tmp_path / 'hello'}; cat >/dev/null")
    with pytest.raises(error, match=sentence):
        asyncio.run(AgentClient.start(LocalHost(python)))


def test_only_what_the_worker_needs_of_ours_is_on_its_path() -> None:
    folder = packages_folder()
    assert sorted(item.name for item in folder.iterdir()) == ["msgpack", "profile_neuron"]
    assert folder.stat().st_mode & 0o077 == 0
    assert packages_folder() == folder, "made once"


def test_a_link_to_something_else_among_our_packages_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    link = packages_folder() / "msgpack"
    link.unlink()
    link.symlink_to(tmp_path)
    with pytest.raises(HostError, match="is not the link that it should be; remove"):
        packages_folder()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_a_cache_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    os.chown(cache_folder("runs"), 12345, 12345)
    with pytest.raises(PermissionError, match="belongs to another user"):
        cache_folder("runs")
