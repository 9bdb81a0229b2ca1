"""How results are made and kept."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from profile_neuron.daemon.results import Results, limited
from profile_neuron.daemon.settings import Settings
from profile_neuron.daemon.store import ROWS_PER_FUNCTION, ROWS_PER_KEY
from tests.unit.constructed import PATH, result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from profile_neuron.core.model import Result

TEXT = "from profile_neuron import profile_neuron\n@profile_neuron\ndef f(x):\n    return x\n"


def test_of_one_code_as_many_are_kept_as_in_the_store_and_the_first_ones() -> None:
    made = [replace(result(TEXT), run_id=str(number)) for number in range(10)]
    assert [item.run_id for item in limited(made)] == [str(number) for number in range(ROWS_PER_KEY)]


def test_of_one_function_as_many_are_kept_as_in_the_store() -> None:
    made = [replace(result(TEXT), key=str(number)) for number in range(100)]
    other = replace(result(TEXT), qualname="g")
    assert limited([*made, other]) == (*made[:ROWS_PER_FUNCTION], other)


def test_what_is_pinned_is_kept_beside_as_many_others() -> None:
    made = [replace(result(TEXT), run_id=str(number)) for number in range(10)]
    pinned = replace(made[-1], is_pinned=True)
    assert limited([*made[:-1], pinned]) == (*made[:ROWS_PER_KEY], pinned)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Results, list[str]]]:
    """A store of results in a folder of its own, and what it complained of."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    complaints: list[str] = []
    results = Results(complaints.append)
    yield results, complaints
    asyncio.run(results.close())


def test_a_pin_is_kept_with_its_result_and_known_ones_learn_of_it(kept: tuple[Results, list[str]]) -> None:
    results, complaints = kept
    made = [replace(result(TEXT, finished_s=time.time() - number), key=str(number)) for number in range(3)]

    async def work() -> list[tuple[Result, ...]]:
        for item in made:
            await results.add(item, "/p", Settings())
        await results.pin(PATH, "/p", Settings(), made[2], ())
        first = await results.load(PATH, "/p", Settings(), made)
        await results.pin(PATH, "/p", Settings(), made[0], [made[2]])
        return [first, await results.load(PATH, "/p", Settings())]

    first, second = asyncio.run(work())
    assert first == (*made[:2], replace(made[2], is_pinned=True))
    assert first[0] is made[0], "what is known is not made anew"
    assert second == (replace(made[0], is_pinned=True), *made[1:])
    assert complaints == []


def test_a_result_that_is_no_longer_in_the_store_is_put_there_to_be_pinned(kept: tuple[Results, list[str]]) -> None:
    results, _ = kept
    made = result(TEXT, finished_s=time.time())

    async def work() -> tuple[Result, ...]:
        await results.pin(PATH, "/p", Settings(), made, ())
        return await results.load(PATH, "/p", Settings())

    assert asyncio.run(work()) == (replace(made, is_pinned=True),)


def test_the_beginnings_of_statements_are_kept_for_a_reader_and_not_too_long() -> None:
    text = TEXT.replace("return x\n", f"y  =  (x +\n        1)\n    for z in {'x' * 90}:\n        pass\n    return y\n")
    made = result(text)
    assert made.texts == ("y = (x +", f"for z in {'x' * 70}…", "pass", "return y")
    assert made.blocks == ("0 body", "0 body", "1 body", "0 body")
