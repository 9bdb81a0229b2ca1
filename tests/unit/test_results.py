"""How many results of a file are kept in memory."""

from __future__ import annotations

from dataclasses import replace

from profile_neuron.daemon.results import limited
from profile_neuron.daemon.store import ROWS_PER_FUNCTION, ROWS_PER_KEY
from tests.unit.constructed import result

TEXT = "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(x):\n    return x\n"


def test_of_one_code_as_many_are_kept_as_in_the_store_and_the_first_ones() -> None:
    made = [replace(result(TEXT), run_id=str(number)) for number in range(10)]
    assert [item.run_id for item in limited(made)] == [str(number) for number in range(ROWS_PER_KEY)]


def test_of_one_function_as_many_are_kept_as_in_the_store() -> None:
    made = [replace(result(TEXT), key=str(number)) for number in range(100)]
    other = replace(result(TEXT), qualname="g")
    assert limited([*made, other]) == (*made[:ROWS_PER_FUNCTION], other)
