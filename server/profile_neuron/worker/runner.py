"""One run in the worker: import, inputs, warm-up, profiled calls, and the capture they leave."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import importlib.machinery
import importlib.metadata
import inspect
import os
import sys
import sysconfig
import threading
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import profile_neuron
from profile_neuron.core import run_folder
from profile_neuron.core.model import DeviceCapture, ExecutedFile, Failure, RunRecord, Toolchain
from profile_neuron.core.project import ProjectFiles
from profile_neuron.decorator import DEFAULT_REPEATS, DEFAULT_WARMUP
from profile_neuron.worker import neuron, torch_host
from profile_neuron.worker.failures import RunStopped, failure_of
from profile_neuron.worker.inputs import Arguments, Inputs, check_arguments, find_inputs, positional_names
from profile_neuron.worker.line_clock import LineClock, default_clock
from profile_neuron.worker.rebuild import load_recorded
from profile_neuron.worker.run_files import executed_files, line_log, write_json
from profile_neuron.worker.signature import signature_text
from profile_neuron.worker.targets import Target, find_target, function_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from profile_neuron.wire.messages import Phase, RunRequest
    from profile_neuron.worker.loader import Loaded, Loader

    Report = Callable[[Phase, int, int], None]


def run(request: RunRequest, loader: Loader, torch: str, report: Report, put_back: Callable[[], object]) -> None:
    """Profile one function and leave its capture in the request's run folder.

    report gets the phase, and the calls made and to be made in it; put_back undoes what user code set in the process,
    which is not to apply to our own reading and writing. Raises RunStopped where there is nothing to capture.
    """
    project = project_files(request)
    device = _device(request)
    report("import", 0, 0)
    source = _saved_bytes(request)
    torch_host.forget_compiled_code()
    loader.reach.start(project)
    try:
        loaded = _load(request, source, loader, project)
        prepared = _prepare(request, loaded, project, report)
        _Capture(request, loader, loaded, project, torch, prepared, device).take(report, put_back)
    finally:
        loader.reach.stop()
        # Code that drives a loop of its own may have left it there.
        asyncio._set_running_loop(None)


def _device(request: RunRequest) -> neuron.Found | None:
    """What there is of TorchNeuron; None where nothing but the CPU is to be measured."""
    if request.device == "cpu":
        return None
    found = neuron.find()
    if request.device == "neuron" and not found.device_count:
        advice = f"; {found.advice}" if found.advice else ""
        raise RunStopped("failed", Failure(f"no-device: {found.reason}{advice}; --device cpu measures the CPU"))
    return found


def _load(request: RunRequest, source: bytes, loader: Loader, project: ProjectFiles) -> Loaded:
    try:
        return loader.load(request, source, project)
    except RunStopped:
        raise
    except BaseException as error:
        failure = failure_of(error, project)
        if isinstance(error, ModuleNotFoundError):
            failure = replace(failure, reason=failure.reason + missing_root(error.name or "", request))
        raise RunStopped("failed", failure, at_import=True) from error


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What is called, and with what."""

    target: Target
    # Of one call after the other.
    inputs: Iterator[Arguments]
    # Where they came from, and what they are like, for the reader.
    inputs_source: str
    signature: str
    warnings: tuple[str, ...]


def _prepare(request: RunRequest, loaded: Loaded, project: ProjectFiles, report: Report) -> _Prepared:
    mark = loaded.marks.find(request)
    report("inputs", 0, 0)
    try:
        recorded = load_recorded(request, loaded.module, function_of(mark, request))
        target = find_target(loaded.module, mark, request, project, recorded)
        found = find_inputs(loaded.module, mark, target, request, project, recorded)
    except RunStopped:
        raise
    except BaseException as error:
        raise RunStopped("failed", failure_of(error, project)) from error
    build = _inputs_builder(found, target, request, project)
    first = build()
    return _Prepared(
        target,
        _inputs_of_calls(first, build, mark.options.fresh),
        found.source,
        signature_text(positional_names(target), *first),
        () if isinstance(recorded, str) else tuple(recorded.warnings),
    )


def project_files(request: RunRequest) -> ProjectFiles:
    """Which files count as the user's own in this interpreter."""
    folders = sysconfig.get_paths()
    excluded = {folders[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    excluded.add(str(Path(profile_neuron.__file__).parent))
    return ProjectFiles(request.project_roots, excluded, os.path.exists)


def missing_root(module: str, request: RunRequest) -> str:
    """What to add to a failed import: the folder above the file that holds the module, if there is one."""
    top = module.partition(".")[0]
    for folder in Path(request.path).parents:
        if top and ((folder / top).is_dir() or (folder / f"{top}.py").is_file()):
            return f"; it lies in {folder}, so add that as a project folder: --root {folder}, in an editor projectRoots"
        if str(folder) == request.project_roots[0]:
            break
    return ""


def _saved_bytes(request: RunRequest) -> bytes:
    try:
        source = Path(request.path).read_bytes()
    except OSError as error:
        reason = f"{request.path} cannot be read: {error.strerror or error}"
        raise RunStopped("failed", Failure(reason)) from error
    if hashlib.sha256(source).hexdigest() != request.sha256:
        raise RunStopped("failed", Failure(f"{request.path} changed since the run was asked for; profile again"))
    return source


def _inputs_builder(
    inputs: Inputs, target: Target, request: RunRequest, project: ProjectFiles
) -> Callable[[], Arguments]:
    def build() -> Arguments:
        try:
            built = inputs.build()
        except RunStopped:
            raise
        except BaseException as error:
            raise RunStopped("failed", failure_of(error, project)) from error
        check_arguments(target, built, request.qualname, inputs)
        return built

    return build


def _inputs_of_calls(first: Arguments, build: Callable[[], Arguments], fresh: bool) -> Iterator[Arguments]:
    """The inputs of one call after the other: always the same, or built anew for each."""
    yield first
    while True:
        yield build() if fresh else first


class _Capture:
    """The calls of one function, before and inside the profiler window, and the files they leave."""

    def __init__(
        self,
        request: RunRequest,
        loader: Loader,
        loaded: Loaded,
        project: ProjectFiles,
        torch: str,
        prepared: _Prepared,
        device: neuron.Found | None,
    ) -> None:
        self._request = request
        self._loader = loader
        self._loaded = loaded
        self._project = project
        self._torch = torch
        self._prepared = prepared
        self._target = prepared.target
        options = prepared.target.options
        self._repeats = request.repeats or options.repeats or request.usual_repeats or DEFAULT_REPEATS
        given = (options.warmup, request.usual_warmup, DEFAULT_WARMUP)
        self._warmup = next(count for count in given if count is not None)
        self._found = device
        # Whether there is a device to be measured, which the function may not use all the same.
        self._has_device = device is not None and device.device_count > 0
        if self._has_device and self._warmup < neuron.LEAST_WARMUP:
            self._warmup = neuron.LEAST_WARMUP
        self._neuron: neuron.Capture | None = None
        self._pid = os.getpid()
        self._failure: Failure | None = None
        self._warnings = list(prepared.warnings)

    def take(self, report: Report, put_back: Callable[[], object]) -> None:
        """Make all calls and write the run folder."""
        inputs = self._prepared.inputs
        # A thread that the function starts in a warm-up call and keeps is one that it started.
        earlier_threads = tuple(thread.native_id for thread in threading.enumerate() if thread.native_id is not None)
        warmup = self._warmup
        # The last warm-up call is made under the profiler and the clock, whose own first steps cost time.
        for number in range(warmup - 1):
            report("warm-up", number, warmup)
            self._call(next(inputs))
            if self._failure is not None:
                # The profiled calls will show where it comes from; warming up an error is in vain.
                break
        self._loader.reach.stop()
        folder = Path(self._request.run_folder)
        self._neuron = self._device_window(folder)
        try:
            self._capture(folder, earlier_threads, report, put_back)
        finally:
            if self._neuron is not None:
                self._neuron.collect()

    def _device_window(self, folder: Path) -> neuron.Capture | None:
        """What profiles the device; None where the function has not used it in its warm-up calls."""
        # The profiler itself would take a core, and keep it.
        if self._found is None or not self._has_device or not neuron.holds_cores():
            return None
        try:
            keep = self._request.keep or self._request.keep_device_files
            return neuron.Capture(self._found, self._request.profile_mode, folder, keep)
        except Exception as error:
            raise RunStopped("failed", neuron.start_failure(error, self._request.profile_mode)) from error

    def _capture(
        self, folder: Path, earlier_threads: tuple[int, ...], report: Report, put_back: Callable[[], object]
    ) -> None:
        """The last warm-up call and the profiled ones, and the files that they leave."""
        inputs, warmup = self._prepared.inputs, self._warmup
        window = self._neuron.window if self._neuron is not None else torch_host.window()
        marker = self._neuron.sequences if self._neuron is not None else None
        clock = default_clock()(torch_host.range_opener(), self._project, marker)
        with self._started(window):
            clock.start()
            try:
                if warmup and self._failure is None:
                    report("warm-up", warmup - 1, warmup)
                    self._call_under(clock, next(inputs), None)
                self._profile(clock, inputs, report)
            finally:
                clock.stop()
        put_back()
        if clock.broken:
            self._warnings.append("the function used a profiler of its own; lines after that point may be missing")
        self._warnings += self._device_warnings()
        if not window.all_threads and clock.thread_count > 1:
            self._warnings.append("this torch records only the calling thread; work in other threads is missing")
        report("read", 0, 0)
        (folder / run_folder.OPERATORS).write_bytes(window.operator_table())
        if self._request.keep and not (self._neuron is not None and self._neuron.has_exported):
            # For other viewers, and the fallback where a later version cannot read the table.
            window.export(str(folder / run_folder.TRACE))
        if self._neuron is not None and self._neuron.sequences is not None:
            write_json(folder / run_folder.SEQUENCES, self._neuron.sequences.plain())
        log, unreadable = line_log(clock, self._request.path, self._loader.executed, earlier_threads)
        self._warnings += unreadable
        write_json(folder / run_folder.LINES, log)
        write_json(folder / run_folder.RECORD, self._record(clock, window))

    @contextlib.contextmanager
    def _started(self, window: torch_host.Window) -> Iterator[None]:
        """The profiler, while it runs; what its start fails with is not the function's fault."""
        try:
            window.__enter__()
        except Exception as error:
            if self._neuron is None:
                raise
            raise RunStopped("failed", neuron.start_failure(error, self._request.profile_mode)) from error
        try:
            yield
        finally:
            window.__exit__(None, None, None)

    def _profile(self, clock: LineClock, inputs: Iterator[Arguments], report: Report) -> None:
        for number in range(self._repeats):
            report("capture", number, self._repeats)
            self._call_under(clock, next(inputs), number)

    def _call_under(self, clock: LineClock, built: Arguments, number: int | None) -> None:
        with clock.call(number):
            self._call(built)
        if not clock.still_installed():
            # From then on operators stand on the line that was the last to be seen.
            conflict = Failure(
                f"conflict: {self._request.qualname} took Python's trace function away, which the line clock needs; "
                "run without a debugger, coverage or tracing of your own"
            )
            raise RunStopped("failed", self._failure or conflict)

    def _call(self, built: Arguments) -> None:
        """Call once and use the result up; an error is kept and not raised."""
        args, kwargs = built
        try:
            with torch_host.gradient_mode(self._target.options.grad):
                use_up(self._target.call(*args, **kwargs), self._target.function)
            if self._has_device:
                # What is still waiting when the profiler stops has no time, and an error of it no other place.
                neuron.synchronize()
        except BaseException as error:  # noqa: BLE001 - user code raises what it likes, SystemExit included
            if self._failure is None:
                self._failure = failure_of(error, self._project)
        finally:
            if os.getpid() != self._pid:
                # The function forked and came back in the child, which must not go on in our place.
                os._exit(0)

    def _executed(self, clock: LineClock) -> tuple[ExecutedFile, ...]:
        reach, earlier = self._loader.reach, self._loaded.entered
        entered, traced = None, torch_host.traced_code()
        if earlier is not None and reach.complete and traced is not None:
            entered = [*earlier, *reach.entered, *clock.entered(), *traced]
        return executed_files(self._loader.executed, entered)

    def _device_warnings(self) -> Iterator[str]:
        found = self._found
        if self._has_device:
            return
        if found is not None and found.package:
            yield f"measured on the CPU: {found.reason}"
        for device in torch_host.devices()[1:]:
            yield f"the CPU is measured; of what ran on {device} that is the time to start it"

    def _device_capture(self, window: torch_host.Window) -> DeviceCapture | None:
        """What is known of the capture on a NeuronCore; None where the function did not use one."""
        if self._found is None or not self._has_device:
            return None
        if self._neuron is None or neuron.is_used_by(self._prepared.signature, window.device_categories) is False:
            self._warnings.append("nothing of it ran on a NeuronCore; times are of the CPU")
            return None
        return DeviceCapture(
            self._found.api,
            self._request.profile_mode,
            self._pid,
            neuron.fallback_operators(),
            tuple(self._neuron.remarks),
        )

    def _record(self, clock: LineClock, window: torch_host.Window) -> RunRecord:
        request, target = self._request, self._target
        capture = self._device_capture(window)
        executed = self._executed(clock)
        return RunRecord(
            run_id=request.run_id,
            path=request.path,
            qualname=request.qualname,
            name=target.options.name,
            def_line=request.def_line,
            first_line=request.first_line,
            decorator_modules=request.decorator_modules,
            compiled=any(torch_host.is_compiled(item) for item in target.wrapped),
            is_async=inspect.iscoroutinefunction(target.function) or inspect.isasyncgenfunction(target.function),
            warmup=self._warmup,
            repeats=self._repeats,
            inputs=self._prepared.inputs_source,
            device=capture,
            device_name=torch_host.devices()[0] if capture is None else neuron.device_name(),
            toolchain=Toolchain(
                python=sys.version.split()[0],
                executable=sys.executable,
                site_packages=sysconfig.get_paths().get("purelib", ""),
                torch=self._torch,
                device_kind="neuron" if self._has_device else "cpu",
                device_name=neuron.device_name() if self._has_device else torch_host.devices()[0],
                clock=clock.name,
                packages=_neuron_packages(),
                has_decorator=_has_decorator(),
            ),
            modules=tuple(file for file in executed if file.path != request.path),
            failure=self._failure,
            warnings=tuple(dict.fromkeys(self._warnings)),
            reached=next((file.reached for file in executed if file.path == request.path), ()),
            loading=self._loaded.how,
            signature=self._prepared.signature,
        )


@functools.cache
def _neuron_packages() -> tuple[str, ...]:
    """Names and versions of the installed packages of Neuron that decide how code is compiled and run."""
    found = []
    for name in ("libneuronxla", "neuronx-cc", "nki", "torch-neuronx"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return tuple(found)


@functools.cache
def _has_decorator() -> bool:
    """Whether this package is found without the folder that a worker gets it from."""
    ours = os.path.dirname(os.path.dirname(profile_neuron.__file__))  # noqa: PTH120 - a link stays what it is called
    elsewhere = [entry for entry in sys.path if entry != ours]
    found = importlib.machinery.PathFinder.find_spec("profile_neuron", elsewhere)
    if found is not None and found.origin is not None:
        return True
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        # As an editable installation is found, whose finder is not asked here.
        importlib.metadata.version("profile-neuron")
        return True
    return False


def use_up(result: object, function: object) -> None:
    """Await a coroutine, exhaust a generator, enter and leave a context manager made of one.

    Until then the function has not run to its end.
    """
    if inspect.iscoroutine(result):
        asyncio.run(_discard(result))
    elif inspect.isasyncgenfunction(function):
        if inspect.isasyncgen(result):
            asyncio.run(_exhaust(result))
        elif isinstance(result, AbstractAsyncContextManager):
            asyncio.run(_enter_and_leave(result))
    elif inspect.isgeneratorfunction(function):
        if inspect.isgenerator(result):
            for _ in result:
                pass
        elif isinstance(result, AbstractContextManager):
            with result:
                pass


async def _enter_and_leave(manager: AbstractAsyncContextManager[Any]) -> None:
    async with manager:
        pass


async def _discard(awaitable: Any) -> None:
    # The task's own result is None, since asyncio formats it, and formatting a tensor runs operators.
    await awaitable


async def _exhaust(values: Any) -> None:
    async for _ in values:
        pass
