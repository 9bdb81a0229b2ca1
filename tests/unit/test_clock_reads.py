"""Clocks of the host that are read while the device may still work."""

from __future__ import annotations

import pytest

from profile_neuron.core.clock_reads import unsynchronised

HEAD = "import time\nfrom time import perf_counter as now\nimport torch\ndef f(x):\n"


def found(*body: str, started: set[int] | None = None) -> list[tuple[int, str]]:
    """Lines of the body count from 1; those with an operator on them start the device."""
    text = HEAD + "".join(f"    {line}\n" for line in body)
    first = HEAD.count("\n")
    lines = {first + number for number, line in enumerate(body, 1) if "@" in line} if started is None else started
    return [(line - first, name) for line, name in unsynchronised(text, first, first + len(body), lines)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (["a = time.perf_counter()", "y = x @ x", "b = time.perf_counter()"], [(3, "time.perf_counter()")]),
        (["a = now()", "y = x @ x", "b = now()"], [(3, "now()")]),
        (["a = time.time()", "y = x @ x", "torch.neuron.synchronize()", "b = time.time()"], []),
        (["a = time.time()", "y = (x @ x).sum()", "n = y.item()", "b = time.time()"], []),
        (["a = time.time()", "b = time.time()"], []),
        (["y = x @ x", "a = time.time()"], []),
        (
            ["a = time.time()", "y = x @ x", "b = time.time()", "y = x @ x", "c = time.time()"],
            [(3, "time.time()"), (5, "time.time()")],
        ),
        (["a = time()", "y = x @ x", "b = time()"], []),
        (["a = x.time()", "y = x @ x", "b = x.time()"], []),
    ],
)
def test_a_clock_is_read_too_early_where_nothing_waited_for_what_was_started(
    body: list[str], expected: list[tuple[int, str]]
) -> None:
    assert found(*body) == expected


def test_a_source_that_does_not_parse_says_nothing() -> None:
    assert list(unsynchronised("def f(:\n", 1, 2, {1})) == []


def test_only_the_lines_of_the_function_count() -> None:
    text = f"{HEAD}    a = now()\n    y = x @ x\n    b = now()\ndef g():\n    now()\n    now()\n"
    assert list(unsynchronised(text, 8, 10, {6})) == []
