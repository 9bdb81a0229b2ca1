"""torch's own table of device times, as the figure that ours is held against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

# How versions of torch call it, in the order in which they are tried.
NAMES = ("self_device_time_total", "self_privateuse1_time_total", "self_cuda_time_total")


def device_us(average: object) -> float | None:
    """Time of an operator on the device, without the operators inside, in µs; None where this torch does not tell."""
    for name in NAMES:
        value = getattr(average, name, None)
        if isinstance(value, (int, float)):
            return float(value)
    return None


def total_ns(averages: Iterable[Any]) -> int | None:
    """All of it, in ns; None where it is not told of one of them."""
    times = [device_us(average) for average in averages]
    known = [time for time in times if time is not None]
    return round(sum(known) * 1000) if len(known) == len(times) else None
