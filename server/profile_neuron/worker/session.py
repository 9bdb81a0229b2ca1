"""The worker's conversation with its agent: hello, then one request at a time."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import importlib.metadata
import os
import platform
import signal
import sys
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from profile_neuron import __version__
from profile_neuron.core.model import Failure
from profile_neuron.wire.codec import Decoder, encode
from profile_neuron.wire.messages import (
    PROTOCOL_VERSION,
    Captured,
    Detail,
    Environment,
    EnvironmentRequest,
    Hello,
    Message,
    RunFailed,
    RunProgress,
    RunRequest,
)
from profile_neuron.wire.stdio import MAGIC, end_of_output, write_all
from profile_neuron.worker import neuron, runner, torch_host
from profile_neuron.worker.descriptors import moved_up
from profile_neuron.worker.failures import RunStopped, describe, raised_in
from profile_neuron.worker.line_clock import default_clock
from profile_neuron.worker.loader import Loader
from profile_neuron.worker.stack import StackFile
from profile_neuron.worker.state import ProcessState, Streams

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profile_neuron.wire.messages import Phase

_READ_BYTES = 1 << 16
# From linux/prctl.h.
_PR_SET_PDEATHSIG = 1


def serve(reader: BinaryIO, writer: BinaryIO) -> None:
    """Answer requests until the agent closes the wire."""
    _end_with_the_agent()
    reader, writer = moved_up(reader, "rb"), moved_up(writer, "wb")
    session = _Session(writer)
    writer.write(MAGIC)
    session.send(Hello(PROTOCOL_VERSION, "worker", __version__, platform.python_version()))
    # No .pyc beside the user's files; what is imported of the project is compiled anew for each run.
    sys.dont_write_bytecode = True
    for message in _messages(reader):
        if isinstance(message, RunRequest):
            session.run(message)
        elif isinstance(message, EnvironmentRequest):
            session.send(environment(message.details))


def _end_with_the_agent() -> None:
    """Have the kernel end this process when the agent is killed, who then cannot do it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _messages(reader: BinaryIO) -> Iterator[Message]:
    decoder = Decoder()
    while piece := reader.read(_READ_BYTES):
        yield from decoder.feed(piece)


class _Session:
    def __init__(self, writer: BinaryIO) -> None:
        self._writer = writer
        self._pid = os.getpid()
        # Version of torch; None until it was imported, which is done once. No user code runs before that.
        self._torch: str | None = None
        self._state: ProcessState | None = None
        self._streams = Streams()
        self._loader = Loader(self._streams)
        # Path and hash of project files that were executed here. If one of them does not load later, it is because
        # it cannot be executed twice in one process.
        self._loaded: set[tuple[str, str]] = set()
        self._stack = StackFile()
        # A process that user code forks must not speak for us.
        os.register_at_fork(after_in_child=writer.close)

    def send(self, message: Message) -> None:
        write_all(self._writer, encode(message))

    def run(self, request: RunRequest) -> None:
        """Carry out one request; whatever happens, exactly one Captured or RunFailed answers it."""
        try:
            self._run(request)
            answer: Captured | RunFailed = Captured(request.run_id)
            self._loaded.update(self._executed())
        except RunStopped as stopped:
            again = stopped.again or (stopped.at_import and self._ran_before(request, stopped))
            answer = RunFailed(request.run_id, stopped.state, stopped.failure, retire=again, again=again)
        except BaseException as error:  # noqa: BLE001 - user code may have broken anything, json included
            self._leave_if_forked()
            self._put_back()
            traceback.print_exc()
            reason = f"the worker failed ({describe(error)}); the traceback is in its output, profile again"
            answer = RunFailed(request.run_id, "failed", Failure(reason), retire=True)
        self._leave_if_forked()
        if not self._put_back():
            answer = replace(answer, retire=True)
        answer = replace(answer, holds_cores=neuron.holds_cores())
        os.write(2, f"{end_of_output(request.run_id)}\n".encode())
        self.send(answer)

    def _run(self, request: RunRequest) -> None:
        def report(phase: Phase, done: int, total: int) -> None:
            self.send(RunProgress(request.run_id, phase, done, total))

        if self._torch is None:
            report("start", 0, 0)
            self._torch = _import_torch()
            self._state = ProcessState()
        os.chdir(request.cwd)
        with self._stack.kept_in(request.run_folder):
            runner.run(request, self._loader, self._torch, report, self._put_back)

    def _executed(self) -> set[tuple[str, str]]:
        return {(path, hashlib.sha256(source).hexdigest()) for path, source in self._loader.executed.items()}

    def _ran_before(self, request: RunRequest, stopped: RunStopped) -> bool:
        """Whether the file that failed to load, the asked one or one that it imports, was loaded here before.

        With other bytes that says something only where the error is not one of its own lines.
        """
        blamed = stopped.failure.frames[-1].path if stopped.failure.frames else request.path
        loaded = {item for item in self._loaded if item[0] == blamed}
        return bool(self._executed() & loaded) or (bool(loaded) and raised_in(stopped.__cause__) != blamed)

    def _put_back(self) -> bool:
        """Undo what user code changed in the process; False where the process has to be replaced instead."""
        # Before its streams are gone.
        flush_output()
        if self._state is None:
            return True
        _end_with_the_agent()
        is_done = self._state.apply()
        self._streams.restore()
        return is_done and not torch_host.left_open()

    def _leave_if_forked(self) -> None:
        """End a child that user code forked and let return into our code."""
        if os.getpid() != self._pid:
            os._exit(0)


def _import_torch() -> str:
    """Import torch and use its profiler once, before the project's folders are on the path."""
    # Otherwise the profiler's library prints two lines into the user's output at each use.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    try:
        version = torch_host.torch_version()
        torch_host.warm_profiler()
        torch_host.note_traced_code()
        # torch leaves 300 000 objects that never go away; the collections between runs need not visit them.
        gc.collect()
        gc.freeze()
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            install = f"install it with: {sys.executable} -m pip install torch==2.13.0"
            if os.path.exists("/dev/neuron0"):  # noqa: PTH110 - nothing of pathlib is needed here
                install = "install torch-neuronx, which brings it, with the command that the doctor shows"
            reason = f"{sys.executable} has no torch; {install}"
        else:
            # torch imports the packages of other devices by itself.
            advice = (
                "reinstall that package, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 to do without its device"
                if "backend extension" in str(error)
                else "reinstall it there"
            )
            reason = f"torch cannot be imported by {sys.executable} ({describe(error)}); {advice}"
        raise RunStopped("failed", Failure(f"not-runnable: {reason}", is_of_interpreter=True)) from error
    return version


def flush_output() -> None:
    """Send on what Python and C still hold back of the run's output."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    try:
        ctypes.CDLL(None).fflush(None)
    except (OSError, AttributeError, TypeError):
        return


def environment(with_details: bool) -> Environment:
    """What this interpreter has, for the doctor."""
    torch_error = ""
    torch = _version("torch")
    devices: tuple[str, ...] = ()
    found = neuron.Found("", 0, "none")
    details: tuple[Detail, ...] = ()
    if torch is not None:
        try:
            torch = torch_host.torch_version()
            devices = torch_host.devices()
            found = neuron.find()
            details = tuple(Detail(*item) for item in neuron.names()) if with_details else ()
        except BaseException as error:  # noqa: BLE001 - a broken installation may raise anything
            torch_error = describe(error)
    return Environment(
        python=platform.python_version(),
        executable=sys.executable,
        platform=platform.platform(),
        torch=torch,
        torch_error=torch_error,
        torch_neuronx=_version("torch-neuronx"),
        msgpack=_version("msgpack"),
        clock=default_clock().name,
        devices=devices,
        neuron_api=found.api,
        neuron_count=found.device_count,
        neuron_reason=found.reason,
        neuron_advice=found.advice,
        details=details,
    )


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
