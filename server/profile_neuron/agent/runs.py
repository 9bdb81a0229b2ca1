"""Run folders: made private to the user and outside of any project, and removed, also for agents that were killed.

What is kept of earlier runs is pruned whenever a new folder is made; server/adr/0016 says what stays.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from profile_neuron.core import run_folder
from profile_neuron.core.plain import to_plain
from profile_neuron.folders import cache_folder
from profile_neuron.kept_runs import OWNED, prune

if TYPE_CHECKING:
    from profile_neuron.core.model import AgentNotes


class RunFolder:
    """The folder of one run that is on: remove or keep it when the run is over."""

    def __init__(self, run_id: str) -> None:
        """A new, empty folder that only the user can enter. Raises OSError where it cannot be made."""
        runs = cache_folder("runs")
        _remove_abandoned(runs)
        prune(runs, time.time())
        self.path = runs / run_id
        self.path.mkdir(mode=0o700)
        unlocked = self.path / f"{OWNED}.new"
        self._lock = os.open(unlocked, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Under its name it is never seen without the lock.
        unlocked.rename(self.path / OWNED)

    def remove(self) -> None:
        """Remove it with all it holds; one that is gone already is no error."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def keep(self) -> None:
        """Leave it to whoever wants to look at it."""
        (self.path / OWNED).unlink(missing_ok=True)
        os.close(self._lock)


def leave_notes(folder: str, notes: AgentNotes) -> None:
    """Write into a run folder what the agent has to say of its run. Raises OSError where that fails."""
    plain = {"schema": run_folder.SCHEMA, **to_plain(notes)}
    (Path(folder) / run_folder.AGENT).write_text(json.dumps(plain), encoding="utf-8")


def _remove_abandoned(runs: Path) -> None:
    """Remove the folders of agents that were killed during a run; what was kept stays."""
    for owned in runs.glob(f"*/{OWNED}"):
        try:
            lock = os.open(owned, os.O_WRONLY)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(owned.parent, ignore_errors=True)
        except OSError:
            # Its agent lives, or another one removes it already.
            continue
        finally:
            os.close(lock)
