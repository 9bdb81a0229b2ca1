"""The folders of runs that are kept: which there are, why they stay, and the removal of what is too much.

Nothing but the folders themselves says whether one is needed, so that agents and editors need not agree on it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profile_neuron.core import run_folder, units
from profile_neuron.core.retention import DAY_S, RETENTION, KeptRun, surplus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# In the folder of a run that is on, and locked by its agent; the lock ends with the agent, however that ends.
OWNED = "owned"

RUNNING = "it is running"
YOUNG = "younger than a day"
NEWEST = "the newest run of its function"
SHOWN = "shown in an editor within a day"

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_RECORD_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run folder of ours, with what its record says of the run; empty texts where it says nothing."""

    folder: Path
    run: KeptRun
    # Path of the file, qualified name, name of the device.
    path: str
    qualname: str
    device: str

    @property
    def reason(self) -> str:
        """Why it is still there."""
        return self.run.protection or f"one of the newest {RETENTION.most}"


def kept_runs(runs: Path, now_s: float) -> tuple[RunEntry, ...]:
    """The run folders in a folder, the newest first.

    Left out, and so left alone, is what is not ours: links, odd names, folders in which no run was recorded.
    """
    found = sorted(filter(None, map(_entry, _subfolders(runs))), key=lambda entry: entry.run.finished_s, reverse=True)
    return tuple(_protected(found, now_s))


def prune(runs: Path, now_s: float) -> None:
    """Remove the oldest run folders until what is there is within the limits."""
    entries = kept_runs(runs, now_s)
    removed = set(surplus([entry.run for entry in entries], now_s))
    for entry in entries:
        if entry.run.run_id in removed:
            remove(entry.folder)


def clean(entries: Sequence[RunEntry]) -> tuple[RunEntry, ...]:
    """Remove all run folders but those of runs that are on; gives the removed ones."""
    idle = tuple(entry for entry in entries if not _is_running(entry.folder))
    for entry in idle:
        remove(entry.folder)
    return idle


def remove(folder: Path) -> None:
    """Remove a run folder; links in it lead nowhere. What cannot be removed stays."""
    # What is large lies in folders, and goes while the record still says that this one is ours.
    for parent in _subfolders(folder):
        shutil.rmtree(parent, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def listing(entries: Sequence[RunEntry]) -> list[str]:
    """A table for a person, without one where there is nothing; texts of a record come without control characters."""
    rows = [
        (
            entry.run.run_id,
            time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.run.finished_s)),
            units.size(entry.run.size_bytes),
            entry.device or "–",
            entry.qualname or "–",
            entry.reason,
        )
        for entry in entries
    ]
    if not rows:
        return []
    table = [("run", "when", "size", "device", "function", "kept because"), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    texts = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)
    return ["".join(char if char.isprintable() else "·" for char in text) for text in texts]


def plain(entry: RunEntry) -> dict[str, Any]:
    """An entry for other programs."""
    return {
        "run_id": entry.run.run_id,
        "folder": str(entry.folder),
        "finished_s": entry.run.finished_s,
        "path": entry.path,
        "qualname": entry.qualname,
        "device": entry.device,
        "size_bytes": entry.run.size_bytes,
        "reason": entry.reason,
    }


def _subfolders(folder: Path) -> list[Path]:
    """The folders in a folder; links are none."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _entry(folder: Path) -> RunEntry | None:
    """What a folder is; None where it is not ours, or gone by now."""
    if not _RUN_ID.fullmatch(folder.name):
        return None
    try:
        record = folder / run_folder.RECORD
        has_record = record.is_file() and not record.is_symlink()
        is_running = _is_running(folder)
        if not (has_record or is_running):
            return None
        said = _said(record) if has_record else {}
        finished_s = (record if has_record else folder).stat().st_mtime
        run = KeptRun(folder.name, finished_s, _size_bytes(folder), RUNNING if is_running else "")
    except OSError:
        return None
    toolchain = said.get("toolchain")
    device = said.get("device_name") or (toolchain.get("device_name") if isinstance(toolchain, dict) else "")
    return RunEntry(folder, run, _text(said.get("path")), _text(said.get("qualname")), _text(device))


def _protected(entries: Sequence[RunEntry], now_s: float) -> Iterator[RunEntry]:
    """Entries, the newest first, with why they stay.

    What an editor shows of a function is mostly its newest result, or after an undo one of the same working day; of
    any other its server says so in the folder.
    """
    seen: set[tuple[str, str]] = set()
    for entry in entries:
        function = (entry.path, entry.qualname)
        is_newest = function not in seen and entry.path != "" and os.path.exists(entry.path)  # noqa: PTH110
        seen.add(function)
        why = YOUNG if now_s - entry.run.finished_s < DAY_S else NEWEST if is_newest else ""
        why = why or (SHOWN if _is_shown(entry.folder, now_s) else "")
        yield replace(entry, run=replace(entry.run, protection=entry.run.protection or why))


def _is_shown(folder: Path, now_s: float) -> bool:
    try:
        return now_s - (folder / run_folder.SHOWN).lstat().st_mtime < DAY_S
    except OSError:
        return False


def _is_running(folder: Path) -> bool:
    # Only on POSIX, as the agents that make these folders are.
    import fcntl

    try:
        lock = os.open(folder / OWNED, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _said(record: Path) -> dict[str, Any]:
    try:
        with record.open("rb") as file:
            said = json.loads(file.read(_RECORD_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _size_bytes(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            total += os.lstat(os.path.join(parent, name)).st_size  # noqa: PTH118 - of many thousand files
    return total
