"""Two results of a function: which of them are compared, which rows, and what of a difference is noise."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.core.anchor import row_costs
from profile_neuron.core.compare import (
    compare,
    comparison,
    difference_ns,
    incomparable,
    is_slower,
    is_told,
    lineage,
    row_change,
)
from profile_neuron.core.model import NO_OPERATORS, Change, ModuleDependency, RemovedRow, RowCost
from profile_neuron.core.outline import outline
from tests.unit.constructed import IMPORT, MS, even_change, result, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from profile_neuron.core.model import Comparison, Result

US = 1_000


def text(body: str, name: str = "f", before: str = "") -> str:
    """A file with one marked function; the first line of its body is line 4 and those of before more."""
    return f"{IMPORT}{before}@profile_neuron\ndef {name}(x):\n{textwrap.indent(textwrap.dedent(body), '    ')}"


def run(
    body: str,
    times_us: Mapping[int, int] | None = None,
    finished_s: float = 1000.0,
    spread_us: int | None = 0,
    line_spread_us: int | None = 0,
    before: str = "",
    **changes: Any,
) -> tuple[Result, str]:
    """A result whose lines of the body, counted from 1, take these times, and its text."""
    written = text(body, before=before)
    first = 3 + before.count("\n")
    ns = {line + first: us * US for line, us in (times_us or {}).items()}
    made = result(written, ns_by_line=ns or None, finished_s=finished_s)
    spread = None if line_spread_us is None else line_spread_us * US
    rows = tuple(replace(row, fastest_spread_ns=spread) for row in made.rows)
    costs = replace(made.costs, fastest_spread_ns=None if spread_us is None else spread_us * US)
    return replace(made, rows=rows, costs=costs, **changes), written


def compared(now: tuple[Result, str], *history: tuple[Result, str], choice: Any = "previous") -> Comparison:
    made, written = now
    return comparison(made, [made, *(item for item, _ in history)], shown(made, written), choice)


def told(found: Comparison) -> dict[int, str | int]:
    """Percent of what is told of each row by its start, and new for what the baseline has not."""
    seen: dict[int, str | int] = {}
    for row in found.rows:
        if row.change is None:
            seen[row.start] = "new"
        elif is_told(row.change):
            assert row.change.previous_fastest_ns
            seen[row.start] = round(100 * difference_ns(row.change) / row.change.previous_fastest_ns)
    return seen


BODY = "a = x + 1\nb = a * 2\nreturn b\n"
TIMES = {1: 1000, 2: 2000, 3: 3000}


def after(line: int, us: int) -> dict[int, int]:
    return {**TIMES, line: us}


class TestRows:
    def test_a_line_that_stayed_and_takes_longer_is_told_on_that_line_only(self) -> None:
        before = run(BODY, TIMES, before="N = 1\n")
        now = run(BODY, after(2, 3000), 2000.0, before="N = 2\n")
        found = compared(now, before)
        assert found.reason == ""
        assert found.baseline is before[0]
        assert told(found) == {1: 50}
        assert found.total == even_change(6 * MS, 7 * MS, 0.0)

    def test_one_line_that_was_edited_between_two_that_stayed_is_beside_what_it_was(self) -> None:
        found = compared(run(BODY.replace("a * 2", "a + a"), after(2, 1380), 2000.0), run(BODY, TIMES))
        assert told(found) == {1: -31}
        assert found.rows[1].was == "b = a * 2"
        assert [row.was for row in found.rows] == ["", "b = a * 2", ""]
        assert found.removed == ()

    @pytest.mark.parametrize(
        ("before", "now", "seen", "removed"),
        [
            pytest.param(BODY, "a = x + 1\nc = a\nb = a * 2\nreturn b\n", {1: "new"}, [], id="inserted"),
            pytest.param("a = x + 1\nc = a\nb = a * 2\nreturn b\n", BODY, {}, ["c = a"], id="removed"),
            pytest.param(
                BODY, "a = x + 1\nb = a\nb = b * 3\nreturn b\n", {1: "new", 2: "new"}, ["b = a * 2"], id="one by two"
            ),
            pytest.param(
                "a = x + 1\nb = a\nb = b * 3\nreturn b\n", BODY, {1: "new"}, ["b = a", "b = b * 3"], id="two by one"
            ),
            pytest.param(
                "a = x\nb = x\nc = x\nreturn c\n",
                "a = x\nb = 1\nc = 1\nreturn c\n",
                {1: "new", 2: "new"},
                ["b = x", "c = x"],
                id="two by two",
            ),
            pytest.param("return x\n", "return x + 1\n", {}, [], id="the only one"),
            pytest.param("a = x\nreturn a\n", "a = x\nreturn a + 1\n", {}, [], id="the last one"),
            pytest.param("a = x\nreturn x\n", "a = x + 1\nreturn x\n", {}, [], id="the first one"),
            pytest.param(
                "if x:\n    a = 1\n    b = 1\nreturn x\n",
                "if x:\n    a = 1\nb = 2\nreturn x\n",
                {2: "new"},
                ["b = 1"],
                id="another depth",
            ),
            pytest.param(
                "if x:\n    a = 1\nelse:\n    b = 1\nreturn x\n",
                "if x:\n    a = 1\n    b = 2\nreturn x\n",
                {2: "new"},
                ["b = 1"],
                id="another block",
            ),
            pytest.param(
                "for _ in x:\n    a = 1\nreturn a\n", "for _ in x.y:\n    a = 1\nreturn a\n", {}, [], id="loop header"
            ),
            pytest.param("a = x\nb = x\nreturn x\n", "b = x\na = x\nreturn x\n", {0: "new"}, ["b = x"], id="order"),
        ],
    )
    def test_unmatched_lines_are_new_but_for_one_in_place_of_one(
        self, before: str, now: str, seen: dict[int, str], removed: list[str]
    ) -> None:
        def each(body: str) -> dict[int, int]:
            return {number: 1000 for number, line in enumerate(body.split("\n")[:-1], 1) if line != "else:"}

        found = compared(run(now, each(now), 2000.0), run(before, each(before)))
        assert told(found) == seen
        assert [row.text for row in found.removed] == removed

    def test_removed_lines_have_their_time(self) -> None:
        found = compared(run("a = x + 1\nreturn b\n", {1: 1000, 2: 3000}, 2000.0), run(BODY, TIMES))
        assert found.removed == (RemovedRow("b = a * 2", 2 * MS),)

    def test_statements_that_came_together_on_a_line_are_beside_their_sum(self) -> None:
        apart, together = "a = x + 1\nb = a * 2\nreturn b\n", "a = x + 1; b = a * 2\nreturn b + 1\n"
        found = compared(run(together, {1: 6000, 2: 3000}, 2000.0), run(apart, TIMES))
        assert found.rows[0].change == even_change(3 * MS, 6 * MS, 0.0)

    def test_statements_that_were_parted_have_no_figure_of_their_own_to_be_beside(self) -> None:
        apart, together = "a = x + 1\nb = a * 2\nreturn b + 1\n", "a = x + 1; b = a * 2\nreturn b\n"
        found = compared(run(apart, TIMES, 2000.0), run(together, {1: 3000, 2: 3000}))
        assert [row.start for row in found.rows] == [2]

    def test_rows_that_share_a_figure_are_left_out(self) -> None:
        made, _ = run("a = x + 1; b = a * 2\nreturn b + 1\n", {1: 6000, 2: 3000}, 2000.0)
        parted = text("a = x + 1\nb = a * 2\nreturn b + 1\n")
        rows = shown(made, parted)
        assert rows[0].shared
        base, _ = run(BODY, TIMES)
        found = comparison(made, [made, base], rows, "previous")
        assert [row.start for row in found.rows] == [2]
        assert row_change(found, rows[0]) is None

    def test_a_line_that_ran_no_operator_before_has_nothing_to_be_a_percentage_of(self) -> None:
        found = compared(run(BODY, TIMES, 2000.0, before="N = 1\n"), run(BODY, {1: 1000}, before="N = 2\n"))
        assert told(found) == {}
        assert found.rows[1].change == even_change(0, 2 * MS, None)

    def test_the_line_of_def_is_beside_itself(self) -> None:
        now, before = run(BODY, {0: 3000}, 2000.0, before="N = 1\n"), run(BODY, {0: 2000}, before="N = 2\n")
        assert told(compared(now, before)) == {-1: 50}

    def test_a_row_is_found_again_by_its_start(self) -> None:
        made, written = run(BODY, after(2, 3000), 2000.0, before="N = 1\n")
        before, _ = run(BODY, TIMES, before="N = 2\n")
        rows = shown(made, written)
        found = comparison(made, [made, before], rows, "previous")
        assert [row_change(found, row) for row in rows] == list(found.rows)
        assert row_change(None, rows[0]) is None
        assert row_change(found, replace(rows[0], cost=replace(rows[0].cost, start=77))) is None


class TestNoise:
    @pytest.mark.parametrize(
        ("before_us", "now_us", "is_shown"),
        [
            pytest.param(1000, 1030, True, id="3 percent"),
            pytest.param(1000, 1029, False, id="less than 3 percent"),
            pytest.param(1000, 970, True, id="3 percent faster"),
            pytest.param(1000, 971, False, id="less than 3 percent faster"),
            pytest.param(10, 15, True, id="5 µs"),
            pytest.param(10, 14, False, id="less than 5 µs"),
            pytest.param(15, 10, True, id="5 µs faster"),
        ],
    )
    def test_small_differences_are_not_told(self, before_us: int, now_us: int, is_shown: bool) -> None:
        change = even_change(before_us * US, now_us * US, 0.0)
        assert is_told(change) is is_shown
        assert is_slower(change) is (is_shown and now_us > before_us)

    @pytest.mark.parametrize(
        ("spread_us", "previous_spread_us", "noise"),
        [(0, 0, 0.0), (100, 0, 0.1), (0, 100, 0.1), (300, 400, 0.5), (None, 0, None), (0, None, None)],
    )
    def test_noise_is_twice_the_spread_of_the_difference(
        self, spread_us: int | None, previous_spread_us: int | None, noise: float | None
    ) -> None:
        now = run(BODY, after(2, 3000), 2000.0, spread_us, spread_us, before="N = 1\n")
        before = run(BODY, TIMES, 1000.0, previous_spread_us, previous_spread_us, before="N = 2\n")
        found = compared(now, before)
        change, total = found.rows[1].change, found.total
        assert change is not None
        assert total is not None
        if noise is None:
            assert (change.noise, total.noise) == (None, None)
            assert not is_told(change)
        else:
            # Of a row of 2 ms, and of a function of 6 ms.
            assert change.noise == pytest.approx(noise)
            assert total.noise == pytest.approx(noise / 3)
            assert is_told(change) is (noise <= 0.5)

    def busy(self, made: tuple[Result, str], line: int, us: int) -> tuple[Result, str]:
        """The same where a line took some µs more on average, by calls that were not the fastest."""
        item, written = made
        rows = [replace(row, total_ns=row.total_ns + us * US) if row.start == line - 1 else row for row in item.rows]
        costs = replace(item.costs, host_ns=(item.costs.host_ns or 0) + us * US)
        return replace(item, rows=tuple(rows), costs=costs), written

    def test_what_only_slower_calls_took_more_is_not_told(self) -> None:
        now = self.busy(run(BODY, TIMES, 2000.0, before="N = 1\n"), 2, 5000)
        found = compared(now, run(BODY, TIMES, before="N = 2\n"))
        assert found.rows[1].change == Change(2 * MS, 7 * MS, 0.0, 2 * MS, 2 * MS)
        assert found.total == Change(6 * MS, 11 * MS, 0.0, 6 * MS, 6 * MS)
        assert told(found) == {}
        assert not is_told(found.total)

    def test_a_line_that_is_slower_is_told_beside_one_that_slower_calls_disturbed(self) -> None:
        before = self.busy(run(BODY, TIMES, before="N = 2\n"), 2, 5000)
        now = self.busy(run(BODY, after(2, 3000), 2000.0, before="N = 1\n"), 1, 5000)
        assert told(compared(now, before)) == {1: 50}

    @pytest.mark.parametrize("is_now", [True, False], ids=["now", "before"])
    def test_of_a_line_that_not_all_calls_ran_nothing_is_told(self, is_now: bool) -> None:
        runs = [run(BODY, after(2, 3000), 2000.0, before="N = 1\n"), run(BODY, TIMES, before="N = 2\n")]
        made, written = runs[not is_now]
        rows = [replace(row, fastest_ns=None, fastest_spread_ns=None) if row.start == 1 else row for row in made.rows]
        runs[not is_now] = replace(made, rows=tuple(rows)), written
        found = compared(*runs)
        assert found.rows[1].change is not None
        assert (found.rows[1].change.ns, found.rows[1].change.noise) == (3 * MS, None)
        assert told(found) == {}

    def test_of_a_row_of_several_lines_times_and_spreads_are_added_up(self) -> None:
        body = "return (\n    x + 1\n    + 2\n)\n"
        made = result(text(body), ns_by_line={5: 1000 * US, 6: 1000 * US})
        first, second = (
            replace(line, fastest_ns=900 * US, fastest_spread_ns=30 * US, spread_ns=7) for line in made.costs.lines
        )
        function = outline(text(body)).functions[0]
        (row,) = row_costs(replace(made.costs, lines=(first, second)), function)
        assert row == RowCost(0, 1, 2 * MS, 2 * MS, None, row.operators, 1800 * US, 60 * US)
        unknown = replace(second, fastest_ns=None, fastest_spread_ns=None)
        (row,) = row_costs(replace(made.costs, lines=(first, unknown)), function)
        assert (row.total_ns, row.fastest_ns, row.fastest_spread_ns) == (2 * MS, None, None)

    def test_runs_of_todays_code_say_how_much_it_varies(self) -> None:
        before = run(BODY, TIMES, before="N = 1\n")
        now = run(BODY, after(2, 3000), 2000.0, before="N = 2\n")
        assert told(compared(now, before)) == {1: 50}
        again = run(BODY, after(2, 2400), 1500.0, before="N = 2\n")
        found = compared(now, again, before)
        assert found.baseline is before[0]
        assert found.rows[1].change is not None
        assert found.rows[1].change.noise == pytest.approx(0.25)
        assert told(found) == {1: 50}
        assert told(compared(now, run(BODY, after(2, 1900), 1500.0, before="N = 2\n"), before)) == {}

    def test_runs_of_the_baselines_code_say_how_much_it_varies(self) -> None:
        now = run(BODY, after(2, 3000), 2000.0, before="N = 2\n")
        before = run(BODY, TIMES, 1500.0, before="N = 1\n")
        assert told(compared(now, before, run(BODY, after(2, 3200), 1000.0, before="N = 1\n"))) == {}

    def test_a_run_with_other_inputs_says_nothing_about_noise(self) -> None:
        now = run(BODY, after(2, 3000), 2000.0, before="N = 2\n")
        before = run(BODY, TIMES, 1500.0, before="N = 1\n")
        other = run(BODY, after(2, 9000), 1000.0, before="N = 1\n", inputs="others")
        assert told(compared(now, before, other)) == {1: 50}

    LONG = "a = x\nb = x\nc = x\nd = x\nreturn d\n"
    EVEN = dict.fromkeys(range(1, 6), 1000)

    def drifting(self, times: Mapping[int, int], before: str = LONG, now: str = "") -> Comparison:
        return compared(run(now or self.LONG.replace("d = x", "d = x + 1"), times, 2000.0), run(before, self.EVEN))

    def test_what_came_before_the_edit_says_by_how_much_the_machine_drifted(self) -> None:
        assert told(self.drifting({1: 1000, 2: 1000, 3: 1000, 4: 1500, 5: 1000})) == {3: 50}
        assert told(self.drifting({1: 1200, 2: 1200, 3: 1200, 4: 1500, 5: 1200})) == {3: 50}
        slow = self.drifting({1: 1300, 2: 1300, 3: 1300, 4: 1500, 5: 1300})
        assert told(slow) == {}
        assert slow.total is not None
        assert slow.total.noise == pytest.approx(0.6)

    def test_a_line_that_differs_alone_is_no_drift(self) -> None:
        assert told(self.drifting({1: 1000, 2: 1000, 3: 2000, 4: 1500, 5: 1000})) == {2: 100, 3: 50}

    def test_lines_weigh_by_their_time(self) -> None:
        before = run(self.LONG, {1: 9000, 2: 1000, 3: 1000, 4: 1000, 5: 1000})
        now = self.LONG.replace("d = x", "d = x + 1")
        found = compared(run(now, {1: 13500, 2: 1000, 3: 1000, 4: 1000, 5: 1000}, 2000.0), before)
        assert told(found) == {}
        assert found.total is not None
        assert found.total.noise == pytest.approx(1.0)

    def test_what_comes_after_the_edit_may_be_its_doing(self) -> None:
        now = self.LONG.replace("a = x", "a = x.half()")
        faster = {1: 1000, 2: 500, 3: 500, 4: 500, 5: 500}
        assert told(self.drifting(faster, now=now)) == {1: -50, 2: -50, 3: -50, 4: -50}

    def test_two_lines_are_too_few_to_tell_a_drift(self) -> None:
        now = self.LONG.replace("c = x", "c = x + 1")
        assert told(self.drifting({1: 1300, 2: 1300, 3: 1500, 4: 1300, 5: 1300}, now=now)) == {
            0: 30, 1: 30, 2: 50, 3: 30, 4: 30,
        }  # fmt: skip

    def test_in_a_loop_what_comes_before_an_edit_also_comes_after_it(self) -> None:
        loop = "for _ in x:\n    a = x\n    b = x\n    c = x\n    d = x\nreturn d\n"
        times = dict.fromkeys(range(1, 7), 1000)
        slower = dict.fromkeys(range(1, 7), 1500)
        found = compared(run(loop.replace("d = x", "d = x + 1"), slower, 2000.0), run(loop, times))
        assert told(found) == {0: 50, 1: 50, 2: 50, 3: 50, 4: 50, 5: 50}

    def test_lines_that_call_code_of_the_project_are_no_measure_of_the_machine(self) -> None:
        now, written = run(self.LONG.replace("d = x", "d = x + 1"), dict.fromkeys(range(1, 6), 1500), 2000.0)
        now = replace(now, rows=tuple(replace(row, self_ns=1) for row in now.rows))
        found = compared((now, written), run(self.LONG, self.EVEN))
        assert told(found) == {0: 50, 1: 50, 2: 50, 3: 50, 4: 50}

    def test_what_other_code_of_the_module_may_have_changed_is_no_measure_of_the_machine(self) -> None:
        now = run(self.LONG, dict.fromkeys(range(1, 6), 1500), 2000.0, before="N = 2\n")
        assert told(compared(now, run(self.LONG, self.EVEN, before="N = 1\n"))) == dict.fromkeys(range(5), 50)

    @given(
        st.lists(st.integers(1, 10_000), min_size=3, max_size=3),
        st.lists(st.integers(0, 3000), min_size=3, max_size=3),
        st.integers(0, 500),
    )
    def test_nothing_is_told_of_less_than_its_own_threshold(
        self, before: list[int], more: list[int], spread: int
    ) -> None:
        first = dict(enumerate(before, 1))
        second = {line: us + plus for (line, us), plus in zip(first.items(), more, strict=True)}
        found = compared(
            run(BODY, second, 2000.0, spread, spread, before="N = 1\n"),
            run(BODY, first, 1000.0, spread, spread, before="N = 2\n"),
        )
        for row in found.rows:
            assert row.change is not None
            if is_told(row.change):
                delta = row.change.ns - row.change.previous_ns
                assert delta >= 5 * US
                assert delta >= 0.03 * row.change.previous_ns
                assert delta >= 2 * spread * US


class TestBaseline:
    def test_the_newest_result_of_other_code_is_the_previous_one(self) -> None:
        now = run(BODY, TIMES, 4000.0)
        again = run(BODY, after(1, 5), 3000.0)
        before = run(BODY.replace("x + 1", "x + 2"), TIMES, 2000.0)
        older = run(BODY.replace("x + 1", "x + 3"), TIMES, 1000.0)
        assert compared(now, again, before, older).baseline is before[0]

    def test_after_an_undo_it_is_the_one_that_was_taken_back_although_it_is_newer(self) -> None:
        edited = run(BODY.replace("x + 1", "x + 2"), after(1, 2000), 2000.0)
        made, written = run(BODY, TIMES, 1000.0)
        found = comparison(made, [edited[0], made], shown(made, written), "previous")
        assert found.baseline is edited[0]
        assert told(found) == {0: -50}

    @pytest.mark.parametrize("us", [1, 1000, 100_000])
    def test_results_of_the_same_code_are_never_compared(self, us: int) -> None:
        found = compared(run(BODY, after(2, us), 2000.0), run(BODY, TIMES))
        assert (found.baseline, found.reason, found.rows, found.total) == (
            None,
            "no earlier result of other code",
            (),
            None,
        )

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"module_code": "x"}, id="code outside of functions"),
            pytest.param({"interface": "x", "signature": "same"}, id="decorator"),
            pytest.param({"functions": ()}, id="helper"),
            pytest.param({"modules": (ModuleDependency("/p/a.py", "1", "", ()),)}, id="module"),
        ],
    )
    def test_what_the_function_depends_on_is_code_as_well(self, changes: dict[str, Any]) -> None:
        helper = "def helper(): return helper2()\ndef helper2(): pass\n"
        base = {"modules": (ModuleDependency("/p/a.py", "0", "", ()),), "signature": "same"}
        now = run("return helper(x)\n", {1: 1500}, 2000.0, before=helper, **base)
        before = run("return helper(x)\n", {1: 1000}, before=helper, **{**base, **changes})
        assert now[0].functions
        assert told(compared(now, before)) == {0: 50}

    def test_other_bytes_of_a_module_with_the_same_code_are_no_other_code(self) -> None:
        now = run(BODY, TIMES, 2000.0, modules=(ModuleDependency("/p/a.py", "1", "code", ()),))
        assert compared(now, run(BODY, TIMES, modules=(ModuleDependency("/p/a.py", "0", "code", ()),))).baseline is None

    def test_the_pinned_one_is_compared_with_whatever_came_since(self) -> None:
        now = run(BODY, after(1, 1500), 4000.0)
        before = run(BODY.replace("x + 1", "x + 2"), TIMES, 2000.0)
        pinned = run(BODY.replace("x + 1", "x + 3"), TIMES, 1000.0, is_pinned=True)
        found = compared(now, before, pinned, choice="pinned")
        assert found.baseline is pinned[0]
        assert told(found) == {0: 50}

    def test_with_nothing_pinned_nothing_is_compared(self) -> None:
        before = run(BODY.replace("x + 1", "x + 2"), TIMES, 2000.0)
        found = compared(run(BODY, TIMES, 4000.0), before, choice="pinned")
        assert (found.baseline, found.reason, found.total) == (None, "no result is pinned", None)

    def test_todays_code_is_not_compared_with_itself_where_it_is_the_pinned_one(self) -> None:
        pinned = run(BODY, TIMES, 1000.0, is_pinned=True)
        found = compared(run(BODY, after(1, 9000), 4000.0), pinned, choice="pinned")
        assert (found.reason, found.total, found.rows) == (
            "no comparison: the pinned result is of the same code",
            None,
            (),
        )

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"device_kind": "neuron"}, "measured on another kind of device, neuron"),
            ({"device_name": "trn2"}, "measured on another device, trn2"),
            ({"inputs": "b8"}, "measured with other inputs"),
            ({"signature": "(2, 3)"}, "measured with inputs of other shapes or types"),
            ({"interface": "x"}, "signature, decorator or inputs changed"),
        ],
    )
    def test_what_was_measured_otherwise_is_not_compared(self, changes: dict[str, Any], reason: str) -> None:
        before = run(BODY.replace("x + 1", "x + 2"), TIMES, **changes)
        found = compared(run(BODY, after(1, 5000), 2000.0), before)
        assert (found.reason, found.total, found.rows) == (f"no comparison: {reason}", None, ())
        assert found.baseline is before[0]

    def test_another_torch_is_not_compared(self) -> None:
        now, before = run(BODY, TIMES, 2000.0), run(BODY.replace("x + 1", "x"), TIMES)
        other = replace(before[0], toolchain=replace(before[0].toolchain, torch="2.12.0"))
        assert incomparable(now[0], other) == "measured with torch 2.12.0"

    def test_a_run_without_operators_is_not_compared(self) -> None:
        now, before = run(BODY, TIMES, 2000.0), run(BODY.replace("x + 1", "x"), TIMES)
        other = replace(before[0], costs=replace(before[0].costs, warnings=(NO_OPERATORS,)))
        assert incomparable(now[0], other) == incomparable(other, now[0]) == NO_OPERATORS


class TestLineage:
    def results(self, *runs: tuple[str, str, float]) -> dict[tuple[str, int], list[Result]]:
        """Results by name, of names with bodies and times, newest first."""
        made = [
            result(text(body, name), name, finished_s=finished_s)
            for name, body, finished_s in sorted(runs, key=lambda one: -one[2])
        ]
        found: dict[tuple[str, int], list[Result]] = {}
        for item in made:
            found.setdefault((item.qualname, item.occurrence), []).append(item)
        return found

    def names(
        self, found: dict[tuple[str, int], list[Result]], name: str, body: str, *there: str
    ) -> list[tuple[str, float]]:
        body_digest = result(text(body, name), name).body
        gone = {other: items for other, items in found.items() if other[0] not in (name, *there)}
        items = lineage(found.get((name, 0), ()), body_digest, gone)
        return [(item.qualname, item.finished_s) for item in items]

    def test_a_function_that_was_renamed_and_run_since_keeps_what_was_before(self) -> None:
        found = self.results(("f", "return x\n", 1.0), ("f", BODY, 2.0), ("g", BODY, 3.0), ("g", "return 1\n", 4.0))
        assert self.names(found, "g", "return 1\n") == [("g", 4.0), ("g", 3.0), ("f", 2.0), ("f", 1.0)]

    def test_a_function_that_was_renamed_twice_keeps_it_too(self) -> None:
        found = self.results(("f", "return x\n", 1.0), ("f", BODY, 2.0), ("g", BODY, 3.0), ("h", BODY, 4.0))
        assert [name for name, _ in self.names(found, "h", BODY)] == ["h", "g", "f", "f"]

    def test_a_function_that_was_renamed_and_not_run_since_has_the_history_of_its_body(self) -> None:
        found = self.results(("f", BODY, 2.0), ("k", "return 2\n", 3.0))
        assert self.names(found, "g", BODY) == [("f", 2.0)]

    def test_a_function_that_is_still_there_keeps_its_history_for_itself(self) -> None:
        found = self.results(("f", BODY, 2.0), ("g", BODY, 3.0))
        assert self.names(found, "g", BODY, "f") == [("g", 3.0)]

    def test_one_that_was_removed_later_was_no_earlier_name(self) -> None:
        found = self.results(("f", BODY, 1.0), ("f", BODY, 5.0), ("g", BODY, 3.0))
        assert self.names(found, "g", BODY) == [("g", 3.0)]

    def test_the_same_statements_under_a_new_name_are_the_same_code(self) -> None:
        found = self.results(("f", BODY, 2.0), ("g", BODY, 3.0))
        (now,) = found["g", 0]
        assert comparison(now, [now, *found["f", 0]], shown(now, text(BODY, "g"), "g"), "previous").baseline is None


def test_a_function_of_thousands_of_lines_is_compared_in_an_instant() -> None:
    # One that looks through all rows for each row would take minutes.
    body = "".join(f"a{number} = x\n" for number in range(4000))
    made, written = run(body, dict.fromkeys(range(1, 4001), 1000), 2000.0, before="N = 1\n")
    before, _ = run(body, dict.fromkeys(range(1, 4001), 2000), before="N = 2\n")
    found = compare(made, before, shown(made, written), "previous", [made], [before])
    assert len(found.rows) == 4000
    assert set(told(found).values()) == {-50}
