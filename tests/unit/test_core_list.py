from __future__ import annotations

import pytest

from profile_neuron.core.core_list import parse_cores

LISTS = {
    "0": {0},
    "0-3": {0, 1, 2, 3},
    "0,2-3": {0, 2, 3},
    "3,1": {1, 3},
    "5-5": {5},
    "1023": {1023},
}


@pytest.mark.parametrize("text", LISTS)
def test_numbers_and_ranges(text: str) -> None:
    assert parse_cores(text) == LISTS[text]


@pytest.mark.parametrize(
    "text", ["", "auto", "3-0", "0,", ",0", "0--1", "-1", "0 1", " 0", "0\n", "1024", "0-99999", "²"]
)
def test_what_is_no_list_of_cores(text: str) -> None:
    assert parse_cores(text) is None
