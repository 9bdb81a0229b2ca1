from __future__ import annotations

import pytest

from profile_neuron.core.retention import DAY_S, KeptRun, Retention, surplus

NOW_S = 1_000 * DAY_S
LIMITS = Retention(most=3, age_s=14 * DAY_S, size_bytes=100)


def run(run_id: str, days_ago: float, size_bytes: int = 10, protection: str = "") -> KeptRun:
    return KeptRun(run_id, NOW_S - days_ago * DAY_S, size_bytes, protection)


TABLE: dict[str, tuple[list[KeptRun], tuple[str, ...]]] = {
    "nothing": ([], ()),
    "all within the limits": ([run("a", 1), run("b", 2), run("c", 3)], ()),
    "one too many": ([run("a", 1), run("b", 4), run("c", 3), run("d", 2)], ("b",)),
    "too old, however few": ([run("a", 13), run("b", 15)], ("b",)),
    "just as old as may be": ([run("a", 14)], ()),
    "too large together": ([run("a", 1, 60), run("b", 2, 30), run("c", 3, 30)], ("c",)),
    "a single one too large": ([run("a", 1, 101)], ("a",)),
    "the oldest goes though the newest is the large one": ([run("a", 1, 95), run("b", 2, 5), run("c", 3, 1)], ("c",)),
    "a protected one stays, and the next goes": (
        [run("a", 1), run("b", 2), run("c", 3), run("d", 4, protection="it is running")],
        ("c",),
    ),
    "protected ones above all limits": ([run(name, 20, 90, "why") for name in "abcde"], ()),
    "equal times by their ids": ([run("b", 1), run("a", 1), run("d", 1), run("c", 1)], ("a",)),
    "several, the oldest first": ([run("a", 20), run("b", 30), run("c", 1)], ("b", "a")),
}


@pytest.mark.parametrize("kind", TABLE)
def test_what_is_removed(kind: str) -> None:
    runs, expected = TABLE[kind]
    assert surplus(runs, NOW_S, LIMITS) == expected
    assert surplus(runs[::-1], NOW_S, LIMITS) == expected
