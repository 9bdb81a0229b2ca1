"""Bytes of framework_mapping_<time>.json to the operators that the runtime's executions were submitted for.

Source: what TorchNeuron of April 2026 writes, version 1. Several operators of one execution were fused by it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

from profile_neuron.core.model import Submission
from profile_neuron.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class FrameworkMapping:
    """What the executions of one process were submitted for."""

    # By the runtime's sequence number; in the order of the file, each once.
    submissions: dict[int, tuple[Submission, ...]]
    warnings: tuple[str, ...] = ()
    # Of how many operators each execution was made, those with the same number included.
    operator_counts: dict[int, int] = field(default_factory=dict, compare=False)


def read_framework_mapping(content: bytes) -> FrameworkMapping:
    """What one file tells. Raises CaptureError for a file that holds no list of executions.

    An execution that is not told as a whole is left out and counted in a warning: with a part of its operators its time
    would go to the wrong ones.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"the framework mapping does not parse ({error}); profile again") from error
    rows = document.get("data") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise CaptureError("the framework mapping holds no list of executions; profile again")
    entries = [_entry(row) for row in rows]
    told = [entry for entry in entries if entry is not None]
    left_out = len(entries) - len(told)
    warnings = (f"{left_out} executions of the framework mapping cannot be read and are left out",) if left_out else ()
    return _merged(told, warnings)


def merge_mappings(mappings: Iterable[FrameworkMapping]) -> FrameworkMapping:
    """The mapping of a process that wrote several files."""
    mappings = tuple(mappings)
    warnings = tuple(warning for mapping in mappings for warning in mapping.warnings)
    return _merged(
        [
            (number, submissions, mapping.operator_counts.get(number, len(submissions)))
            for mapping in mappings
            for number, submissions in mapping.submissions.items()
        ],
        warnings,
    )


_Entry = tuple[int, tuple[Submission, ...], int]


def _merged(entries: Iterable[_Entry], warnings: tuple[str, ...]) -> FrameworkMapping:
    """Entries as one mapping, without those of a number that is told in two ways: which is meant cannot be known."""
    merged: dict[int, tuple[Submission, ...]] = {}
    counts: dict[int, int] = {}
    contradicted = set()
    for number, submissions, count in entries:
        counts[number] = max(count, counts.get(number, 0))
        if merged.setdefault(number, submissions) != submissions:
            contradicted.add(number)
    if contradicted:
        told = f"{len(contradicted)} executions have other operators at another place of the framework mapping"
        warnings = (*warnings, f"{told} and are left out")
    kept = [number for number in merged if number not in contradicted]
    return FrameworkMapping(
        {number: merged[number] for number in kept}, warnings, {number: counts[number] for number in kept}
    )


def _entry(row: object) -> _Entry | None:
    if not isinstance(row, dict):
        return None
    number, operators = row.get("nrta_seq_id"), row.get("framework_op_exec_ids")
    if not _is_number(number) or not isinstance(operators, list):
        return None
    submissions = [_submission(operator) for operator in operators]
    told = [submission for submission in submissions if submission is not None]
    # A number of the framework stands still while several operators run, which then cannot be told apart.
    return (number, tuple(dict.fromkeys(told)), len(told)) if len(told) == len(submissions) else None


def _submission(operator: object) -> Submission | None:
    if not isinstance(operator, dict):
        return None
    thread, number = operator.get("th_id"), operator.get("seq_nr")
    return Submission(thread, number) if _is_number(thread) and _is_number(number) else None


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
