"""Bytes of our operator table to a trace; written by worker/torch_host.py, schema 1."""

from __future__ import annotations

import json

from profile_neuron.core.model import Event, Trace
from profile_neuron.core.run_folder import SCHEMA
from profile_neuron.errors import CaptureError


def read_operator_table(content: bytes) -> Trace:
    """Events in the order of the file; nanoseconds since the epoch. Raises CaptureError for another format."""
    try:
        table = json.loads(content)
        if table["schema"] != SCHEMA:
            raise CaptureError(f"the operator table has schema {table['schema']!r}, and this version reads {SCHEMA}")
        names = [str(name) for name in table["names"]]
        events = tuple(
            Event(names[name], thread, start_ns, start_ns + duration_ns, order)
            for name, thread, start_ns, duration_ns, order in table["events"]
        )
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise CaptureError(f"the operator table is damaged ({error}); profile again") from error
    return Trace(events, "operator table", ())
