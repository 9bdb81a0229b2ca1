"""Numbers as short text: nanoseconds, bytes, shares and counts."""

from __future__ import annotations

_SIZES = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))


def duration(ns: int) -> str:
    """Three significant digits, rounded half up from integers: 2355000 gives 2.36 ms."""
    for index, (unit_ns, unit) in enumerate(_UNITS):
        # 999 500 ns is 1.00 ms and not 1000 µs, so the unit changes where rounding reaches four digits.
        smaller_ns = _UNITS[index + 1][0] if index + 1 < len(_UNITS) else 1
        if ns * 2 >= unit_ns * 2 - smaller_ns:
            return f"{_significant(ns, unit_ns)} {unit}"
    return f"{ns} ns"


def _significant(ns: int, unit_ns: int) -> str:
    for decimals in (2, 1, 0):
        scaled = (2 * ns * 10**decimals + unit_ns) // (2 * unit_ns)
        if scaled < 1000 or decimals == 0:
            break
    whole, fraction = divmod(scaled, 10**decimals)
    return f"{whole}.{fraction:0{decimals}d}" if decimals else str(whole)


def size(size_bytes: int) -> str:
    """One digit behind the point, in the decimal units of the settings: 2000000000 gives 2.0 GB."""
    for unit_bytes, unit in _SIZES:
        if size_bytes >= unit_bytes:
            return f"{size_bytes / unit_bytes:.1f} {unit}"
    return f"{size_bytes} B"


def share(part: int, whole: int) -> str:
    """Whole percent, half up; <1 % where that would be 0 %, empty where there is no whole."""
    if whole <= 0 or part <= 0:
        return ""
    percent = (200 * part + whole) // (2 * whole)
    return f"{percent} %" if percent else "<1 %"


def count(calls: float) -> str:
    """An average count, whole where it is whole: 3, 0.67."""
    # Averages are sums of thirds and the like, which come out a little beside the whole number.
    return str(round(calls)) if abs(calls - round(calls)) < 1e-6 else f"{calls:.2f}"


def spread(deviation_ns: int | None, mean_ns: int) -> str:
    """Standard deviation as percent of the mean: ±1.2 %; empty where it is not known."""
    if deviation_ns is None or mean_ns <= 0:
        return ""
    percent = 100 * deviation_ns / mean_ns
    return f"±{percent:.1f} %" if percent < 9.95 else f"±{percent:.0f} %"
