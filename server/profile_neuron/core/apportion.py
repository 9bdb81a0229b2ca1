"""Sums to averages in whole nanoseconds, by largest remainder, so that the parts still add up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def apportion(sums: Sequence[int], divisor: int) -> list[int]:
    """Each sum divided, rounded down or up so that the results add up to the divided whole, rounded half up.

    Those with the largest remainder are rounded up; of equal ones the first.
    """
    whole = (2 * sum(sums) + divisor) // (2 * divisor)
    parts = [value // divisor for value in sums]
    order = sorted(range(len(sums)), key=lambda index: (-(sums[index] % divisor), index))
    for index in order[: whole - sum(parts)]:
        parts[index] += 1
    return parts
