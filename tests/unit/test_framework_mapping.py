"""The framework mapping of TorchNeuron; all files are constructed after its source of April 2026."""

from __future__ import annotations

import json

import pytest

from profile_neuron.capture.framework_mapping import FrameworkMapping, merge_mappings, read_framework_mapping
from profile_neuron.core.model import Submission
from profile_neuron.errors import CaptureError


def operator(number: object = 3, thread: object = 1, **fields: object) -> dict[str, object]:
    return {"seq_nr": number, "th_id": thread, "stream_id": 0, **fields}


def entry(number: object, *operators: object, **fields: object) -> dict[str, object]:
    return {"nrta_seq_id": number, "framework_op_exec_ids": list(operators), **fields}


def read(*entries: object) -> FrameworkMapping:
    return read_framework_mapping(json.dumps({"version": 1, "data": entries}).encode())


def test_fused_operators_have_one_execution() -> None:
    found = read(entry(17, operator(3), operator(4)), entry(18, operator(5, thread=2)))
    assert found == FrameworkMapping({17: (Submission(1, 3), Submission(1, 4)), 18: (Submission(2, 5),)})


def test_operators_with_the_same_number_cannot_be_told_apart() -> None:
    assert read(entry(17, operator(3), operator(3))).submissions == {17: (Submission(1, 3),)}


def test_unknown_keys_do_no_harm() -> None:
    assert read(entry(17, operator(3, name="aten::mul"), device=0)).submissions == {17: (Submission(1, 3),)}


@pytest.mark.parametrize(
    "bad",
    [
        3,
        {},
        entry("17", operator()),
        entry(True, operator()),
        {"nrta_seq_id": 17},
        entry(17) | {"framework_op_exec_ids": {}},
        entry(17, operator(3), operator(4.5)),
        entry(17, operator(3), {"seq_nr": 4}),
        entry(17, operator(3), None),
    ],
    ids=str,
)
def test_what_is_not_told_as_a_whole_costs_its_execution_and_no_other(bad: object) -> None:
    found = read(bad, entry(18, operator(5)))
    assert found.submissions == {18: (Submission(1, 5),)}
    assert found.warnings == ("1 executions of the framework mapping cannot be read and are left out",)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "does not parse"),
        (b'{"data": [', "does not parse"),
        (b"\xff", "does not parse"),
        (b"[" * 100_000, "does not parse"),
        (b"[]", "holds no list of executions"),
        (b'{"data": {}}', "holds no list of executions"),
    ],
)
def test_what_is_no_mapping_is_one_sentence(content: bytes, sentence: str) -> None:
    with pytest.raises(CaptureError, match=sentence):
        read_framework_mapping(content)


def test_files_of_a_process_are_one_mapping() -> None:
    merged = merge_mappings([read(entry(17, operator(3))), read(3, entry(18, operator(4)), entry(17, operator(3)))])
    assert merged.submissions == {17: (Submission(1, 3),), 18: (Submission(1, 4),)}
    assert merged.warnings == ("1 executions of the framework mapping cannot be read and are left out",)


def test_a_number_that_means_two_things_means_nothing() -> None:
    files = [
        read(entry(17, operator(3)), entry(18, operator(4))),
        read(entry(17, operator(5))),
        read(entry(17, operator(3))),
    ]
    merged = merge_mappings(files)
    assert merged.submissions == {18: (Submission(1, 4),)}
    assert merged.warnings == (
        "1 executions have other operators at another place of the framework mapping and are left out",
    )
    assert read(entry(17, operator(3)), entry(17, operator(5))).submissions == {}
