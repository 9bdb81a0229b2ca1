"""What a bundle for a bug report holds, by name, how large it may be, and what is told of a trace in it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

SCHEMA = 1

# Versions, what could not be had, and what was replaced by what how often.
MANIFEST = "bundle.json"
DOCTOR = "doctor.txt"
ENVIRONMENT = "environment.json"
VARIABLES = "variables.json"
# What tools printed and names of packages, one file each.
DETAILS = "details/"
# Of the capture: files with sizes, what was printed, its result, a summary of each exported trace.
FILES = "capture/files.json"
OUTPUT = "capture/output.txt"
REPORT = "capture/report.json"
TRACES = "capture/traces.json"
# Its run folder, without what is no text.
RUN = "capture/run/"

MOST_MEMBERS = 500
MEMBER_BYTES = 8 << 20
TOTAL_BYTES = 64 << 20

_HEAD = 200


def trace_summary(content: bytes) -> dict[str, Any]:
    """Counts of an exported trace's events by category, the keys of their args, and the first 200 of them.

    Raises ValueError for a trace that is no JSON.
    """
    trace = json.loads(content)
    found = trace.get("traceEvents") if isinstance(trace, dict) else trace
    events = [event for event in found if isinstance(event, dict)] if isinstance(found, list) else []
    counts: Counter[str] = Counter()
    keys: dict[str, set[str]] = defaultdict(set)
    for event in events:
        # Without a category it is of a phase, such as the names of threads.
        category = str(event.get("cat") or f"phase {event.get('ph')}")
        counts[category] += 1
        if isinstance(event.get("args"), dict):
            keys[category].update(event["args"])
    return {
        "events": len(events),
        "beside_events": sorted(trace) if isinstance(trace, dict) else [],
        "categories": [
            {"category": category, "events": count, "args": sorted(keys[category])}
            for category, count in counts.most_common()
        ],
        "head": events[:_HEAD],
    }
