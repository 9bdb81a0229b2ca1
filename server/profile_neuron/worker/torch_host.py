"""torch on the host: profiler windows, the operator table, gradient mode, and ranges for the line clock.

torch is imported inside of the functions that need it: a worker without torch must still be able to say so.
"""

from __future__ import annotations

import ctypes
import json
import sys
import zlib
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType
from typing import TYPE_CHECKING, Any

from profile_neuron.core.executions import is_of_device
from profile_neuron.core.run_folder import SCHEMA
from profile_neuron.worker.failures import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

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

    def __init__(
        self,
        config: object | None,
        all_threads: bool,
        with_device: bool = False,
        on_ready: Callable[[Any], None] | None = None,
    ) -> None:
        """config: torch's experimental one or a back end's in its place, and whether it asks for all threads.

        on_ready gets torch's profiler when it has stopped.
        """
        from torch.profiler import ProfilerActivity, profile

        self.all_threads = all_threads
        # Of the events beside operators; known when the operator table was made.
        self.device_categories: set[str] = set()
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.PrivateUse1] if with_device else [])]
        # Any, since torch leaves these methods untyped.
        self._profile: Any = profile(activities=activities, experimental_config=config, on_trace_ready=on_ready)  # type: ignore[arg-type]

    def __enter__(self) -> Window:
        self._profile.__enter__()
        self._allow_nested = _refuse_nested_profilers()
        return self

    def __exit__(self, *error: object) -> None:
        self._allow_nested()
        self._profile.__exit__(None, None, None)

    def operator_table(self) -> bytes:
        """What the profiler holds as JSON, with each name written once; capture/operator_table.py says how.

        Taken from the profiler's own result, since building prof.events() costs ten times as much.
        """
        names: dict[str, int] = {}
        rows, device_rows, threads = [], [], {}
        for event in self._profile.profiler.kineto_results.events():
            category, name = event.activity_type(), event.name()
            number = names.setdefault(name, len(names))
            thread, start_ns, duration_ns = event.device_resource_id(), event.start_ns(), event.duration_ns()
            if category == "cpu_op" or name.startswith("pn."):
                rows.append((number, thread, start_ns, duration_ns, event.correlation_id()))
                if thread not in threads:
                    threads[thread] = event.start_thread_id()
            elif is_of_device(category):
                self.device_categories.add(category)
                kind = names.setdefault(category, len(names))
                facts = names.setdefault(_metadata(event), len(names))
                linked, correlation = event.linked_correlation_id(), event.correlation_id()
                device_rows.append((number, kind, start_ns, duration_ns, linked, correlation, facts))
        table = {
            "schema": SCHEMA,
            "source": "torch.profiler",
            "names": list(names),
            "events": rows,
            "device_events": device_rows,
            "threads": [*threads.items()],
        }
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


def _metadata(event: Any) -> str:
    """What a back end adds to an event, as JSON; empty where this torch or the settings do not give it."""
    read = getattr(event, "metadata_json", None)
    return str(read() or "") if read is not None else ""


def window() -> Window:
    """A new profiler window over the CPU and all threads."""
    return Window(*all_threads_config())


def all_threads_config(**more: object) -> tuple[object | None, bool]:
    """torch's experimental settings with all threads recorded, and whether this torch has that; more of them."""
    import torch

    kind: Any = getattr(torch._C._profiler, "_ExperimentalConfig", None)
    try:
        # Without it operators of threads that user code starts are not recorded at all.
        return kind(profile_all_threads=True, **more), True
    except TypeError:
        return None, False


def gradient_mode(grad: bool) -> AbstractContextManager[Any]:
    """Around the calls: nothing, or no_grad where the decorator says grad=False."""
    if grad:
        return nullcontext()
    import torch

    mode: AbstractContextManager[Any] = torch.no_grad()
    return mode


# Which kernels torch may use: the names in torch._C of what reads a switch, and of what sets it.
_SWITCHES = (
    ("_get_mkldnn_enabled", "_set_mkldnn_enabled"),
    ("_get_mkldnn_deterministic", "_set_mkldnn_deterministic"),
    ("_get_cudnn_enabled", "_set_cudnn_enabled"),
    ("_get_cudnn_benchmark", "_set_cudnn_benchmark"),
    ("_get_cudnn_deterministic", "_set_cudnn_deterministic"),
    ("_get_flash_sdp_enabled", "_set_sdp_use_flash"),
    ("_get_math_sdp_enabled", "_set_sdp_use_math"),
    ("_get_mem_efficient_sdp_enabled", "_set_sdp_use_mem_efficient"),
    ("_get_overrideable_sdp_enabled", "_set_sdp_use_overrideable"),
)
_AUTOCAST_DEVICES = ("cpu", "cuda")


class TorchState:
    """torch's process-wide settings as they were when this was made."""

    def __init__(self) -> None:
        import torch

        # Any, since torch leaves these untyped.
        sharing: Any = torch.multiprocessing
        deterministic: Any = torch.utils.deterministic
        self._dtype = torch.get_default_dtype()
        self._device = _device_that_was_set()
        self._is_grad = torch.is_grad_enabled()
        self._anomaly = (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
        self._determinism = (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        )
        self._threads = torch.get_num_threads()
        self._precision = torch.get_float32_matmul_precision()
        self._fills = deterministic.fill_uninitialized_memory
        self._print_options = dict(vars(torch._tensor_str.PRINT_OPTS))
        self._autocast = {kind: torch.get_autocast_dtype(kind) for kind in _AUTOCAST_DEVICES}
        self._switches = {put: getattr(torch._C, get)() for get, put in _SWITCHES if hasattr(torch._C, get)}
        self._sharing = sharing.get_sharing_strategy()
        self._flushes = _flushes_denormal()

    def apply(self) -> None:
        """Make the settings these ones."""
        import torch

        sharing: Any = torch.multiprocessing
        deterministic: Any = torch.utils.deterministic
        torch.set_default_dtype(self._dtype)
        torch.set_default_device(self._device)
        torch.set_grad_enabled(self._is_grad)
        torch.set_anomaly_enabled(*self._anomaly)
        torch.use_deterministic_algorithms(self._determinism[0], warn_only=self._determinism[1])
        torch.set_float32_matmul_precision(self._precision)
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        deterministic.fill_uninitialized_memory = self._fills
        vars(torch._tensor_str.PRINT_OPTS).update(self._print_options)
        for kind, dtype in self._autocast.items():
            torch.set_autocast_dtype(kind, dtype)
        for put, is_on in self._switches.items():
            getattr(torch._C, put)(is_on)
        sharing.set_sharing_strategy(self._sharing)
        torch.set_flush_denormal(self._flushes)


def left_open() -> bool:
    """Whether a mode that was entered is still on, or a hook on all modules, which cannot be undone from here.

    What set the default device is none.
    """
    import torch

    is_autocast = any(torch.is_autocast_enabled(kind) for kind in _AUTOCAST_DEVICES)
    return torch.is_inference_mode_enabled() or is_autocast or _saves_through_hooks() or _modes_left()


def _saves_through_hooks() -> bool:
    """Whether hooks for saved tensors were entered and not left, by torch's private stack of them."""
    import torch

    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return top is not None and top(True) is not None


def _flushes_denormal() -> bool:
    """Whether this thread takes the smallest numbers for zero, which torch can set and does not tell."""
    smallest = sys.float_info.min
    return smallest / 2 == 0.0


def _modes_left() -> bool:
    """Whether a mode is still pushed or a hook for all modules registered, by torch's private counts."""
    import torch
    from torch.nn.modules import module

    counts = (getattr(torch._C, name, None) for name in ("_len_torch_dispatch_stack", "_len_torch_function_stack"))
    hooks = (getattr(module, name) for name in dir(module) if name.startswith("_global_") and name.endswith("_hooks"))
    expected = int(_device_that_was_set() is not None)
    return sum(count() for count in counts if count is not None) != expected or any(hooks)


def _device_that_was_set() -> Any:
    """What torch.set_default_device was given; None where it was not called."""
    import torch

    context = getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)
    return None if context is None else context.device


def random_state() -> Any:
    """The state of torch's own random numbers on the CPU."""
    import torch

    return torch.get_rng_state()


def set_random_state(state: Any) -> None:
    """Make the random numbers go on from a state."""
    import torch

    torch.set_rng_state(state)


def is_compiled(target: object) -> bool:
    """Whether calling this object goes through torch.compile first."""
    return hasattr(target, "_torchdynamo_orig_callable") or type(target).__name__ == "OptimizedModule"


def what_is_compiled(target: object) -> object | None:
    """What a compiled function or module was made of, without asking it; None where it is not one."""
    if type(target).__name__ == "OptimizedModule":
        made_of: object = vars(target)["_modules"].get("_orig_mod")
        return made_of
    return vars(target).get("_torchdynamo_orig_callable") if type(target) is FunctionType else None


# Code objects that torch.compile took up, a list for each compilation since forget_compiled_code.
_traced: list[list[CodeType]] = []


def note_traced_code() -> None:
    """Have torch.compile tell which code it takes up, inlined functions included; by its private record of that."""
    from torch import _guards

    kind: Any = getattr(_guards, "TracingContext", None)
    if kind is None:
        return
    make = kind.__init__

    def noted(self: Any, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        traced = getattr(self, "traced_code", None)
        if isinstance(traced, list):
            _traced.append(traced)

    kind.__init__ = noted


def forget_compiled_code() -> None:
    """Drop what torch.compile kept of the last run's code, where it was used at all."""
    _traced.clear()
    if "torch._dynamo" in sys.modules:
        import torch

        torch._dynamo.reset()


def traced_code() -> tuple[CodeType, ...] | None:
    """The code that torch.compile took up since forget_compiled_code; None where this torch does not tell."""
    if not has_compiled():
        return ()
    found = tuple(code for codes in _traced for code in codes)
    # Whatever it compiled it took up.
    return found or None


def has_compiled() -> bool:
    """Whether torch.compile took up code since forget_compiled_code: what it inlines is not entered."""
    frames: Any = sys.modules.get("torch._dynamo.convert_frame")
    # Unknown where this torch has no such record.
    return frames is not None and bool(getattr(getattr(frames, "input_codes", None), "seen", True))


def is_name_of_compiled(name: str) -> bool:
    """Whether a global name is one of those that torch.compile puts into the module of what it compiles."""
    return name.startswith(("__builtins_dict__", "__compiled_fn", "__gen_rand_values", "__import_", "__resume_at_"))


def is_tensor(item: object) -> bool:
    """Whether an object is a tensor."""
    import torch

    # Not isinstance, which would ask the object for its class.
    return issubclass(type(item), torch.Tensor)


def tensor_facts(tensor: Any) -> tuple[object | None, tuple[object, ...]]:
    """What a tensor is, and what it holds beside its numbers; None where a change of it could not be seen.

    Its version tells changes, but not those through .data or an array that shares its memory. On the CPU the
    contents do, and reading them takes less time than making them did.
    """
    import torch

    kind = type(tensor)
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or tensor.layout is not torch.strided:
        return None, ()
    try:
        version = tensor._version
    except RuntimeError:
        # Made in inference mode.
        version = None
    contents = None
    if tensor.device.type == "cpu":
        contents = _checksum(tensor)
    elif version is None:
        return None, ()
    # torch.compile notes its own there.
    attributes = {key: value for key, value in tensor.__dict__.items() if not key.startswith("_dynamo")}
    held = (attributes, tensor.grad if tensor.is_leaf else None)
    facts = (
        version, tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype, str(tensor.device),
        tensor.requires_grad, tensor.is_leaf, contents,
    )  # fmt: skip
    return facts, held


def _checksum(tensor: Any) -> int:
    """Of the memory from the first to the last number of a tensor."""
    if not tensor.numel():
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    size_bytes = (last + 1) * tensor.element_size()
    storage = tensor.untyped_storage()
    if tensor.data_ptr() + size_bytes > storage.data_ptr() + storage.nbytes():
        # Its memory was taken away, as sharding does.
        return 0
    return zlib.crc32((ctypes.c_char * size_bytes).from_address(tensor.data_ptr()))


def is_fixed(item: object) -> bool:
    """Whether an object of torch never changes, or only as torch itself does: types, devices, operators, libraries."""
    import torch

    fixed = (torch.dtype, torch.layout, torch.memory_format)
    return isinstance(item, fixed) or type(item).__module__.startswith(
        ("torch._library", "torch.library", "torch._ops")
    )


def object_facts(item: object) -> object | None:
    """What an object of torch without a dictionary is, by value; None where that is not known."""
    import torch

    kind: Any = type(item)
    if kind is torch.device:
        return str(item)
    if kind is torch.Generator and item.device.type == "cpu":  # type: ignore[attr-defined]
        return bytes(item.get_state().tolist())  # type: ignore[attr-defined]
    return None
