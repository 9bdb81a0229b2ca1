"""What the worker writes into a run folder beside the profiler's own: the line log, and JSON of our types."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from profile_neuron.core import run_folder
from profile_neuron.core.model import CodeEntries, ExecutedFile, LineLog, RunLine, SourceFile
from profile_neuron.core.plain import to_plain
from profile_neuron.core.project import module_place
from profile_neuron.core.text import decode
from profile_neuron.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from profile_neuron.worker.line_clock import LineClock


def line_log(
    clock: LineClock, own_path: str, executed: Mapping[str, bytes], earlier_threads: tuple[int, ...]
) -> tuple[LineLog, list[str]]:
    """What the clock saw, with the sources as they were executed, and a warning for each that has no text.

    own_path is the profiled file, which is there even if none of its lines ran, as in compiled code.
    """
    files: dict[str, int] = {own_path: 0}
    codes: dict[int, int] = {}
    entries: list[CodeEntries] = []
    entered = clock.entries()
    counts = {id(code): count for code, count in entered}
    for code in [*(code for code, _ in clock.lines), *(code for code, _ in entered)]:
        if id(code) not in codes:
            codes[id(code)] = len(entries)
            file = files.setdefault(code.co_filename, len(files))
            entries.append(CodeEntries(file, code.co_firstlineno, code.co_name, counts.get(id(code), 0)))
    warnings: list[str] = []
    log = LineLog(
        files=tuple(_source_file(path, executed.get(path), warnings) for path in files),
        codes=tuple(entries),
        lines=tuple(RunLine(codes[id(code)], line) for code, line in clock.lines),
        earlier_threads=earlier_threads,
    )
    return log, warnings


def imported_modules(own_path: str, executed: Mapping[str, bytes]) -> tuple[ExecutedFile, ...]:
    """The project files that were executed beside the profiled one, sorted by path."""
    # sorted copies the items in one step; a thread of the function may still be importing.
    return tuple(
        ExecutedFile(path, hashlib.sha256(source).hexdigest())
        for path, source in sorted(executed.items())
        if path != own_path
    )


def write_json(path: Path, value: object) -> None:
    """Write one of our types with the schema's number; paths may hold bytes that are no text."""
    text = json.dumps({"schema": run_folder.SCHEMA, **to_plain(value)})
    path.write_text(text, encoding="utf-8", errors="surrogatepass")


def _source_file(path: str, executed: bytes | None, warnings: list[str]) -> SourceFile:
    package = module_place(Path(path), os.path.exists).package
    try:
        return SourceFile(path, decode(executed if executed is not None else Path(path).read_bytes()), package)
    except (OSError, SourceError) as error:
        warnings.append(f"{path} cannot be shown: {error}")
        return SourceFile(path, "", package)
