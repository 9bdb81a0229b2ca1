"""What the corpus consists of: its files, the profiled functions in them, and the request for each."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from expectations import read
from profile_neuron.core.discovery import DEFAULT_MODULES, discover
from profile_neuron.core.project import module_place
from profile_neuron.wire.messages import Limits, RunRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expectations import Expectations
    from profile_neuron.core.model import FunctionSpec

HERE = Path(__file__).resolve().parent
# The project of all cases; what lies outside of it, such as the operators, is nobody's line.
CASES = HERE / "cases"

# More than one, so that an average over the calls is an average.
_REPEATS = 2


def files() -> list[Path]:
    """All files of the corpus, helpers included."""
    return sorted(CASES.rglob("*.py"))


def expectations() -> dict[Path, Expectations]:
    """What the comments of each file say."""
    return {path: read(path) for path in files()}


def functions() -> Iterator[tuple[Path, FunctionSpec]]:
    """Every profiled function with its file."""
    for path in files():
        package = module_place(path, Path.exists).package  # type: ignore[arg-type]
        for spec in discover(path.read_text(encoding="utf-8"), DEFAULT_MODULES, package):
            yield path, spec


def request(path: Path, spec: FunctionSpec, run_folder: str = "") -> RunRequest:
    """The request that the command line would send for a function."""
    return RunRequest(
        run_id=f"corpus-{path.stem}-{spec.def_line}",
        path=str(path),
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        qualname=spec.qualname,
        first_line=spec.first_line,
        def_line=spec.def_line,
        repeats=_REPEATS,
        device="cpu",
        decorator_modules=DEFAULT_MODULES,
        project_roots=(str(CASES),),
        cwd=str(CASES),
        limits=Limits(import_s=120.0, run_s=60.0),
        run_folder=run_folder,
    )
