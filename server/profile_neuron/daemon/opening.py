"""Captures of a NeuronCore as a person opens them: which folder is meant, and what there is without a viewer."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from profile_neuron.core import run_folder
from profile_neuron.errors import CaptureError
from profile_neuron.folders import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from profile_neuron.daemon.settings import Settings

_PERFETTO = "https://ui.perfetto.dev"


@dataclass(frozen=True, slots=True)
class Capture:
    """What a person wants to see, and how."""

    # The function that it is of.
    name: str
    folder: str
    # Whose it is.
    root: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class Opening:
    """What became of the wish to see a capture; all empty where nobody is there any more to be told."""

    # Why no page shows it, one sentence.
    problem: str = ""
    # The page that does; empty where there is none.
    url: str = ""
    # The folder that can be opened in its place, where there is no Neuron Explorer.
    folder: str = ""


def note_shown(folders: Iterable[str]) -> None:
    """Say in run folders that their results are shown, so that they stay; those that are gone stay gone."""
    for folder in folders:
        with contextlib.suppress(OSError):
            (Path(folder) / run_folder.SHOWN).touch(mode=0o600)


def capture_folder(name: str) -> Path:
    """The folder that a path or the id of a run means. Raises CaptureError where there is none."""
    given = Path(name).expanduser()
    if given.is_dir():
        return given.resolve()
    runs = cache_folder("runs")
    if given.name == name and (runs / name).is_dir():
        return runs / name
    raise CaptureError(f"{name} is no folder and no run in {runs}; name the folder of a run or of a session")


def title_of(folder: Path) -> str:
    """The function whose run a folder is of; empty where it is of none."""
    try:
        return str(json.loads((folder / run_folder.RECORD).read_text(encoding="utf-8"))["qualname"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def without_viewer(folder: str, why: str) -> Opening:
    """What can be done with a capture all the same."""
    traces = sorted(Path(folder).rglob(run_folder.TRACE))
    also = f", of which {traces[0].relative_to(folder)} opens at {_PERFETTO}" if traces else ""
    return Opening(f"{why}; the capture is in {folder}{also}", folder=folder)
