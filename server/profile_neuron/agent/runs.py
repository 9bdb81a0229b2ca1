"""Makes run folders, private to the user and outside of any project, and removes them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def runs_root() -> Path:
    """The folder of all run folders."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "profile-neuron" / "runs"


def make_run_folder(run_id: str) -> Path:
    """A new, empty folder that only the user can enter. Raises OSError where it cannot be made."""
    root = runs_root()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = root / run_id
    folder.mkdir(mode=0o700)
    return folder


def remove_run_folder(folder: Path) -> None:
    """Remove a run folder with all it holds; one that is gone already is no error."""
    shutil.rmtree(folder, ignore_errors=True)
