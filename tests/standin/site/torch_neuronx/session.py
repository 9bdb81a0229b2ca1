"""The profiling API of July 2026: a config for torch.profiler, and what puts the trace into the session directory.

Source: how to profile a workload, SDK 2.31. What export_trace does where there is no directory is not documented.
"""

from __future__ import annotations

import enum
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch._C._profiler import _ExperimentalConfig

from torch_neuronx.native import library

if TYPE_CHECKING:
    from collections.abc import Sequence


class ProfileMode(enum.Enum):
    """What a session records."""

    DEVICE = "DEVICE"
    RUNTIME = "RUNTIME"
    CPU_UTIL = "CPU_UTIL"
    HOST_MEMORY = "HOST_MEMORY"


class UncorrelatedConfig(_ExperimentalConfig):  # type: ignore[misc]
    """The config of a build that cannot link device time to operators."""

    def __init__(
        self,
        modes: Sequence[ProfileMode] = (ProfileMode.DEVICE, ProfileMode.RUNTIME),
        max_events_per_nc: int = 1_000_000,
        capture_enabled_for_nc: str | None = None,
        profile_output_dir: str = "./output",
        neff_cache_dir: str | None = None,
        precache_node_info: bool = True,
    ) -> None:
        super().__init__(
            custom_profiler_config=_options(
                modes=",".join(ProfileMode(mode).value for mode in modes),
                max_events_per_nc=int(max_events_per_nc),
                capture_enabled_for_nc=_cores(capture_enabled_for_nc),
                profile_output_dir=_path("profile_output_dir", profile_output_dir),
                neff_cache_dir=_path("neff_cache_dir", neff_cache_dir),
                precache_node_info=precache_node_info,
                **self._more(),
            )
        )

    def _more(self) -> dict[str, bool]:
        return {}


class NeuronConfig(UncorrelatedConfig):
    """The config of a build that can."""

    def __init__(
        self,
        modes: Sequence[ProfileMode] = (ProfileMode.DEVICE, ProfileMode.RUNTIME),
        max_events_per_nc: int = 1_000_000,
        capture_enabled_for_nc: str | None = None,
        profile_output_dir: str = "./output",
        neff_cache_dir: str | None = None,
        precache_node_info: bool = True,
        correlate_device_time: bool = False,
    ) -> None:
        self._correlate = correlate_device_time
        super().__init__(
            modes, max_events_per_nc, capture_enabled_for_nc, profile_output_dir, neff_cache_dir, precache_node_info
        )

    def _more(self) -> dict[str, bool]:
        return {"correlate_device_time": self._correlate}


class NeuronProfiler:
    """Writes torch's trace beside the Neuron files of the session that just ended."""

    def __init__(self, config: UncorrelatedConfig) -> None:
        self._config = config

    def export_trace(self, prof: Any) -> None:
        """What on_trace_ready is given."""
        folder = library.last_session_folder()
        if not folder:
            sys.stderr.write("Warning: there is no session directory, trace.json is not written\n")
            return
        path = Path(folder) / "trace.json"
        prof.export_chrome_trace(str(path))
        if os.environ.get("STANDIN_NEURON_MODE") == "mapping":
            _add_driver_events(path)


def _options(**values: Any) -> str:
    given = {name: value for name, value in values.items() if value is not None}
    return ";".join(
        f"{name}:{str(value).lower() if value is True or value is False else value}" for name, value in given.items()
    )


def _cores(text: str | None) -> str | None:
    if text is not None and not isinstance(text, str):
        raise TypeError(f"capture_enabled_for_nc is a string such as '0,1,2-5', not a {type(text).__name__}")
    return text


def _path(name: str, path: str | None) -> str | None:
    if path is not None and re.search(r"[:;\s]", str(path)):
        sys.stderr.write(f"Warning: ignored {name}, since {path!r} holds a colon, a semicolon or a blank\n")
        return None
    return path


def _add_driver_events(path: Path) -> None:
    """Executions as events that name nothing but their sequence number."""
    trace = json.loads(path.read_text())
    base_ns = trace["baseTimeNanoseconds"]
    trace["traceEvents"] += [
        {
            "ph": "X",
            "cat": "privateuse1_driver",
            "name": name,
            "pid": device,
            "tid": stream,
            "ts": (start_ns - base_ns) / 1000,
            "dur": (end_ns - start_ns) / 1000,
            "args": {"nrt_sequence_id": sequence_id},
        }
        for name, sequence_id, device, stream, start_ns, end_ns in library.last_session_executions()
    ]
    path.write_text(json.dumps(trace))
