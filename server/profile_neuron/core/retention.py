"""Which of the runs whose folders were kept are too many, too old or too large together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run whose folder is there."""

    run_id: str
    # Seconds since the epoch.
    finished_s: float
    size_bytes: int
    # Why it stays whatever the limits are; empty where it may go.
    protection: str = ""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of what was kept stays; what is protected counts and stays."""

    most: int = 50
    age_s: float = 14 * DAY_S
    size_bytes: int = 5 * 10**9


RETENTION = Retention()


def surplus(runs: Sequence[KeptRun], now_s: float, retention: Retention = RETENTION) -> tuple[str, ...]:
    """Ids of the runs to remove, the oldest first, so that what stays is within the limits as far as it may go."""
    count, size_bytes = len(runs), sum(run.size_bytes for run in runs)
    found = []
    for run in sorted(runs, key=lambda run: (run.finished_s, run.run_id)):
        is_old = now_s - run.finished_s > retention.age_s
        if run.protection or not (is_old or count > retention.most or size_bytes > retention.size_bytes):
            continue
        found.append(run.run_id)
        count -= 1
        size_bytes -= run.size_bytes
    return tuple(found)
