"""What other programs are told of a comparison."""

from __future__ import annotations

from dataclasses import replace

from profile_neuron.core.document import comparison, run_functions
from profile_neuron.core.model import Change, RemovedRow
from tests.unit.constructed import MS, beside, costs_of, row, view

SHOWN = view(12 * MS, [row(5, 6 * MS), row(6, 3 * MS), row(7, 2 * MS), row(8, 1 * MS)])


def test_each_row_has_what_it_was_its_noise_and_a_verdict() -> None:
    rows = {5: (4 * MS, 0.02), 6: (4 * MS, 0.0), 7: (1_990_000, 0.0), 8: None}
    made = beside(SHOWN, 11 * MS, rows, noise=0.01, removed=[RemovedRow("y = x", MS)])
    assert made.comparison is not None
    made = replace(made, comparison=replace(made.comparison, total=Change(11 * MS, 12 * MS, 0.01, 10 * MS, 11 * MS)))
    assert comparison(made) == {
        "with": "previous",
        "finished_s": 900.0,
        "reason": None,
        "previous_ns": 11 * MS,
        "previous_fastest_ns": 10 * MS,
        "fastest_ns": 11 * MS,
        "noise": 0.01,
        "verdict": "slower",
        "lines": [
            {
                "line": 5,
                "previous_ns": 4 * MS,
                "previous_fastest_ns": 4 * MS,
                "fastest_ns": 6 * MS,
                "noise": 0.02,
                "verdict": "slower",
            },
            {
                "line": 6,
                "previous_ns": 4 * MS,
                "previous_fastest_ns": 4 * MS,
                "fastest_ns": 3 * MS,
                "noise": 0.0,
                "verdict": "faster",
            },
            {
                "line": 7,
                "previous_ns": 1_990_000,
                "previous_fastest_ns": 1_990_000,
                "fastest_ns": 2 * MS,
                "noise": 0.0,
                "verdict": None,
            },
            {
                "line": 8,
                "previous_ns": None,
                "previous_fastest_ns": None,
                "fastest_ns": None,
                "noise": None,
                "verdict": "new",
            },
        ],
        "removed": [{"text": "y = x", "total_ns": MS}],
    }


def test_what_is_not_known_is_null() -> None:
    assert comparison(beside(SHOWN, None)) == {
        "with": "previous",
        "finished_s": None,
        "reason": "no earlier result of other code",
        "previous_ns": None,
        "previous_fastest_ns": None,
        "fastest_ns": None,
        "noise": None,
        "verdict": None,
        "lines": [],
        "removed": [],
    }


def test_a_comparison_is_with_the_function_that_was_profiled_where_it_was_asked_for() -> None:
    costs = costs_of({4: MS}, reached=["g"])
    first, second = run_functions(costs, compared=beside(SHOWN, None))
    assert first["comparison"] == comparison(beside(SHOWN, None))
    assert "comparison" not in second
    assert "comparison" not in run_functions(costs)[0]
