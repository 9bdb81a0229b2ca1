from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.core.apportion import apportion


def test_the_largest_remainders_are_rounded_up() -> None:
    assert apportion([10, 11, 12], 3) == [3, 4, 4]
    assert apportion([1, 1, 1], 3) == [1, 0, 0]
    assert apportion([5, 0], 2) == [3, 0]


@given(st.lists(st.integers(0, 10**12), max_size=30), st.integers(1, 1000))
def test_parts_add_up_and_each_is_off_by_less_than_one(sums: list[int], divisor: int) -> None:
    parts = apportion(sums, divisor)
    assert sum(parts) == (2 * sum(sums) + divisor) // (2 * divisor)
    assert all(abs(part * divisor - value) < divisor for part, value in zip(parts, sums, strict=True))
    assert all(part == 0 for part, value in zip(parts, sums, strict=True) if value == 0)
