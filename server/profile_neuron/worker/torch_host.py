"""torch on the host: profiler windows, the operator table, gradient mode, and ranges for the line clock.

The only file that imports torch, each time inside the function that needs it: a worker without
torch must still be able to say so.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from profile_neuron.core.run_folder import SCHEMA
from profile_neuron.worker.failures import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable

    from profile_neuron.worker.line_clock import Range


def torch_version() -> str:
    """Imports torch. Raises what its import raises."""
    import torch

    return str(torch.__version__)


def devices() -> tuple[str, ...]:
    """Type and name of each device that torch can use, the CPU first."""
    import platform

    import torch

    found = [f"cpu ({platform.processor() or platform.machine()})"]
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and accelerator.is_available():
        kind = accelerator.current_accelerator()
        found.append(f"{kind.type} ({accelerator.device_count()})")
    return tuple(found)


def warm_profiler() -> None:
    """Use the profiler once: its first use imports a large part of torch and takes about a second."""
    with window():
        pass


def range_opener() -> Callable[[str], Range]:
    """What opens a profiler range by name; the fast, private one where this torch has it."""
    try:
        from torch._C._profiler import _RecordFunctionFast

        with _RecordFunctionFast("probe"):
            return _RecordFunctionFast
    except (ImportError, TypeError, RuntimeError):
        return _ReusableRange


class _ReusableRange:
    """torch.profiler.record_function, made anew on each entry since it cannot be entered twice."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[Any] = []

    def __enter__(self) -> None:
        from torch.profiler import record_function

        opened: Any = record_function(self._name)
        opened.__enter__()
        self._open.append(opened)

    def __exit__(self, *error: object) -> None:
        self._open.pop().__exit__(None, None, None)


class Window:
    """One profiled part: what torch.profiler recorded between entering and leaving it."""

    def __init__(self) -> None:
        import torch
        from torch.profiler import ProfilerActivity, profile

        options: dict[str, Any] = {}
        try:
            # Without it operators of threads that user code starts are not recorded at all.
            options["experimental_config"] = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        except (AttributeError, TypeError):
            self.all_threads = False
        else:
            self.all_threads = True
        # Any, since torch leaves these methods untyped.
        self._profile: Any = profile(activities=[ProfilerActivity.CPU], **options)

    def __enter__(self) -> Window:
        self._profile.__enter__()
        self._allow_nested = _refuse_nested_profilers()
        return self

    def __exit__(self, *error: object) -> None:
        self._allow_nested()
        self._profile.__exit__(None, None, None)

    def operator_table(self) -> bytes:
        """Operators and ranges as JSON: names once, then name, thread, start, duration and order per event.

        Start in nanoseconds since the epoch. Taken from the profiler's own result, since building
        prof.events() costs ten times as much.
        """
        results = self._profile.profiler.kineto_results
        names: dict[str, int] = {}
        rows = [
            (
                names.setdefault(event.name(), len(names)),
                event.device_resource_id(),
                event.start_ns(),
                event.duration_ns(),
                event.correlation_id(),
            )
            for event in results.events()
            if event.activity_type() == "cpu_op" or event.name().startswith("pn.")
        ]
        table = {"schema": SCHEMA, "source": "torch.profiler", "names": list(names), "events": rows}
        return json.dumps(table, separators=(",", ":")).encode()

    def export(self, path: str) -> None:
        """Write torch's own trace.json."""
        self._profile.export_chrome_trace(path)


def _refuse_nested_profilers() -> Callable[[], None]:
    """Make a profiler that user code starts inside of ours an error at its line; gives what undoes that.

    torch itself lets both run into each other and ends the process with a segmentation fault.
    """
    from torch.autograd import profiler

    kind: Any = profiler.profile
    original = getattr(kind, "_prepare_trace", None)
    if original is None:
        return lambda: None

    def refuse(self: object) -> None:
        raise Conflict(
            "torch.profiler was started inside a function that profile-neuron is profiling, and torch runs one "
            "profiler at a time; leave the inner one out"
        )

    kind._prepare_trace = refuse

    def undo() -> None:
        kind._prepare_trace = original

    return undo


def window() -> Window:
    """A new profiler window over the CPU and all threads."""
    return Window()


def gradient_mode(grad: bool) -> AbstractContextManager[Any]:
    """Around the calls: nothing, or no_grad where the decorator says grad=False."""
    if grad:
        return nullcontext()
    import torch

    mode: AbstractContextManager[Any] = torch.no_grad()
    return mode


class TorchState:
    """torch's process-wide settings as they were when this was made."""

    def __init__(self) -> None:
        import torch

        self._dtype = torch.get_default_dtype()
        self._device = torch.get_default_device()
        self._threads = torch.get_num_threads()
        self._precision = torch.get_float32_matmul_precision()

    def restore(self) -> bool:
        """Put back what user code changed; False where that cannot be done and the process has to go."""
        import torch

        torch.set_default_dtype(self._dtype)
        torch.set_default_device(None)
        torch.set_grad_enabled(True)
        torch.set_anomaly_enabled(False)
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision(self._precision)
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        # Modes that were entered and never left, and hooks on all modules, cannot be had from here.
        left_on = torch.is_inference_mode_enabled() or torch.is_autocast_enabled("cpu")
        return not left_on and not _modes_left() and bool(torch.get_default_device() == self._device)


def _modes_left() -> bool:
    """Whether a mode is still pushed or a hook for all modules registered, by torch's private counts."""
    import torch
    from torch.nn.modules import module

    counts = (getattr(torch._C, name, None) for name in ("_len_torch_dispatch_stack", "_len_torch_function_stack"))
    hooks = (getattr(module, name) for name in dir(module) if name.startswith("_global_") and name.endswith("_hooks"))
    return any(count is not None and count() for count in counts) or any(hooks)


def is_compiled(target: object) -> bool:
    """Whether calling this object goes through torch.compile first."""
    return hasattr(target, "_torchdynamo_orig_callable") or type(target).__name__ == "OptimizedModule"


def forget_compiled_code() -> None:
    """Drop what torch.compile kept of the last run's code, where it was used at all."""
    import sys

    if "torch._dynamo" in sys.modules:
        import torch

        torch._dynamo.reset()


def has_compiled() -> bool:
    """Whether torch.compile took up code since forget_compiled_code: what it inlines is not entered."""
    import sys

    frames: Any = sys.modules.get("torch._dynamo.convert_frame")
    # Unknown where this torch has no such record.
    return frames is not None and bool(getattr(getattr(frames, "input_codes", None), "seen", True))
