"""The profiling API of April 2026: a context manager of its own. Source: torch_neuronx/profiling.py of package 0.1.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile

from torch_neuronx.native import library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class NeuronProfiler:
    """torch.profiler and the runtime's own profile around a piece of code."""

    def __init__(
        self,
        pytorch_activities: Sequence[ProfilerActivity] | None = None,
        record_shapes: bool = False,
        pytorch_trace_file: str | None = None,
        neuron_output_dir: str = "./output",
        event_filters: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        options = f"profile_output_dir:{neuron_output_dir}"
        if event_filters and event_filters.get("nc"):
            options += f";capture_enabled_for_nc:{','.join(event_filters['nc'])}"
        self._trace_file = pytorch_trace_file
        self._is_active = False
        self._folder = ""
        self._profile: Any = profile(
            activities=pytorch_activities or [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1],
            record_shapes=record_shapes,
            experimental_config=_ExperimentalConfig(custom_profiler_config=options),
        )

    def start(self) -> None:
        """Begin to record."""
        self._profile.start()
        self._is_active = True

    def stop(self) -> None:
        """End it and write the files."""
        self._profile.stop()
        self._is_active = False
        self._folder = library.last_session_folder()
        if self._trace_file:
            self.export_pytorch_trace(self._trace_file)

    def is_active(self) -> bool:
        """Whether it records."""
        return self._is_active

    def get_nrt_output_directory(self) -> str:
        """The session directory."""
        return self._folder

    def export_pytorch_trace(self, path: str) -> None:
        """Write torch's trace."""
        self._profile.export_chrome_trace(path)

    def __enter__(self) -> NeuronProfiler:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
