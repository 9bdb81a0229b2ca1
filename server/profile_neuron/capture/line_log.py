"""Bytes of the worker's line log and run record to their types; written by worker/runner.py, schema 1."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from profile_neuron.core.model import AgentNotes, LineLog, RunRecord, SequenceMark
from profile_neuron.core.plain import from_plain
from profile_neuron.core.run_folder import SCHEMA
from profile_neuron.errors import CaptureError

T = TypeVar("T", LineLog, RunRecord, AgentNotes)


def read_line_log(content: bytes) -> LineLog:
    """What the numbers in our range names mean. Raises CaptureError for another format."""
    log = _read(LineLog, content, "line log")
    files, codes = range(len(log.files)), range(len(log.codes))
    if any(code.file not in files for code in log.codes) or any(line.code not in codes for line in log.lines):
        raise CaptureError("the line log is damaged (it refers to what it does not hold); profile again")
    return log


def read_sequences(content: bytes) -> tuple[SequenceMark, ...]:
    """The line clock's marks by the framework's sequence numbers. Raises CaptureError for another format."""
    try:
        plain = json.loads(content)
        _check_schema(plain, "sequence log")
        stacks = {number: tuple(map(int, lines)) for number, lines in plain["stacks"]}
        marks = plain["marks"]
        return tuple(SequenceMark(int(thread), int(nr), call, stacks[stack]) for thread, nr, call, stack in marks)
    except (ValueError, TypeError, KeyError) as error:
        raise CaptureError(f"the sequence log is damaged ({error}); profile again") from error


def read_notes(content: bytes) -> AgentNotes:
    """What the agent knows of a run. Raises CaptureError for another format."""
    return _read(AgentNotes, content, "agent's note")


def read_record(content: bytes) -> RunRecord:
    """Which function ran, how, and how it ended. Raises CaptureError for another format."""
    record = _read(RunRecord, content, "run record")
    if record.repeats < 1:
        raise CaptureError(f"the run record is damaged (it says {record.repeats} calls); profile again")
    return record


def _read(kind: type[T], content: bytes, what: str) -> T:
    try:
        plain = json.loads(content.decode("utf-8", "surrogatepass"))
        _check_schema(plain, what)
        return from_plain(kind, plain)
    except (ValueError, TypeError, KeyError) as error:
        raise CaptureError(f"the {what} is damaged ({error}); profile again") from error


def _check_schema(plain: Any, what: str) -> None:
    if plain["schema"] != SCHEMA:
        raise CaptureError(f"the {what} has schema {plain['schema']!r}, and this version reads {SCHEMA}")
