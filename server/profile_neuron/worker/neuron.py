"""TorchNeuron, by what it has and never by its version: the device, its profiler's settings, its synchronize.

With torch_host.py and tensors.py the only file that imports torch or torch_neuronx, each time inside the function that
needs it. Sources: the profiling guide of SDK 2.31 and newer for NeuronConfig, the source of April 2026 for what came
before it; server/adr/0013 says what is taken for granted.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import inspect
import itertools
import os
import re
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from profile_neuron.core.executions import is_of_device, role
from profile_neuron.core.model import Failure
from profile_neuron.core.run_folder import NEURON, SCHEMA
from profile_neuron.worker import torch_host
from profile_neuron.worker.failures import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# beta: NeuronConfig and NeuronProfiler; april: a profiler whose settings are one string; none: neither.
Api = Literal["beta", "april", "none"]

Mode = Literal["runtime", "device"]

DEVICE = "neuron"
# Fewer leave compilations in the profile, or an empty one.
LEAST_WARMUP = 3

# The settings of the profiler split at these, so that a path with one of them is dropped.
_UNSAFE_PATH = re.compile(r"[:;\s]")
# How back ends say that the device has too little memory.
_OUT_OF_MEMORY = re.compile(r"resource.?exhausted|out of memory|failed to allocate|nrt_tensor_allocate", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Found:
    """What the worker's interpreter has of TorchNeuron."""

    # What torch-neuronx is, for a person; empty where it is not installed.
    package: str
    # NeuronCores that can be used; 0 where there is no device.
    device_count: int
    api: Api
    # Why nothing can be run on a NeuronCore, one sentence without its period; empty where it can.
    reason: str = ""
    # What mends that; empty where only another machine does.
    advice: str = ""


def find() -> Found:
    """Look for TorchNeuron and a device, without taking a core; torch has to be importable."""
    import torch

    version = _version()
    package = f"torch-neuronx {version}" if version else ""
    module: Any = getattr(torch, DEVICE, None)
    if module is None:
        return _without_backend(package)
    try:
        count = int(module.device_count()) if module.is_available() else 0
    except Exception as error:  # noqa: BLE001 - a driver that does not fit may raise anything
        return Found(package, 0, _api(), f"{package} cannot ask for its devices ({describe(error)})", "neuron-ls")
    if not count:
        return Found(package, 0, _api(), f"{package or 'TorchNeuron'} finds no Neuron device on this host")
    return Found(package, count, _api())


def names() -> tuple[tuple[str, str], ...]:
    """What TorchNeuron's modules have, by module: a line for each public name, with the signature of what is called.

    To be asked after find, which imports them as far as they can be.
    """
    import torch

    modules = {
        f"torch.{DEVICE}": getattr(torch, DEVICE, None),
        "torch_neuronx": sys.modules.get("torch_neuronx"),
        "torch_neuronx.profiling": sys.modules.get("torch_neuronx.profiling"),
    }
    return tuple((name, "\n".join(_described(module))) for name, module in modules.items() if module is not None)


def _described(owner: Any, prefix: str = "") -> Iterator[str]:
    for name in dir(owner):
        if name.startswith("_"):
            continue
        try:
            item = getattr(owner, name)
            if inspect.ismodule(item):
                continue
            members = getattr(item, "__members__", None)
            yield f"{prefix}{name}{_signature(item)}" + (f": {', '.join(members)}" if members else "")
            if inspect.isclass(item) and not prefix and not members:
                yield from _described(item, f"{name}.")
        except Exception as error:  # noqa: BLE001 - a name that cannot be asked is told all the same
            yield f"{prefix}{name} ({describe(error)})"


def _signature(item: Any) -> str:
    try:
        return str(inspect.signature(item)) if callable(item) else ""
    except (TypeError, ValueError):
        return "(...)"


def holds_cores() -> bool:
    """Whether this process has initialised the Neuron runtime, and so owns its cores until it ends."""
    module: Any = getattr(sys.modules.get("torch"), DEVICE, None)
    initialised = getattr(module, "is_initialized", None)
    try:
        return bool(initialised()) if initialised is not None else module is not None
    except Exception:  # noqa: BLE001 - what cannot be asked may hold one
        return True


def synchronize() -> None:
    """Wait for all that was started on the device; nothing where nothing was. Raises what an execution failed with."""
    if not holds_cores():
        return
    import torch

    for module in (getattr(torch, DEVICE, None), sys.modules.get("torch_neuronx")):
        wait = getattr(module, "synchronize", None)
        if wait is not None:
            wait()
            return


def device_name() -> str:
    """What the device is called, without the number of a core, which may be another one in the next run."""
    import torch

    name = getattr(getattr(torch, DEVICE, None), "get_device_name", None)
    try:
        return str(name(0)) if name is not None else "NeuronCore"
    except Exception:  # noqa: BLE001 - a name is not worth a failure
        return "NeuronCore"


class Capture:
    """The profiler window of a run on a NeuronCore, and the files that come of it."""

    def __init__(self, found: Found, mode: Mode, run_folder: Path, keep: bool) -> None:
        self._found = found
        self._mode = mode
        self._keep = keep
        self._folder = run_folder / NEURON
        self._written = _safe_folder(self._folder)
        self.remarks: list[str] = []
        self.sequences = SequenceLog.make()
        self._export: Any = None
        # Whether torch's trace lies among the files of the Neuron profiler: torch writes it only once.
        self.has_exported = False
        self.window = self._window()
        forget_fallbacks()

    def collect(self) -> None:
        """Put the files of the Neuron profiler into the run folder, where they are not written there."""
        if self._written != self._folder and any(self._written.iterdir()):
            shutil.move(self._written, self._folder)
        elif self._written != self._folder:
            self._written.rmdir()

    def _window(self) -> torch_host.Window:
        if self._found.api == "beta":
            config, all_threads = self._neuron_config()
            return torch_host.Window(config, all_threads, with_device=True, on_ready=self._ready)
        if self._found.api == "april":
            settings = {"profile_output_dir": str(self._written)}
            text = ";".join(f"{name}:{value}" for name, value in settings.items())
            config, all_threads = torch_host.all_threads_config(custom_profiler_config=text)
            if config is not None:
                return torch_host.Window(config, all_threads, with_device=True)
            self.remarks.append("this torch cannot hand settings to the profiler of torch-neuronx")
        return torch_host.Window(*torch_host.all_threads_config(), with_device=True)

    def _neuron_config(self) -> tuple[object, bool]:
        from torch_neuronx import profiling

        modes: Any = getattr(profiling, "ProfileMode", None)
        names = ("DEVICE", "RUNTIME") if self._mode == "device" else ("RUNTIME",)
        wanted: dict[str, object] = {
            "profile_output_dir": str(self._written),
            "neff_cache_dir": os.environ.get("TORCH_NEURONX_NEFF_CACHE_DIR", ""),
            "correlate_device_time": True,
            # Options of torch's own settings, in case that these are handed on.
            "profile_all_threads": True,
            "expose_kineto_event_metadata": True,
        }
        if all(hasattr(modes, name) for name in names):
            wanted["modes"] = [getattr(modes, name) for name in names]
        given = {name: value for name, value in wanted.items() if value != ""}
        accepted = accepted_arguments(profiling.NeuronConfig, given)
        config = profiling.NeuronConfig(**accepted)
        profiler: Any = getattr(profiling, "NeuronProfiler", None)
        self._export = getattr(profiler(config), "export_trace", None) if profiler is not None else None
        if "correlate_device_time" not in accepted:
            self.remarks.append("this torch-neuronx has no correlate_device_time, which links device time to operators")
        return config, "profile_all_threads" in accepted

    def _ready(self, profile: Any) -> None:
        """Export torch's trace where it may hold what the profiler in this process does not, and to be kept."""
        if self._export is None:
            return
        events = profile.profiler.kineto_results.events()
        if self._keep or not any(
            role(event.activity_type()) in ("kernel", "copy", "driver") and event.linked_correlation_id()
            for event in events
        ):
            try:
                self._export(profile)
            except Exception as error:  # noqa: BLE001 - the numbers do not need it
                self.remarks.append(f"torch's trace could not be exported ({describe(error)})")
            else:
                self.has_exported = True


def accepted_arguments(kind: Any, wanted: Mapping[str, object]) -> dict[str, object]:
    """Those of the arguments that a class takes, by its signature; of one without a signature the documented ones."""
    documented = ("modes", "profile_output_dir", "neff_cache_dir")
    try:
        parameters = inspect.signature(kind).parameters
    except (TypeError, ValueError):
        return {name: value for name, value in wanted.items() if name in documented}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        # What it does with a name that it does not list is not known.
        return {name: value for name, value in wanted.items() if name in parameters or name in documented}
    return {name: value for name, value in wanted.items() if name in parameters}


def start_failure(error: BaseException, mode: Mode) -> Failure:
    """Why the profiler could not be started, and what to do."""
    said = describe(error)
    if _OUT_OF_MEMORY.search(said):
        advice = (
            "profiling the device as well reserves about 5 GB of its memory: set profile.mode to runtime, on the "
            "command line --profile-mode runtime, or use smaller inputs"
            if mode == "device"
            else "end what else uses it, or use smaller inputs"
        )
        return Failure(f"out-of-memory: the device has no memory left for the profiler ({said}); {advice}")
    return Failure(f"the Neuron profiler could not be started ({said}); profile-neuron doctor shows what is installed")


def forget_fallbacks() -> None:
    """Have torch-neuronx count anew which operators ran on the CPU instead."""
    clear = getattr(sys.modules.get("torch_neuronx"), "clear_op_tracking", None)
    if clear is not None:
        with contextlib.suppress(Exception):
            clear()


def fallback_operators() -> tuple[str, ...] | None:
    """Operators that ran on the CPU instead since forget_fallbacks, sorted; None where torch-neuronx does not tell."""
    found = _operators("get_fallback_ops")
    return None if found is None else tuple(sorted(found))


def executed_operators() -> tuple[str, ...] | None:
    """Operators that ran on the device since forget_fallbacks; None where torch-neuronx does not tell."""
    return _operators("get_executed_ops")


def _operators(name: str) -> tuple[str, ...] | None:
    ask = getattr(sys.modules.get("torch_neuronx"), name, None)
    if ask is None:
        return None
    try:
        return tuple(map(str, ask()))
    except Exception:  # noqa: BLE001 - a list of names is not worth a failure
        return None


class SequenceLog:
    """Which lines ran from which sequence number of the framework on, so that each line has numbers of its own.

    Without a gradient the number stands still, and the runtime's mapping names an operator by nothing else.
    """

    def __init__(self, bump: Any, number: Any) -> None:
        self._bump = bump
        self._number = number
        self._counter = itertools.count()
        self._stacks: dict[tuple[int, ...], int] = {}
        self._rows: list[tuple[int, int, int | None, int]] = []

    @classmethod
    def make(cls) -> SequenceLog | None:
        """A log; None where this torch does not have the private functions that it takes."""
        import torch

        functions: Any = getattr(torch._C, "_functions", None)
        bump, number = getattr(functions, "UndefinedGrad", None), getattr(torch.autograd, "_get_sequence_nr", None)
        return cls(bump, number) if bump is not None and number is not None else None

    def __call__(self, call: int | None, lines: tuple[int, ...]) -> None:
        """Other lines run from now on, on this thread."""
        self._bump()
        stack = self._stacks.setdefault(lines, next(self._counter))
        self._rows.append((threading.get_native_id(), self._number(), call, stack))

    def plain(self) -> dict[str, object]:
        """For sequences.json, which capture/line_log.py reads."""
        stacks = {number: lines for lines, number in self._stacks.items()}
        return {"schema": SCHEMA, "stacks": [*stacks.items()], "marks": self._rows}


def is_used_by(signature: str, categories: Iterable[str]) -> bool | None:
    """Whether a call used the device, by its inputs and the events there were; None where that cannot be told."""
    if not holds_cores():
        return False
    if f" {DEVICE}" in signature or any(map(is_of_device, categories)):
        return True
    executed = executed_operators()
    return bool(executed) if executed is not None else None


def _safe_folder(folder: Path) -> Path:
    """The folder itself, or another one where its path has what the profiler's settings cannot hold."""
    if not _UNSAFE_PATH.search(str(folder)):
        folder.mkdir(mode=0o700)
        return folder
    place = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="profile-neuron-", dir="/tmp" if _UNSAFE_PATH.search(place) else place))


def _without_backend(package: str) -> Found:
    if importlib.util.find_spec("torch_neuronx") is None:
        return Found("", 0, "none", "torch-neuronx is not installed")
    if _has_profiling_module():
        return Found(package, 0, "none", f"{package} did not register the device {DEVICE} with this torch")
    return Found(
        package or "torch-neuronx",
        0,
        "none",
        f"{package or 'the installed torch-neuronx'} is the XLA package of Trn1 and Inf2, without a device {DEVICE}",
        "TorchNeuron (the torch-neuronx built for torch 2.13 and newer, for Trn2 and Trn3) has one",
    )


def _has_profiling_module() -> bool:
    try:
        return importlib.util.find_spec("torch_neuronx.profiling") is not None
    except Exception:  # noqa: BLE001 - imports the package, which may fail in any way
        return False


def _api() -> Api:
    try:
        from torch_neuronx import profiling
    except Exception:  # noqa: BLE001 - likewise
        return "none"
    if hasattr(profiling, "NeuronConfig"):
        return "beta"
    return "april" if hasattr(profiling, "NeuronProfiler") else "none"


def _version() -> str:
    try:
        return importlib.metadata.version("torch-neuronx")
    except importlib.metadata.PackageNotFoundError:
        return ""
