"""An agent that runs nothing: it speaks the real wire and answers every run with costs it makes up.

Row n of a function costs n milliseconds. A comment steers it, in a function's lines for that function, at module
level for every function of the file:

    # fake: fail TEXT         the function fails with this reason, at the line of the comment
    # fake: noinputs          the run ends in the state noInputs
    # fake: crash             this process ends with code 3 in the middle of the run
    # fake: print N           the run prints N lines
    # fake: module NAME.py    the result names this file beside it as executed
    # fake: ms N              the row that begins on this line costs N milliseconds
    # fake: inputs TEXT       the result says that its inputs came from there
    # fake: busy PID N COMMAND
                              a process holds the N NeuronCores; a run that is not to wait ends busy, another one says
                              that it waits, and goes on when it is no longer held
    # fake: refused           the Neuron runtime has no core for the run, which ends busy

A socket whose path is in PN_FAKE_AGENT gets its events and may hold runs; control.py is the other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import platform
import re
import sys
import sysconfig
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgpack

from profile_neuron import __version__
from profile_neuron.core.discovery import anchors, discover, spans
from profile_neuron.core.model import (
    ExecutedFile,
    Failure,
    Frame,
    FunctionCosts,
    FunctionSpan,
    FunctionSpec,
    LineCost,
    LineCosts,
    OperatorCalls,
    OperatorRow,
    SourceFile,
    State,
    Toolchain,
)
from profile_neuron.core.project import module_place
from profile_neuron.core.text import decode, split_lines
from profile_neuron.decorator import DEFAULT_REPEATS, DEFAULT_WARMUP
from profile_neuron.errors import SourceError
from profile_neuron.wire.codec import Decoder, encode
from profile_neuron.wire.messages import (
    PROTOCOL_VERSION,
    Cancel,
    Environment,
    EnvironmentRequest,
    Hello,
    Holder,
    Message,
    Phase,
    RunDone,
    RunFailed,
    RunOutput,
    RunProgress,
    RunRequest,
    RunWaiting,
)
from profile_neuron.wire.stdio import MAGIC, take_over, write_all

if TYPE_CHECKING:
    from collections.abc import Callable

ROW_NS = 1_000_000
OPERATOR = "aten::add"
PYTHON = platform.python_version()
TORCH = "2.13.0+constructed"
DEVICE = "cpu (constructed)"
CLOCK = "settrace"

_DIRECTIVE = re.compile(r"# fake: (fail|noinputs|crash|print|module|ms|inputs|busy|refused)\b ?(.*)")
_INPUTS = "constructed"


@dataclass(frozen=True, slots=True)
class Directive:
    """One steering comment that counts for the function of a run."""

    word: str
    argument: str
    line: int
    # As in a traceback.
    function: str


class Ended(Exception):
    """A run is over before its costs."""

    def __init__(self, answer: RunFailed) -> None:
        super().__init__(answer.failure.reason)
        self.answer = answer


class Control:
    """The test's end of things: it hears of events, and holds runs."""

    def __init__(self) -> None:
        self.hold = os.environ.get("PN_FAKE_HOLD") == "1"
        # The run that is on; empty when none is.
        self.run_id = ""
        self._finished: set[str] = set()
        self._changed = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    async def connect(self, path: str) -> None:
        """Connect to the test, and learn from its first line whether runs are held."""
        stream, self._writer = await asyncio.open_unix_connection(path)
        self._take(await stream.readline())
        self._task = asyncio.create_task(self._read(stream), name="control")

    def tell(self, event: str, **fields: object) -> None:
        """Send one event."""
        if self._writer is not None:
            self._writer.write(json.dumps({"event": event, "pid": os.getpid(), **fields}).encode() + b"\n")

    async def finish(self, run_id: str) -> None:
        """Wait while this run is held."""
        while self.hold and run_id not in self._finished:
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """Send what is left."""
        if self._writer is not None:
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            self._take(line)

    def _take(self, line: bytes) -> None:
        command = json.loads(line or b"{}")
        if "hold" in command:
            self.hold = self.hold if command["hold"] is None else command["hold"]
            self.tell("held", hold=self.hold)
        if "finish" in command:
            self._finished.add(self.run_id if command["finish"] == "*" else command["finish"])
        self._changed.set()


class FakeAgent:
    """One run at a time, as in the real one."""

    def __init__(self, send: Callable[[Message], None], control: Control) -> None:
        self._send = send
        self._control = control
        self._task: asyncio.Task[None] | None = None

    async def handle(self, message: Message) -> None:
        """Take up one message of the server."""
        match message:
            case RunRequest():
                if self._task is not None and not self._task.done():
                    self._control.tell("refused", run_id=message.run_id)
                    self._send(RunFailed(message.run_id, "failed", Failure("the agent is busy with another run")))
                    return
                self._control.run_id = message.run_id
                # Before the test hears of the run, since then it may go on to write the file.
                found = read_or_end(message)
                self._control.tell("started", **asdict(message))
                self._task = asyncio.create_task(self._run(message, found), name=f"run {message.run_id}")
                # One that is cancelled before its first step would not answer.
                await asyncio.sleep(0)
            case Cancel(run_id=run_id):
                self._control.tell("cancelled", run_id=run_id)
                if run_id == self._control.run_id and self._task is not None:
                    self._task.cancel()
            case EnvironmentRequest():
                self._send(environment())

    async def close(self) -> None:
        """Give the run up; nobody is left to be told."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, request: RunRequest, found: tuple[str, FunctionSpec] | Ended) -> None:
        try:
            answer: RunDone | RunFailed = RunDone(request.run_id, await self._costs(request, found), "")
        except Ended as ended:
            answer = ended.answer
        except asyncio.CancelledError:
            answer = failed(request, "cancelled", "cancelled")
        self._control.run_id = ""
        self._send(answer)
        state = answer.state if isinstance(answer, RunFailed) else answer.costs.functions[0].state
        self._control.tell("ended", run_id=request.run_id, state=state)

    async def _costs(self, request: RunRequest, found: tuple[str, FunctionSpec] | Ended) -> LineCosts:
        def report(phase: Phase, total: int = 0) -> None:
            self._send(RunProgress(request.run_id, phase, 0, total))

        await self._wait_for_a_core(request)
        report("import")
        if isinstance(found, Ended):
            raise found
        text, spec = found
        directives = directives_of(text, spec, request)
        words = {directive.word for directive in directives}
        report("inputs")
        if "noinputs" in words:
            name = request.qualname.rpartition(".")[2]
            reason = f"{request.qualname} needs inputs; add a function {name}_inputs() to the file"
            raise Ended(failed(request, reason, "noInputs"))
        if "refused" in words:
            raise Ended(failed(request, "device-busy: the Neuron runtime found no free NeuronCore", "busy"))
        repeats = request.repeats or DEFAULT_REPEATS
        report("warm-up", DEFAULT_WARMUP)
        report("capture", repeats)
        for directive in directives:
            if directive.word == "print":
                for number in range(int(directive.argument)):
                    self._send(RunOutput(request.run_id, f"{request.qualname} prints {number + 1}"))
        # Also without a hold the loop gets a turn here, in which a cancel may come.
        await asyncio.sleep(0)
        await self._control.finish(request.run_id)
        if "crash" in words:
            os._exit(3)
        report("read")
        report("attribute")
        return costs(request, text, spec, directives, repeats)

    async def _wait_for_a_core(self, request: RunRequest) -> None:
        try:
            text, spec = read(request)
        except Ended:
            # Said when the file is imported.
            return
        for directive in directives_of(text, spec, request):
            if directive.word == "busy":
                pid, count, command = directive.argument.split(" ", 2)
                if request.when_busy == "skip":
                    reason = f"device-busy: pid {pid} ({command}) holds {count} NeuronCores; end it or wait"
                    raise Ended(failed(request, reason, "busy"))
                self._send(RunWaiting(request.run_id, (Holder(int(pid), command, tuple(range(int(count)))),)))
                await asyncio.sleep(0)
                await self._control.finish(request.run_id)


def failed(request: RunRequest, reason: str, state: State = "failed") -> RunFailed:
    """The end of a run without costs."""
    return RunFailed(request.run_id, state, Failure(reason))


def environment() -> Environment:
    """What a worker with torch would say."""
    return Environment(
        python=PYTHON,
        executable=sys.executable,
        platform=platform.platform(),
        torch=TORCH,
        torch_error="",
        torch_neuronx=None,
        msgpack=".".join(map(str, msgpack.version)),
        clock=CLOCK,
        devices=(DEVICE,),
    )


def read_or_end(request: RunRequest) -> tuple[str, FunctionSpec] | Ended:
    """What the file says now, or how the run ends because of it."""
    try:
        return read(request)
    except Ended as ended:
        return ended


def read(request: RunRequest) -> tuple[str, FunctionSpec]:
    """The text and the definition that a request is about; refused as the worker would."""
    path = Path(request.path)
    try:
        source = path.read_bytes()
    except OSError as error:
        raise Ended(failed(request, f"{path} cannot be read: {error.strerror}")) from error
    if hashlib.sha256(source).hexdigest() != request.sha256:
        raise Ended(failed(request, f"{path} changed since the run was asked for; profile again"))
    try:
        text = decode(source)
        specs = discover(text, request.decorator_modules, module_place(path, os.path.exists).package)
    except SourceError as error:
        frame = Frame(request.path, error.line or 1, "", "")
        raise Ended(RunFailed(request.run_id, "failed", Failure(f"SyntaxError: {error}", (frame,)))) from error
    for spec in specs:
        if (spec.qualname, spec.def_line, spec.first_line) == (request.qualname, request.def_line, request.first_line):
            return text, spec
    reason = f"not-runnable: importing the file did not execute this definition of {request.qualname}"
    raise Ended(failed(request, reason))


def directives_of(text: str, spec: FunctionSpec, request: RunRequest) -> list[Directive]:
    """The steering comments of the function's own lines and of the module's level."""
    if "# fake: " not in text:
        return []
    lines = split_lines(text)
    inside = {line for span in spans(text, request.decorator_modules) for line in own_lines(lines, span)}
    own = own_lines(lines, spec)
    found = []
    for number, line in enumerate(lines, 1):
        comment = _DIRECTIVE.search(line)
        if comment is not None and (number in own or number not in inside):
            function = spec.qualname.rpartition(".")[2] if number in own else "<module>"
            found.append(Directive(comment[1], comment[2].strip(), number, function))
    return found


def own_lines(lines: list[str], function: FunctionSpec | FunctionSpan) -> range:
    """A function's lines, with the comments below its last statement that are indented like its body."""
    last = function.last_line
    depth = indentation(lines[function.def_line - 1])
    while last < len(lines) and lines[last].lstrip().startswith("#") and indentation(lines[last]) > depth:
        last += 1
    return range(function.first_line, last + 1)


def indentation(line: str) -> int:
    """How many characters of white space a line begins with."""
    return len(line) - len(line.lstrip())


def costs(request: RunRequest, text: str, spec: FunctionSpec, directives: list[Directive], repeats: int) -> LineCosts:
    """The made-up result."""
    path = Path(request.path)
    lines = split_lines(text)
    given = {item.line: int(item.argument) for item in directives if item.word == "ms"}
    times = [
        (anchor.line, given.get(anchor.line, number) * ROW_NS) for number, anchor in enumerate(anchors(text, spec), 1)
    ]
    rows = [LineCost(line, ns, ns, 0, (OperatorCalls(OPERATOR, 1.0),), ns, 0) for line, ns in times]
    host_ns = sum(row.total_ns for row in rows)
    failure = next((item for item in directives if item.word == "fail"), None)
    frames: tuple[Frame, ...] = ()
    if failure is not None:
        frames = (Frame(request.path, failure.line, failure.function, lines[failure.line - 1].strip()),)
    function = FunctionCosts(
        path=request.path,
        qualname=request.qualname,
        name=None,
        line=spec.def_line,
        last_line=spec.last_line,
        decorated=True,
        state="fresh" if failure is None else "failed",
        reason=None if failure is None else failure.argument,
        frames=frames,
        calls=repeats,
        device_ns=None,
        host_ns=host_ns,
        unattributed_ns=0,
        spread_ns=0,
        lines=tuple(rows),
        shared=(),
        operators=(OperatorRow(OPERATOR, float(len(rows)), host_ns, None),),
        warnings=(),
        provenance="constructed by tests/fakes/agent.py",
        fastest_ns=host_ns,
        fastest_spread_ns=0,
    )
    siblings = sorted(path.parent / item.argument for item in directives if item.word == "module")
    return LineCosts(
        device_kind="cpu",
        device_name=DEVICE,
        toolchain=Toolchain(
            python=PYTHON,
            executable=sys.executable,
            torch=TORCH,
            device_kind="cpu",
            device_name=DEVICE,
            clock=CLOCK,
            site_packages=sysconfig.get_paths()["purelib"],
            has_decorator={"0": False, "1": True}.get(os.environ.get("PN_FAKE_DECORATOR", "")),
        ),
        inputs=next((item.argument for item in directives if item.word == "inputs"), _INPUTS),
        warmup=DEFAULT_WARMUP,
        repeats=repeats,
        functions=(function,),
        sources=(SourceFile(request.path, text, module_place(path, os.path.exists).package),),
        modules=tuple(ExecutedFile(str(name), hashlib.sha256(name.read_bytes()).hexdigest()) for name in siblings),
    )


async def serve(reader: BinaryIO, writer: BinaryIO) -> None:
    """Answer until the wire closes."""
    control = Control()
    if "PN_FAKE_AGENT" in os.environ:
        await control.connect(os.environ["PN_FAKE_AGENT"])
    environ = {name: value for name, value in os.environ.items() if name.startswith("PN_")}
    control.tell("hello", argv=sys.argv[1:], cwd=str(Path.cwd()), env=environ)
    stream = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), reader)

    def send(message: Message) -> None:
        # Where nobody reads any more the other direction ends too, and with it this process.
        with contextlib.suppress(BrokenPipeError):
            write_all(writer, encode(message))

    writer.write(MAGIC)
    send(Hello(PROTOCOL_VERSION, "agent", __version__, PYTHON))
    agent, decoder = FakeAgent(send, control), Decoder()
    while piece := await stream.read(1 << 16):
        for message in decoder.feed(piece):
            await agent.handle(message)
    await agent.close()
    control.tell("closed")
    await control.close()


if __name__ == "__main__":
    asyncio.run(serve(*take_over()))
