"""Views to how warm their lines are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.core.heat import LEVELS, Heat, heat, heat_level
from profile_neuron.core.render import HintSettings, hints
from tests.unit.constructed import row, view

US, MS = 1_000, 1_000_000
ALL = HintSettings(0.0, 0)


@pytest.mark.parametrize(
    ("part_ns", "level"),
    [(1, 1), (400, 1), (401, 2), (1600, 2), (1601, 3), (3600, 3), (3601, 4), (6400, 4), (6401, 5), (10_000, 5)],
)
def test_a_level_is_of_the_square_root_of_the_share(part_ns: int, level: int) -> None:
    assert heat_level(part_ns, 10_000) == level


@given(st.integers(1, 10**15), st.integers(1, 10**15))
def test_a_level_is_always_one_of_five_and_rises_with_the_share(part_ns: int, more_ns: int) -> None:
    whole_ns = part_ns + more_ns
    assert 1 <= heat_level(part_ns, whole_ns) <= heat_level(whole_ns, whole_ns) == LEVELS


def test_lines_of_all_functions_are_sorted_and_each_is_warm_by_the_time_of_its_own_function() -> None:
    first = view(100 * MS, [row(5, 2 * MS), row(6, 70 * MS), row(7, 28 * MS)])
    assert heat([first], ALL) == (Heat(5, 1, False), Heat(6, 5, False), Heat(7, 3, False))


def test_lines_that_share_a_figure_are_each_as_warm_as_all_of_them() -> None:
    shared = view(100 * MS, [row(5, 50 * MS, 1, (5, 6)), row(6, 50 * MS, 1, (5, 6)), row(7, 50 * MS)])
    assert [item.level for item in heat([shared], ALL)] == [4, 4, 4]


def test_what_is_of_another_code_is_marked_or_left_out() -> None:
    edited = view(100 * MS, [row(5, 50 * MS)], "stale")
    assert heat([edited], ALL) == (Heat(5, 4, True),)
    assert heat([edited], HintSettings(0.0, 0, show_stale=False)) == ()


def test_lines_without_a_hint_by_time_or_share_have_no_heat() -> None:
    some = [view(100 * MS, [row(5, 1 * US), row(6, 900 * US), row(7, 99 * MS)])]
    for settings in (ALL, HintSettings(), HintSettings(1.0, 0), HintSettings(0.0, 2 * US)):
        assert [item.line for item in heat(some, settings)] == [hint.line for hint in hints(some, settings)]
    assert [item.line for item in heat(some, HintSettings())] == [7]


def test_a_line_that_has_a_hint_for_its_time_on_the_host_alone_is_not_warm() -> None:
    waiting = view(100 * MS, [row(5, 0)], device="neuron")
    assert waiting.result is not None
    assert heat([waiting], ALL) == ()


def test_a_function_without_a_result_has_no_heat() -> None:
    assert heat([view(None, [])], ALL) == ()
