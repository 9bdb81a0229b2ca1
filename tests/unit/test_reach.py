"""What is known to have been entered, by the way of this interpreter, and when nothing is known."""

from __future__ import annotations

import sys
import textwrap
import threading
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.worker import reach as reach_module
from profile_neuron.worker.line_clock import default_clock
from profile_neuron.worker.reach import MonitoringReach, Reach, function_lines, new_reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SOURCE = """\
import functools
@functools.lru_cache
@functools.wraps(print)
def f(n):
    def inner():
        return [x for x in range(n)]
    return inner()
class A:
    def method(self):
        yield from map(lambda x: x, [1])
    def unused(self): ...
def unused(): ...
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "project.py")


@pytest.fixture
def reach(path: str) -> Iterator[Reach]:
    found = new_reach()
    found.start({path})
    yield found
    found.stop()


@pytest.fixture
def load(path: str) -> Callable[..., dict[str, Any]]:
    def execute(text: str = SOURCE) -> dict[str, Any]:
        space: dict[str, Any] = {}
        exec(compile(textwrap.dedent(text), path, "exec"), space)
        return space

    return execute


def test_functions_that_were_entered_are_told_by_their_first_line(reach: Reach, path: str, load: Any) -> None:
    space = load()
    space["f"](2)
    list(space["A"]().method())
    reach.stop()
    space["unused"]()
    assert function_lines(reach.entered) == {path: (2, 5, 9, 10)}
    assert reach.complete


def test_bodies_of_modules_and_classes_are_not_functions(reach: Reach, load: Any) -> None:
    load()
    assert [code.co_name for code in reach.entered] == ["<module>", "A"]
    assert function_lines(reach.entered) == {}


def test_code_outside_of_the_project_is_left_out(reach: Reach) -> None:
    space: dict[str, Any] = {}
    exec(compile(SOURCE, "/elsewhere.py", "exec"), space)
    space["f"](2)
    assert reach.entered == ()


def test_functions_that_new_threads_enter_are_told(reach: Reach, path: str, load: Any) -> None:
    thread = threading.Thread(target=load()["unused"])
    thread.start()
    thread.join()
    assert function_lines(reach.entered) == {path: (12,)}


def test_each_start_begins_anew_and_the_line_clock_in_between_does_no_harm(path: str, load: Any) -> None:
    space, reach = load(), new_reach()
    for _ in range(2):
        reach.start({path})
        space["unused"]()
        reach.stop()
        assert function_lines(reach.entered) == {path: (12,)}
        clock = default_clock()(lambda name: pytest.fail(name), {path})
        clock.start()
        space["f"].__wrapped__(1)
        clock.stop()
        assert function_lines(clock.entered()) == {path: (2, 5)}
    assert reach.complete


def test_the_place_is_left_as_it_was(path: str) -> None:
    before = sys.gettrace(), threading._trace_hook  # type: ignore[attr-defined]
    reach = new_reach()
    reach.start({path})
    reach.stop()
    reach.stop()
    assert (sys.gettrace(), threading._trace_hook) == before  # type: ignore[attr-defined]
    assert sys.settrace is reach_module._settrace
    if isinstance(reach, MonitoringReach):
        assert all("reach" not in (sys.monitoring.get_tool(tool) or "") for tool in range(6))  # type: ignore[attr-defined]


TAKES = {
    "for good": "sys.settrace(lambda *a: None)",
    "for a while": "before = sys.gettrace(); sys.settrace(None); sys.settrace(before)",
    "in new threads": "threading.settrace(None)",
}


@pytest.mark.parametrize("how", TAKES)
def test_user_code_that_traces_itself_leaves_it_unknown(how: str, reach: Reach, load: Any) -> None:
    if isinstance(reach, MonitoringReach):
        pytest.skip("sys.monitoring is not disturbed by sys.settrace")
    load(f"import sys, threading\n{TAKES[how]}")
    assert not reach.look()
    reach.stop()
    assert not reach.complete


def test_user_code_that_ends_our_tool_leaves_it_unknown(reach: Reach, load: Any) -> None:
    if not isinstance(reach, MonitoringReach):
        pytest.skip("Python has sys.monitoring from 3.12 on")
    load(f"import sys\nsys.monitoring.free_tool_id({reach._tool})")
    assert not reach.look()
