"""A capture of a small function of our own, which shows what a host's profiler gives and nothing of the user's."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from profile_neuron.core.discovery import DEFAULT_MODULES, discover
from profile_neuron.daemon.runs import request_for
from profile_neuron.folders import cache_folder
from profile_neuron.wire.messages import Limits, RunDone, RunFailed, RunOutput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profile_neuron.core.model import LineCosts
    from profile_neuron.daemon.agent_client import AgentClient

_SOURCE = '''"""An RMSNorm with one operator per line, for a bundle."""

import torch

from profile_neuron import profile_neuron


def inputs():
    neuron = getattr(torch, "neuron", None)
    device = "neuron" if neuron is not None and neuron.is_available() else "cpu"
    x = torch.linspace(-1, 1, 2048).reshape(4, 512).to(torch.bfloat16).to(device)
    return x, torch.ones(512, dtype=torch.bfloat16).to(device)


@profile_neuron(inputs=inputs)
def tiny(x, weight):
    squared = x * x
    mean = squared.mean(-1, keepdim=True)
    shifted = mean + 1e-6
    scale = torch.rsqrt(shifted)
    normalised = x * scale
    return normalised * weight
'''
_LIMITS = Limits(import_s=300.0, run_s=300.0, compile_s=900.0)
_OUTPUT_CHARACTERS = 1 << 18


@dataclass(frozen=True, slots=True)
class TinyCapture:
    """What the run left."""

    # None where it has no result, for the reason beside it.
    costs: LineCosts | None
    reason: str
    # What the worker printed.
    output: str
    # Where the function was written, and the run folder, which may not be there.
    project: Path
    run_folder: Path


@contextlib.contextmanager
def tiny_project() -> Iterator[Path]:
    """A folder with the function's file, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="profile-neuron-bundle-") as folder:
        project = Path(folder).resolve()
        (project / "tiny.py").write_text(_SOURCE, encoding="utf-8")
        yield project


async def capture(client: AgentClient, project: Path) -> TinyCapture:
    """Run the function of a tiny project and keep its run folder, which the caller removes."""
    file = project / "tiny.py"
    (spec,) = discover(_SOURCE, DEFAULT_MODULES)
    run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
    request = request_for(
        run_id,
        str(file),
        hashlib.sha256(file.read_bytes()).hexdigest(),
        spec,
        DEFAULT_MODULES,
        (str(project),),
        str(project),
        _LIMITS,
        keep=True,
        when_busy="skip",
        idle_release_s=0.0,
    )
    costs, reason, output = None, "", ""
    async for message in client.run(request):
        match message:
            case RunOutput(text=text):
                output = f"{output}{text}\n"[:_OUTPUT_CHARACTERS]
            case RunDone(costs=found):
                costs = found
            case RunFailed(failure=failure):
                reason = failure.reason
    return TinyCapture(costs, reason, output, project, cache_folder("runs") / run_id)


def files(folder: Path) -> dict[str, int]:
    """Relative path and size of the files below a folder, sorted; links lead nowhere."""
    found = {}
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if not path.is_symlink():
                found[path.relative_to(folder).as_posix()] = path.stat().st_size
    return dict(sorted(found.items()))


def forget(taken: TinyCapture) -> None:
    """Remove the run folder."""
    if taken.run_folder.is_dir():
        shutil.rmtree(taken.run_folder, ignore_errors=True)
