import pytest

from profile_neuron.core import units


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (1, "1 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (9_994, "9.99 µs"),
        (9_995, "10.0 µs"),
        (99_949, "99.9 µs"),
        (99_950, "100 µs"),
        (999_499, "999 µs"),
        (999_500, "1.00 ms"),
        (2_355_000, "2.36 ms"),
        (1_164_500, "1.16 ms"),
        (999_499_999, "999 ms"),
        (999_500_000, "1.00 s"),
        (12_345_000_000, "12.3 s"),
        (1_234_500_000_000, "1235 s"),
    ],
)
def test_durations_have_three_digits_rounded_half_up(ns: int, text: str) -> None:
    assert units.duration(ns) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (1_164_500, 2_355_000, "49 %"),
        (1, 1000, "<1 %"),
        (5, 1000, "1 %"),
        (1000, 1000, "100 %"),
        (0, 10, ""),
        (1, 0, ""),
    ],
)
def test_a_share_is_never_shown_as_zero_percent(part: int, whole: int, text: str) -> None:
    assert units.share(part, whole) == text


@pytest.mark.parametrize(("calls", "text"), [(1.0, "1"), (3.0, "3"), (2 / 3, "0.67"), (1.5, "1.50")])
def test_an_average_count_is_whole_where_it_is_whole(calls: float, text: str) -> None:
    assert units.count(calls) == text


def test_spread_is_a_percentage_of_the_mean_and_empty_where_unknown() -> None:
    assert units.spread(12, 1000) == "±1.2 %"
    assert units.spread(500, 1000) == "±50 %"
    assert units.spread(None, 1000) == ""


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (64_000_000, "64.0 MB"), (2 * 10**9, "2.0 GB")],
)
def test_sizes_are_shown_in_the_units_of_the_settings(size_bytes: int, text: str) -> None:
    assert units.size(size_bytes) == text
