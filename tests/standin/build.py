"""The extension of the stand-in device: compiled once per source, torch and Python, into the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

SOURCE = Path(__file__).parent / "neuron_device.cpp"


def missing() -> str | None:
    """What is not there that compiling needs, in words; None where all of it is."""
    if shutil.which("g++") is None:
        return "the stand-in device needs g++"
    if importlib.util.find_spec("torch") is None:
        return "the stand-in device needs torch"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "the stand-in device needs Python.h"
    return None


def built() -> Path:
    """The compiled extension. Raises RuntimeError with what the compiler printed."""
    path = _cache() / _key() / f"neuron_device{sysconfig.get_config_var('EXT_SUFFIX')}"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two test runs may want it at once.
    with open(path.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _compile(path)
    return path


def _compile(path: Path) -> None:
    unfinished = path.with_suffix(".unfinished")
    finished = subprocess.run([*_command(), "-o", str(unfinished)], capture_output=True, text=True, check=False)
    if finished.returncode:
        raise RuntimeError(f"the stand-in device could not be compiled:\n{finished.stderr[-4000:]}")
    unfinished.replace(path)


def _command() -> list[str]:
    torch = _torch()
    includes = (torch / "include", torch / "include" / "kineto", sysconfig.get_path("include"))
    libraries = ("c10", "torch_cpu", "torch", "torch_python")
    return [
        "g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-w",
        # What torch itself was compiled with.
        "-DFMT_HEADER_ONLY", "-DUSE_KINETO",
        *(f"-I{folder}" for folder in includes),
        str(SOURCE),
        f"-L{torch / 'lib'}",
        *(f"-l{library}" for library in libraries),
    ]  # fmt: skip


def _torch() -> Path:
    """The folder of torch, which is not imported for it."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _key() -> str:
    version = importlib.metadata.version("torch")
    parts = (SOURCE.read_bytes(), Path(__file__).read_bytes(), str(_torch()).encode(), version.encode())
    return hashlib.sha256(b"\0".join((*parts, sys.version.encode()))).hexdigest()[:16]


def _cache() -> Path:
    # Not XDG_CACHE_HOME, which is a new folder for each run of the tests.
    folder = os.environ.get("STANDIN_NEURON_BUILD") or Path.home() / ".cache" / "profile-neuron-tests"
    return Path(folder) / "neuron_device"
