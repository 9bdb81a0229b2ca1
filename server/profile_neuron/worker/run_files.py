"""What the worker writes into a run folder beside the profiler's own: the line log, and JSON of our types."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from profile_neuron.core import run_folder
from profile_neuron.core.discovery import spans
from profile_neuron.core.model import CodeEntries, ExecutedFile, LineLog, RunLine, SourceFile
from profile_neuron.core.plain import to_plain
from profile_neuron.core.project import module_place
from profile_neuron.core.text import decode
from profile_neuron.errors import SourceError
from profile_neuron.worker.reach import function_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import CodeType

    from profile_neuron.worker.line_clock import LineClock

# Words that tell that code takes the text or the bytecode of a function, which then counts without being entered.
_CODE_READERS = frozenset({b"jit", b"njit", b"numba", b"triton", b"getsource", b"getsourcelines", b"co_code"})
_WORD = re.compile(rb"[A-Za-z_][A-Za-z_0-9]*")


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


def executed_files(executed: Mapping[str, bytes], entered: Iterable[CodeType] | None) -> tuple[ExecutedFile, ...]:
    """The project files that were executed, sorted by path, with the functions in them that were entered.

    entered is None where that is not known, or where code was read instead of entered: then every function counts.
    """
    # sorted copies the items in one step; a thread of the function may still be importing.
    files = sorted(executed.items())
    known = None if entered is None or any(_reads_code(source) for _, source in files) else function_lines(entered)
    return tuple(
        ExecutedFile(
            path, hashlib.sha256(source).hexdigest(), _all_functions(source) if known is None else known.get(path, ())
        )
        for path, source in files
    )


def write_json(path: Path, value: object) -> None:
    """Write one of our types with the schema's number; paths may hold bytes that are no text."""
    text = json.dumps({"schema": run_folder.SCHEMA, **to_plain(value)})
    path.write_text(text, encoding="utf-8", errors="surrogatepass")


def _reads_code(source: bytes) -> bool:
    return not _CODE_READERS.isdisjoint(_WORD.findall(source))


def _all_functions(source: bytes) -> tuple[int, ...]:
    try:
        return tuple(sorted({span.first_line for span in spans(decode(source))}))
    except SourceError:
        # What CPython executed and we cannot read; its lines are not shown either.
        return ()


def _source_file(path: str, executed: bytes | None, warnings: list[str]) -> SourceFile:
    package = module_place(Path(path), os.path.exists).package
    try:
        return SourceFile(path, decode(executed if executed is not None else Path(path).read_bytes()), package)
    except (OSError, SourceError) as error:
        warnings.append(f"{path} cannot be shown: {error}")
        return SourceFile(path, "", package)
