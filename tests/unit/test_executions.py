"""Events of a device to executions; every event here is constructed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.core.executions import device_trace, direction, role, sequence_number, union_ns
from profile_neuron.core.model import DeviceEvent, DeviceTrace, Event, Submission

OPERATORS = tuple(
    Event(f"aten::op{number}", 1, number * 100, number * 100 + 50, number, number) for number in (1, 2, 3)
)


def kernel(
    start_ns: int,
    duration_ns: int,
    operator: int | None = None,
    correlation: int | None = None,
    sequence: int | None = None,
    **changes: str,
) -> DeviceEvent:
    fields = {"name": "k", "role": "kernel", **changes}
    return DeviceEvent(fields["name"], fields["role"], start_ns, duration_ns, operator, correlation, sequence)  # type: ignore[arg-type]


def trace(*events: DeviceEvent, **more: object) -> DeviceTrace:
    found = device_trace(events, OPERATORS, "test", **more)  # type: ignore[arg-type]
    assert found is not None
    return found


def times(found: DeviceTrace) -> list[tuple[tuple[int, ...], int]]:
    return sorted((item.operators, item.device_ns) for item in found.executions)


def test_an_execution_belongs_to_the_operator_that_it_is_linked_to_in_whatever_order_events_come() -> None:
    events = [kernel(500, 7, 2, 91), kernel(0, 5, 3, 92), kernel(900, 11, 1, 90)]
    expected = [((1,), 11), ((2,), 7), ((3,), 5)]
    assert times(trace(*events)) == expected
    assert times(trace(*reversed(events))) == expected


def test_two_physical_cores_that_work_on_one_execution_take_the_time_once() -> None:
    # 140 to 500 and 142 to 498: 360 and not 716.
    assert times(trace(kernel(140, 360, 1, 9), kernel(142, 356, 1, 9))) == [((1,), 360)]


def test_two_executions_of_one_operator_count_both_even_if_their_stamps_overlap() -> None:
    assert times(trace(kernel(0, 50, 1, 8), kernel(20, 50, 1, 9))) == [((1,), 50), ((1,), 50)]


def test_parts_of_one_execution_that_follow_each_other_add_up() -> None:
    assert times(trace(kernel(0, 50, 1, 8), kernel(100, 25, 1, 8))) == [((1,), 75)]


def test_events_of_which_nothing_is_known_are_executions_of_their_own() -> None:
    assert times(trace(kernel(1, 50), kernel(2, 60))) == [((), 50), ((), 60)]


def test_an_id_that_no_operator_has_links_to_nothing() -> None:
    assert times(trace(kernel(0, 60, 77))) == [((), 60)]


def test_without_a_link_the_dispatch_with_the_same_correlation_tells_the_operator() -> None:
    assert times(trace(kernel(0, 5, None, 40), kernel(9, 6, None, 41), dispatches={40: 2, 41: 99})) == [
        ((), 6),
        ((2,), 5),
    ]


def test_a_drivers_view_counts_only_where_nothing_tells_what_ran_on_the_device() -> None:
    driver = kernel(0, 900, 1, 5, role="driver")
    alone = trace(driver)
    assert (times(alone), alone.may_include_queueing) == ([((1,), 900)], True)
    both = trace(driver, kernel(0, 300, 1, 5))
    assert (times(both), both.may_include_queueing) == ([((1,), 300)], False)


def test_no_event_of_a_device_is_no_trace_of_one() -> None:
    assert device_trace((), OPERATORS, "test") is None


SUBMISSIONS = (Submission(1, 30), Submission(1, 31))


def test_an_execution_of_several_operators_belongs_to_all_that_the_mapping_names() -> None:
    (found,) = trace(kernel(0, 70, 3, 17, 17), mapping={17: SUBMISSIONS}).executions
    assert found.submissions == SUBMISSIONS
    # What it is linked to is only one of them.
    (by_correlation,) = trace(kernel(0, 70, 3, 17), mapping={17: SUBMISSIONS}).executions
    assert by_correlation.submissions == SUBMISSIONS


def test_a_link_says_more_than_a_mapping_to_one_submission() -> None:
    (found,) = trace(kernel(0, 70, 3, 17, 17), mapping={17: SUBMISSIONS[:1]}).executions
    assert (found.operators, found.submissions) == ((3,), ())
    (unlinked,) = trace(kernel(0, 70, None, None, 17), mapping={17: SUBMISSIONS[:1]}).executions
    assert (unlinked.operators, unlinked.submissions) == ((), SUBMISSIONS[:1])


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("nrt_tensor_write", "driver", "to device"),
        ("nrt_tensor_read", "copy", "from device"),
        ("Memcpy HtoD (Pageable -> Device)", "copy", "to device"),
        ("nrt_copy_d2h", "driver", "from device"),
        ("dmem_buf_copyin", "driver", "to device"),
        ("something", "copy", "unknown"),
        ("Memcpy DtoD (Device -> Device)", "copy", "on device"),
        ("aten::mul.Tensor", "driver", None),
        ("aten::mul.Tensor", "kernel", None),
    ],
)
def test_the_way_of_a_copy_is_told_by_its_name_or_not_at_all(name: str, kind: str, expected: str | None) -> None:
    assert direction(kernel(0, 1, name=name, role=kind)) == expected


@pytest.mark.parametrize(
    ("category", "expected"),
    [
        ("cpu_op", "operator"), ("kernel", "kernel"), ("Kernel", "kernel"), ("gpu_memcpy", "copy"),
        ("privateuse1_driver", "driver"), ("privateuse1_runtime", "dispatch"), ("ac2g", "flow"), ("user_annotation", "annotation"), (None, None), (7, None),
    ],
)  # fmt: skip
def test_what_an_event_is_is_told_by_its_category(category: object, expected: str | None) -> None:
    assert role(category) == expected


def test_the_runtimes_number_is_found_under_each_of_its_names() -> None:
    assert sequence_number({"nrt_sequence_id": 17}) == 17
    assert sequence_number({"nrta_seq_id": "18"}) == 18
    assert sequence_number({"seq_id": True, "nrt_seq_id": "x"}) is None
    assert sequence_number({}) is None


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=12))
def test_a_union_is_the_count_of_instants_that_something_covers(pieces: list[tuple[int, int]]) -> None:
    intervals = [(start, start + length) for start, length in pieces]
    covered = {instant for start, end in intervals for instant in range(start, end)}
    shuffled = intervals[:]
    random.Random(len(intervals)).shuffle(shuffled)
    assert union_ns(intervals) == union_ns(shuffled) == len(covered)
