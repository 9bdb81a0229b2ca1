"""The clock of this interpreter: what it opens and counts, and what it leaves behind."""

from __future__ import annotations

import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.worker import line_clock
from profile_neuron.worker.failures import Conflict
from profile_neuron.worker.line_clock import LineClock, SettraceClock, default_clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOURCE = """\
def f(n):
    mark(n)
    if n:
        f(n - 1)
    return n

def gen():
    yield mark("a")
    yield mark("b")

def fails():
    mark("before")
    raise ValueError

def outer():
    try:
        fails()
    except ValueError:
        pass
    mark("after")
"""


class Ranges:
    """Opens ranges by writing down which are open when something asks."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.made: list[str] = []
        self.seen: list[tuple[object, tuple[str, ...]]] = []

    def __call__(self, name: str) -> Any:
        ranges = self
        self.made.append(name)

        class Range:
            def __enter__(self) -> None:
                ranges.open.append(name)

            def __exit__(self, *error: object) -> None:
                assert ranges.open.pop() == name, "ranges are strictly nested"

        return Range()

    def mark(self, what: object) -> None:
        self.seen.append((what, tuple(self.open)))


@pytest.fixture
def clocked(tmp_path: Path) -> tuple[LineClock, Ranges, dict[str, Callable[..., Any]]]:
    path = str(tmp_path / "project.py")
    ranges = Ranges()
    space: dict[str, Any] = {"mark": ranges.mark}
    exec(compile(SOURCE, path, "exec"), space)
    return default_clock()(ranges, {path}), ranges, space


def lines(clock: LineClock, ranges: tuple[str, ...]) -> list[int]:
    """Numbers of the lines that a stack of ranges stands for, without the call's own range."""
    return [clock.lines[int(name.removeprefix("pn.line:"))][1] for name in ranges[1:]]


def test_the_open_ranges_are_the_stack_of_running_lines(clocked: Any) -> None:
    clock, ranges, space = clocked
    clock.start()
    with clock.call(0):
        space["f"](1)
        list(space["gen"]())
        space["outer"]()
    clock.stop()
    assert [(what, lines(clock, stack)) for what, stack in ranges.seen] == [
        (1, [2]),
        (0, [4, 2]),
        ("a", [8]),
        ("b", [9]),
        ("before", [17, 12]),
        ("after", [20]),
    ]
    assert ranges.open == []
    assert not clock.broken


def test_entries_count_starts_with_recursion_and_without_resumptions(clocked: Any) -> None:
    clock, _, space = clocked
    clock.start()
    with clock.call(None):
        space["f"](5)
    with clock.call(0):
        space["f"](2)
        list(space["gen"]())
    space["f"](1)
    clock.stop()
    assert {code.co_name: count for code, count in clock.entries()} == {"f": 3, "gen": 1}


def test_nothing_is_opened_outside_of_calls(clocked: Any) -> None:
    clock, ranges, space = clocked
    clock.start()
    space["f"](1)
    clock.stop()
    assert [stack for _, stack in ranges.seen] == [(), ()]


def test_a_range_is_made_once_per_line_and_depth_and_used_again(clocked: Any) -> None:
    clock, ranges, space = clocked
    clock.start()
    for number in range(3):
        with clock.call(number):
            space["f"](1)
    clock.stop()
    own = [name for name in ranges.made if name.startswith("pn.line:")]
    # Lines 2, 3 and 5 are never open twice at a time, and neither is line 4.
    assert len(own) == len(set(own)) == 4


def test_code_outside_of_the_project_is_not_followed(clocked: Any) -> None:
    clock, ranges, _ = clocked
    space: dict[str, Any] = {"mark": ranges.mark}
    exec(compile(SOURCE, "/elsewhere.py", "exec"), space)
    clock.start()
    with clock.call(0):
        space["f"](0)
    clock.stop()
    assert ranges.seen == [(0, ("pn.call:0",))]
    assert clock.entries() == []


def test_two_files_with_equal_code_are_told_apart(tmp_path: Path) -> None:
    ranges = Ranges()
    paths = [str(tmp_path / name) for name in ("a.py", "b.py")]
    clock = default_clock()(ranges, set(paths))
    clock.start()
    with clock.call(0):
        for path in paths:
            space: dict[str, Any] = {"mark": ranges.mark}
            exec(compile("def f(): mark(1)", path, "exec"), space)
            space["f"]()
    clock.stop()
    found = [clock.lines[int(stack[-1].removeprefix("pn.line:"))][0].co_filename for _, stack in ranges.seen]
    assert found == paths


def test_threads_have_stacks_of_their_own(clocked: Any) -> None:
    clock, ranges, space = clocked
    clock.start()
    with clock.call(0):
        thread = threading.Thread(target=space["outer"])
        thread.start()
        thread.join()
    clock.stop()
    assert [(what, lines(clock, stack)) for what, stack in ranges.seen] == [("before", [17, 12]), ("after", [20])]


def test_what_was_there_before_is_put_back(clocked: Any) -> None:
    clock, _, space = clocked

    def own(*_: object) -> None: ...

    before, before_threads = sys.gettrace(), threading._trace_hook  # type: ignore[attr-defined]
    try:
        sys.settrace(own)
        threading.settrace(own)
        clock.start()
        with clock.call(0):
            space["f"](0)
        assert clock.still_installed()
        clock.stop()
        assert sys.gettrace() is own
        assert threading._trace_hook is own  # type: ignore[attr-defined]
    finally:
        sys.settrace(before)
        threading.settrace(before_threads)
    if not isinstance(clock, SettraceClock):
        assert all(sys.monitoring.get_tool(tool) != "profile-neuron" for tool in range(6))  # type: ignore[attr-defined]


def test_a_hook_that_user_code_takes_away_is_noticed_and_no_range_stays_open(clocked: Any) -> None:
    clock, ranges, space = clocked
    if isinstance(clock, SettraceClock):
        take_away = functools.partial(line_clock._settrace, None)
    else:
        take_away = lambda: sys.monitoring.free_tool_id(clock._tool)  # type: ignore[attr-defined]  # noqa: E731
    space["mark"] = lambda what: take_away()
    clock.start()
    with clock.call(0):
        space["f"](0)
    assert not clock.still_installed()
    assert ranges.open == []
    clock.stop()


def test_setting_a_trace_function_in_a_call_is_an_error_at_that_line(clocked: Any) -> None:
    clock, _, space = clocked
    if not isinstance(clock, SettraceClock):
        pytest.skip("sys.monitoring is not disturbed by sys.settrace")
    space["mark"] = lambda what: sys.settrace(None)
    clock.start()
    try:
        with clock.call(0), pytest.raises(Conflict, match=r"sys\.settrace was called"):
            space["f"](0)
        assert clock.still_installed()
    finally:
        clock.stop()
    assert sys.settrace is line_clock._settrace
