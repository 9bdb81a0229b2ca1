"""A stand-in for a Neuron device, constructed: what a process needs in its environment to find it. See README.md."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.standin import build

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = Path(__file__).parent


def environment(mode: str = "kernels", *, cores: Path | None = None, **more: str) -> dict[str, str]:
    """What to add to the environment of a process. Compiles the device where that was not done yet.

    mode: what the profiler tells, as in README.md; xla: the package of the time before, which has no device.
    cores: the folder whose files are the cores; None where nobody else wants one.
    more: further variables. Skips the test where the device cannot be compiled, but fails it in CI.
    """
    if sys.platform != "linux":
        pytest.skip("the stand-in device is for Linux")
    if reason := build.missing():
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    site = FOLDER / ("xla_site" if mode == "xla" else "site")
    added = {
        "PATH": _joined((FOLDER / "bin", Path(sys.executable).parent, os.environ.get("PATH"))),
        "PYTHONPATH": _joined((site, os.environ.get("PYTHONPATH"))),
        "STANDIN_NEURON_LIBRARY": str(build.built()),
        "STANDIN_NEURON_MODE": mode,
    }
    if cores is not None:
        added["STANDIN_NEURON_CORES"] = str(cores)
    return {**added, **more}


def _joined(parts: Iterable[object]) -> str:
    return os.pathsep.join(str(part) for part in parts if part)
