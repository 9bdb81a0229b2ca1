"""What a worker's environment is made of, after case N04 and what the runtime's variables mean."""

from __future__ import annotations

import json

import pytest

from profile_neuron.agent.environment import (
    Need,
    is_chosen_by_user,
    known_cores,
    needed_cores,
    worker_environment,
)
from tests.conftest import case

CACHE = "/cache/neff"
DEBUG = {"NEURON_FRAMEWORK_DEBUG": "1", "NKI_DEBUG_INFO": "True", "XLA_IR_DEBUG": "1", "XLA_HLO_DEBUG": "1"}
OURS = {**DEBUG, "TORCH_NEURONX_NEFF_CACHE_DIR": CACHE}
SINCE = "unset for this run, since the runtime's own capture and torch.profiler disturb each other"
TABLE = json.loads((case("N04") / "expected.json").read_text())["table"]
# What each row of the case comes to: what is left of the user's variables, and what is said.
ROWS: list[tuple[dict[str, str], tuple[str, ...]]] = [
    ({}, ()),
    ({}, (f"NEURON_RT_INSPECT_ENABLE and NEURON_RT_INSPECT_OUTPUT_DIR were {SINCE}",)),
    ({}, (f"NEURON_RT_INSPECT_DEVICE_PROFILE was {SINCE}",)),
    ({"NEURON_RT_VISIBLE_CORES": "4-7"}, ()),
    ({"NEURON_RT_NUM_CORES": "32"}, ()),
    ({}, (f"NEURON_PROFILE was {SINCE}",)),
]


@pytest.mark.parametrize(
    ("row", "expected"),
    list(zip(TABLE, ROWS, strict=True)),
    ids=[" ".join(row["editorEnv"]) or "none" for row in TABLE],
)
def test_variables_of_the_user_that_profile_are_unset_and_named_and_the_others_kept(
    row: dict[str, dict[str, str]], expected: tuple[dict[str, str], tuple[str, ...]]
) -> None:
    given = {"HOME": "/home/me", **row["editorEnv"]}
    before = dict(given)
    kept, remarks = expected
    assert worker_environment(given, "auto", CACHE) == ({"HOME": "/home/me", **OURS, **kept}, remarks)
    assert given == before, "the own environment stays as it is"


def test_all_that_was_unset_is_one_sentence() -> None:
    given = {f"NEURON_RT_INSPECT_{name}": "1" for name in ("ENABLE", "SYSTEM_PROFILE")} | {"NEURON_PROFILE": "x"}
    _, remarks = worker_environment(given, "auto", CACHE)
    names = "NEURON_PROFILE, NEURON_RT_INSPECT_ENABLE and NEURON_RT_INSPECT_SYSTEM_PROFILE"
    assert remarks == (f"{names} were {SINCE}",)


def test_cores_of_the_setting_take_the_place_of_the_users() -> None:
    given = {"NEURON_RT_VISIBLE_CORES": "4-7", "NEURON_RT_NUM_CORES": "32"}
    assert worker_environment(given, "0,2", CACHE) == ({**OURS, "NEURON_RT_VISIBLE_CORES": "0,2"}, ())


@pytest.mark.parametrize("name", DEBUG)
def test_a_debug_variable_of_the_user_is_kept(name: str) -> None:
    assert worker_environment({name: "0"}, "auto", CACHE)[0] == {**OURS, name: "0"}


def test_a_cache_of_the_user_is_kept_where_the_code_in_it_tells_its_lines() -> None:
    own = {"TORCH_NEURONX_NEFF_CACHE_DIR": "/mine"}
    assert worker_environment({**own, **DEBUG}, "auto", CACHE)[0] == {**own, **DEBUG}
    some = dict(list(DEBUG.items())[:3])
    assert worker_environment({**own, **some}, "auto", CACHE)[0] == OURS
    assert worker_environment(own, "auto", "")[0] == {**own, **DEBUG}, "where there is none of ours"


NEEDS: dict[str, tuple[dict[str, str], str, Need]] = {
    "nothing said": ({}, "auto", Need(None, 1)),
    "a setting": ({"NEURON_RT_VISIBLE_CORES": "7", "NEURON_RT_NUM_CORES": "2"}, "0-2", Need(frozenset({0, 1, 2}))),
    "visible cores": ({"NEURON_RT_VISIBLE_CORES": "4,6"}, "auto", Need(frozenset({4, 6}))),
    "a number of cores": ({"NEURON_RT_NUM_CORES": "32"}, "auto", Need(None, 32)),
    "both": ({"NEURON_RT_VISIBLE_CORES": "1", "NEURON_RT_NUM_CORES": "32"}, "auto", Need(frozenset({1}))),
    "no list": ({"NEURON_RT_VISIBLE_CORES": "all"}, "auto", Need(None, 1)),
    "no number": ({"NEURON_RT_NUM_CORES": "many"}, "auto", Need(None, 1)),
    "none": ({"NEURON_RT_NUM_CORES": "0"}, "auto", Need(None, 1)),
}


@pytest.mark.parametrize("kind", NEEDS)
def test_what_a_worker_is_going_to_use(kind: str) -> None:
    environ, cores, expected = NEEDS[kind]
    assert needed_cores(environ, cores) == expected
    assert is_chosen_by_user(environ, cores) == (kind != "nothing said")


def test_the_cores_of_a_worker_are_known_by_its_environment() -> None:
    assert known_cores({"NEURON_RT_VISIBLE_CORES": "0-3"}) == "0-3"
    assert known_cores({"NEURON_RT_NUM_CORES": "2"}) == ""
