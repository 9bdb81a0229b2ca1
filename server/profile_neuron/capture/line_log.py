"""Bytes of the worker's line log and run record to their types; written by worker/runner.py, schema 1."""

from __future__ import annotations

import json
from typing import TypeVar

from profile_neuron.core.model import LineLog, RunRecord
from profile_neuron.core.plain import from_plain
from profile_neuron.core.run_folder import SCHEMA
from profile_neuron.errors import CaptureError

T = TypeVar("T", LineLog, RunRecord)


def read_line_log(content: bytes) -> LineLog:
    """What the numbers in our range names mean. Raises CaptureError for another format."""
    log = _read(LineLog, content, "line log")
    files, codes = range(len(log.files)), range(len(log.codes))
    if any(code.file not in files for code in log.codes) or any(line.code not in codes for line in log.lines):
        raise CaptureError("the line log is damaged (it refers to what it does not hold); profile again")
    return log


def read_record(content: bytes) -> RunRecord:
    """Which function ran, how, and how it ended. Raises CaptureError for another format."""
    record = _read(RunRecord, content, "run record")
    if record.repeats < 1:
        raise CaptureError(f"the run record is damaged (it says {record.repeats} calls); profile again")
    return record


def _read(kind: type[T], content: bytes, what: str) -> T:
    try:
        plain = json.loads(content.decode("utf-8", "surrogatepass"))
        if plain["schema"] != SCHEMA:
            raise CaptureError(f"the {what} has schema {plain['schema']!r}, and this version reads {SCHEMA}")
        return from_plain(kind, plain)
    except (ValueError, TypeError, KeyError) as error:
        raise CaptureError(f"the {what} is damaged ({error}); profile again") from error
