"""The same conversations with the real agent and with the fake one that stands in for it elsewhere."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from profile_neuron.core.model import Failure, Frame, Holder
from profile_neuron.daemon.agent_client import AgentClient
from profile_neuron.daemon.hosts import LocalHost
from profile_neuron.wire.messages import RunDone, RunFailed, RunOutput, RunProgress, RunWaiting
from tests.conftest import request
from tests.fakes.control import write_interpreter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from profile_neuron.core.model import FunctionCosts
    from profile_neuron.wire.messages import Message, Phase, RunRequest

AGENTS = ["fake", pytest.param("real", marks=pytest.mark.torch)]

# Each sample makes the real agent do what its comment makes the fake one do.
SAMPLES = {
    "plain": """
        import torch
        from profile_neuron import profile_neuron
        @profile_neuron
        def f(x=1):
            y = torch.ones(x)
            y = y + 1; y = y * 2
            return y
    """,
    "raises": """
        from profile_neuron import profile_neuron
        class Block:
            @profile_neuron
            def forward(self=None):
                one = 1
                raise ValueError("no")  # fake: fail ValueError: no
    """,
    "no inputs": """
        from profile_neuron import profile_neuron
        @profile_neuron
        def f(x):  # fake: noinputs
            return x
    """,
    "slow": """
        import time
        from profile_neuron import profile_neuron
        @profile_neuron(warmup=0)
        def f():
            time.sleep(600)
    """,
    "prints": """
        from profile_neuron import profile_neuron
        @profile_neuron(warmup=0, repeats=1)
        def f():  # fake: print 2
            print("f prints 1")
            print("f prints 2")
    """,
    "module": """
        # fake: module sibling.py
        import sibling
        from profile_neuron import profile_neuron
        @profile_neuron
        def f(): ...
    """,
    "busy": """
        from profile_neuron import profile_neuron
        @profile_neuron
        def f(): ...  # fake: busy 4123 2 python train.py
    """,
    "refused": """
        import sys
        from profile_neuron import profile_neuron
        @profile_neuron(warmup=0)
        def f():  # fake: refused
            print("ERROR  NRT:nrt_allocate_neuron_cores  NeuronCore(s) not available", file=sys.stderr)
            raise RuntimeError("no runtime")
    """,
}
HELD = [
    {
        "neuron_device": 0,
        "nc_count": 2,
        "neuroncore_ids": [0, 1],
        "neuron_processes": [{"pid": 4123, "command": "python train.py", "neuroncore_ids": [0, 1]}],
    }
]


@dataclass(frozen=True)
class Conversation:
    """What an agent said to one request."""

    messages: tuple[Message, ...]

    @property
    def end(self) -> RunDone | RunFailed:
        end = self.messages[-1]
        assert isinstance(end, (RunDone, RunFailed))
        return end

    @property
    def costs(self) -> FunctionCosts:
        assert isinstance(self.end, RunDone), self.end
        return self.end.costs.functions[0]

    @property
    def phases(self) -> list[Phase]:
        """Phases in their order; start is only said by a new worker."""
        said = [message.phase for message in self.messages if isinstance(message, RunProgress)]
        return [phase for phase, _ in itertools.groupby(said) if phase != "start"]

    @property
    def output(self) -> list[str]:
        texts = [message.text for message in self.messages if isinstance(message, RunOutput)]
        return [line for text in texts for line in text.split("\n")]


@pytest.fixture(params=AGENTS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> LocalHost:
    """Where an agent of either kind is started."""
    return LocalHost(sys.executable if request.param == "real" else str(write_interpreter(tmp_path)))


@pytest.fixture
def sample(write: Callable[..., Path]) -> Callable[[str], Path]:
    """Write one of the samples as model.py."""
    return lambda name: write("model.py", SAMPLES[name])


def converse(host: LocalHost, wanted: RunRequest, cancel_at: Phase | None = None) -> Conversation:
    """Ask an agent for one run, and cancel it at a phase."""

    async def talk() -> Conversation:
        client = await AgentClient.start(host)
        try:
            messages = []
            async for message in client.run(wanted):
                messages.append(message)
                if isinstance(message, RunProgress) and message.phase == cancel_at:
                    await client.cancel(wanted.run_id)
            return Conversation(tuple(messages))
        finally:
            await client.close()

    return asyncio.run(talk())


def test_a_run_goes_through_its_phases_to_its_costs(host: LocalHost, sample: Callable[[str], Path]) -> None:
    path = sample("plain")
    said = converse(host, request(path))
    assert said.phases == ["import", "inputs", "warm-up", "capture", "read", "attribute"]
    assert isinstance(said.end, RunDone)
    assert said.end.run_folder == ""
    costs, result = said.costs, said.end.costs
    assert (costs.path, costs.qualname, costs.line, costs.last_line) == (str(path), "f", 4, 7)
    assert (costs.state, costs.reason, costs.frames, costs.name, costs.decorated) == ("fresh", None, (), None, True)
    assert costs.calls == result.repeats == 5
    assert result.warmup == 3
    assert costs.device_ns is None
    assert costs.host_ns == sum(line.total_ns for line in costs.lines) + (costs.unattributed_ns or 0)
    assert {line.line for line in costs.lines} <= {5, 6, 7}
    assert {"aten::add"} <= {operator.name for line in costs.lines for operator in line.operators}
    assert [(source.path, source.text, source.package) for source in result.sources] == [
        (str(path), path.read_text(), "")
    ]
    assert result.modules == ()
    assert result.toolchain.device_name == result.device_name
    assert result.toolchain.site_packages != ""
    assert costs.provenance != ""


def test_the_number_of_calls_can_be_asked_for(host: LocalHost, sample: Callable[[str], Path]) -> None:
    said = converse(host, request(sample("plain"), repeats=2))
    assert isinstance(said.end, RunDone)
    assert (said.end.costs.repeats, said.costs.calls) == (2, 2)
    assert max(message.total for message in said.messages if isinstance(message, RunProgress)) == 3


def test_a_file_that_has_changed_is_refused(host: LocalHost, sample: Callable[[str], Path]) -> None:
    path = sample("plain")
    wanted = request(path)
    path.write_text(path.read_text() + "\n")
    said = converse(host, wanted)
    assert isinstance(said.end, RunFailed)
    assert said.end.state == "failed"
    assert said.end.failure.reason == f"{path} changed since the run was asked for; profile again"
    assert said.end.failure.frames == ()
    assert said.phases == ["import"]


def test_a_definition_that_is_not_in_the_file_is_named(host: LocalHost, sample: Callable[[str], Path]) -> None:
    said = converse(host, replace(request(sample("plain")), first_line=29, def_line=30))
    assert isinstance(said.end, RunFailed)
    assert said.end.state == "failed"
    assert said.end.failure.reason.startswith("not-runnable: importing the file did not execute this definition of f")


def test_a_file_that_does_not_parse_is_failed(host: LocalHost, sample: Callable[[str], Path]) -> None:
    path = sample("plain")
    wanted = request(path)
    path.write_text("def f(:\n")
    said = converse(host, replace(wanted, sha256=hashlib.sha256(path.read_bytes()).hexdigest()))
    assert isinstance(said.end, RunFailed)
    assert said.end.state == "failed"
    assert said.end.failure.reason.startswith("SyntaxError: ")
    assert [(frame.path, frame.line) for frame in said.end.failure.frames] == [(str(path), 1)]


def test_a_second_request_while_a_run_is_on_is_refused(
    host: LocalHost, sample: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PN_FAKE_HOLD", "1")
    path = sample("slow")
    first, second = request(path), request(path)

    async def talk() -> None:
        client = await AgentClient.start(host)
        try:
            await client._send(first)
            ends = [message async for message in client.run(second) if isinstance(message, (RunDone, RunFailed))]
            assert ends == [RunFailed(second.run_id, "failed", Failure("the agent is busy with another run"))]
        finally:
            await client.close()

    asyncio.run(talk())


def test_the_environment_is_told(host: LocalHost) -> None:
    async def talk() -> None:
        client = await AgentClient.start(host)
        try:
            environment = await client.environment()
            assert environment.executable == sys.executable
            assert environment.torch
            assert environment.torch_error == ""
            assert environment.devices[0].startswith("cpu (")
        finally:
            await client.close()

    asyncio.run(talk())


def test_a_cancelled_run_says_so(
    host: LocalHost, sample: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PN_FAKE_HOLD", "1")
    wanted = request(sample("slow"))
    said = converse(host, wanted, cancel_at="capture")
    assert isinstance(said.end, RunFailed)
    assert said.end.run_id == wanted.run_id
    assert (said.end.state, said.end.failure.reason, said.end.failure.frames) == ("cancelled", "cancelled", ())


def test_a_function_without_inputs_is_not_run(host: LocalHost, sample: Callable[[str], Path]) -> None:
    said = converse(host, request(sample("no inputs")))
    assert isinstance(said.end, RunFailed)
    assert said.end.state == "noInputs"
    assert said.end.failure.reason.startswith("f needs ")
    assert "add a function f_inputs() to the file" in said.end.failure.reason
    assert said.phases == ["import", "inputs"]


def test_a_function_that_raises_has_a_result_with_its_frame(host: LocalHost, sample: Callable[[str], Path]) -> None:
    path = sample("raises")
    said = converse(host, request(path))
    assert isinstance(said.end, RunDone)
    assert (said.costs.state, said.costs.reason) == ("failed", "ValueError: no")
    text = 'raise ValueError("no")  # fake: fail ValueError: no'
    assert said.costs.frames == (Frame(str(path), 6, "forward", text),)


def test_what_a_run_prints_comes_line_by_line(host: LocalHost, sample: Callable[[str], Path]) -> None:
    wanted = request(sample("prints"))
    said = converse(host, wanted)
    assert said.output == ["f prints 1", "f prints 2"]
    assert {message.run_id for message in said.messages} == {wanted.run_id}  # type: ignore[union-attr]


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a stand-in for neuron-ls say that another process holds both cores, until the file is written anew."""
    told = tmp_path / "neuron-ls.json"
    told.write_text(json.dumps(HELD))
    program = tmp_path / "bin" / "neuron-ls"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat {told}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return told


@pytest.mark.usefixtures("held")
def test_a_run_that_is_not_to_wait_for_a_core_ends_busy(host: LocalHost, sample: Callable[[str], Path]) -> None:
    said = converse(host, request(sample("busy"), when_busy="skip"))
    assert isinstance(said.end, RunFailed)
    assert (said.end.state, said.end.failure) == (
        "busy",
        Failure("device-busy: pid 4123 (python train.py) holds 2 NeuronCores; end it or wait"),
    )
    assert len(said.messages) == 1, "no phase was begun"


def test_a_run_waits_for_a_core_and_says_for_whom(
    host: LocalHost, sample: Callable[[str], Path], held: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PN_FAKE_HOLD", "0")
    wanted = request(sample("busy"))

    async def talk() -> list[Message]:
        client = await AgentClient.start(host)
        try:
            messages = []
            async for message in client.run(wanted):
                messages.append(message)
                if isinstance(message, RunWaiting):
                    held.write_text(json.dumps([{**HELD[0], "neuron_processes": []}]))
            return messages
        finally:
            await client.close()

    first, *others = asyncio.run(talk())
    assert first == RunWaiting(wanted.run_id, (Holder(4123, "python train.py", (0, 1)),))
    assert isinstance(others[-1], RunDone)
    assert not any(isinstance(message, RunWaiting) for message in others)


@pytest.mark.usefixtures("held")
def test_a_run_that_waits_for_a_core_can_be_cancelled(
    host: LocalHost, sample: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PN_FAKE_HOLD", "1")
    wanted = request(sample("busy"))

    async def talk() -> list[Message]:
        client = await AgentClient.start(host)
        try:
            messages = []
            async for message in client.run(wanted):
                messages.append(message)
                if isinstance(message, RunWaiting):
                    await client.cancel(wanted.run_id)
            return messages
        finally:
            await client.close()

    waiting, end = asyncio.run(talk())
    assert isinstance(waiting, RunWaiting)
    assert end == RunFailed(wanted.run_id, "cancelled", Failure("cancelled"))


def test_a_run_for_which_the_runtime_has_no_core_ends_busy(host: LocalHost, sample: Callable[[str], Path]) -> None:
    said = converse(host, request(sample("refused")))
    assert isinstance(said.end, RunFailed)
    assert (said.end.state, said.end.failure.frames) == ("busy", ())
    assert said.end.failure.reason.startswith("device-busy: the Neuron runtime found no free NeuronCore")


def test_modules_that_a_run_imported_are_named(
    host: LocalHost, sample: Callable[[str], Path], write: Callable[..., Path]
) -> None:
    sibling = write("sibling.py", "x = 1\n")
    said = converse(host, request(sample("module")))
    assert isinstance(said.end, RunDone)
    assert [(item.path, len(item.sha256)) for item in said.end.costs.modules] == [(str(sibling), 64)]
