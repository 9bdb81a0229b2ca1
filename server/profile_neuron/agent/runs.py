"""Makes run folders, private to the user and outside of any project, and removes them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from profile_neuron.folders import cache_folder

if TYPE_CHECKING:
    from pathlib import Path


def make_run_folder(run_id: str) -> Path:
    """A new, empty folder that only the user can enter. Raises OSError where it cannot be made."""
    folder = cache_folder("runs") / run_id
    folder.mkdir(mode=0o700)
    return folder


def remove_run_folder(folder: Path) -> None:
    """Remove a run folder with all it holds; one that is gone already is no error."""
    shutil.rmtree(folder, ignore_errors=True)
