"""Bytes of torch's exported trace.json to a trace; the fallback where the operator table is missing.

Source: the Chrome trace that torch 2.13.0 exports. Times are microseconds with three decimals, counted from
baseTimeNanoseconds where that key exists; displayTimeUnit says nothing about them.
"""

from __future__ import annotations

import gzip
import json
from decimal import Decimal, InvalidOperation
from typing import Any

from profile_neuron.core.model import Event, Trace
from profile_neuron.errors import CaptureError

_GZIP = b"\x1f\x8b"


def read_framework_trace(content: bytes) -> Trace:
    """Operators and ranges of the host; nanoseconds since the epoch.

    Raises CaptureError, with the place, where the file does not parse as a whole or holds no event list.
    An event without a usable time is left out and counted in a warning.
    """
    try:
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        # Stamps are near the limit of a double, so they are never made into one.
        document = json.loads(content, parse_float=Decimal, parse_constant=lambda _: None, strict=False)
    except json.JSONDecodeError as error:
        raise CaptureError(
            f"the trace does not parse at line {error.lineno}, column {error.colno} ({error.msg}); profile again"
        ) from error
    except (ValueError, EOFError, OSError) as error:
        raise CaptureError(f"the trace cannot be read ({error}); profile again") from error
    rows = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise CaptureError("the trace holds no list of events; profile again")
    base_ns = document.get("baseTimeNanoseconds", 0) if isinstance(document, dict) else 0
    events, dropped = [], 0
    for order, row in enumerate(rows):
        if not isinstance(row, dict) or row.get("ph") != "X" or row.get("cat") != "cpu_op":
            continue
        start_ns, duration_ns = _ns(row.get("ts")), _ns(row.get("dur"))
        thread = row.get("tid")
        if start_ns is None or duration_ns is None or duration_ns < 0 or not isinstance(thread, int):
            dropped += 1
            continue
        start_ns += base_ns
        identity = row.get("args", {}).get("External id", order)
        events.append(Event(str(row.get("name")), thread, start_ns, start_ns + duration_ns, identity))
    warnings = (f"{dropped} events of the trace had no usable time and are left out",) if dropped else ()
    return Trace(tuple(events), "exported trace", warnings)


def _ns(microseconds: Any) -> int | None:
    """Exact nanoseconds of a number or its text; None for anything else."""
    if isinstance(microseconds, bool) or not isinstance(microseconds, (int, Decimal, str)):
        return None
    try:
        return int((Decimal(microseconds) * 1000).to_integral_value())
    except (InvalidOperation, ValueError, OverflowError):
        return None
