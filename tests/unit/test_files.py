"""Open files: what there is to show of their functions while a person edits."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.core.fingerprint import digest
from profile_neuron.core.keys import text_key
from profile_neuron.core.model import Activity, Failure, Frame, FunctionView, ModuleDependency, ShownState
from profile_neuron.core.modules import Module
from profile_neuron.core.outline import outline
from profile_neuron.core.render import row_delta
from profile_neuron.daemon.disk import Problem
from profile_neuron.daemon.files import OpenFile, Outcome
from profile_neuron.daemon.scheduler import FunctionId
from profile_neuron.daemon.wanted import needs_run
from tests.unit.constructed import IMPORT, MADE_WITH, MS, PATH, even_change, result

if TYPE_CHECKING:
    from profile_neuron.core.model import Result

MODULES = ("profile_neuron",)
TEXT = IMPORT + textwrap.dedent(
    """\
    SCALE = 2
    def helper(x):
        return x
    @profile_neuron
    def f(x):
        a = x + 1
        b = helper(a)
        return b
    @profile_neuron
    def g(x):
        return x - 1
    """
)
# Lines: 5 decorator, 6 def f, 7 a, 8 b, 9 return; 10 decorator, 11 def g, 12 return.
F, G = FunctionId(PATH, "f", 0), FunctionId(PATH, "g", 0)


class Editor:
    """A person's editor of one file."""

    def __init__(self, text: str = TEXT, *results: Result) -> None:
        self.file = OpenFile(PATH, "file:///p/m.py", "/p", "", text, 1, saved_text=text, opened_text=text)
        self.file.circumstances = MADE_WITH
        self.file.results = results
        self.epoch = 0
        self.activity: dict[FunctionId, Activity] = {}
        self.state: ShownState | None = None

    def edit(self, before: str, after: str) -> Editor:
        assert self.file.text.count(before) == 1, before
        return self.write(self.file.text.replace(before, after))

    def write(self, text: str) -> Editor:
        self.file.replace_text(text, self.file.version + 1)
        return self

    def views(self) -> dict[str, FunctionView]:
        self.epoch += 1
        self.file.analyse(MODULES)
        return {item.spec.qualname: item for item in self.file.views(self.epoch, self.activity.get, self.state)}

    def shown(self, qualname: str = "f") -> tuple[str, list[tuple[int, int]]]:
        """State of a function, and line and measured ms of each of its rows, which are those of the lines then."""
        view = self.views()[qualname]
        return view.state, [(row.line, row.cost.total_ns // MS) for row in view.rows]


def opened(text: str = TEXT) -> Editor:
    """A file with results of both functions, f's being the newer one."""
    return Editor(text, result(TEXT), result(TEXT, "g", finished_s=900.0))


ROWS = [(7, 7), (8, 8), (9, 9)]


def moved(by: int) -> list[tuple[int, int]]:
    return [(line + by, ms) for line, ms in ROWS]


def test_a_result_of_this_text_is_fresh_with_rows_at_their_lines() -> None:
    assert opened().shown() == ("fresh", ROWS)
    assert opened().shown("g") == ("fresh", [(12, 12)])
    view = opened().views()["f"]
    assert (view.is_current, view.reasons, view.inputs_changed, view.failure, view.activity) == (
        True,
        (),
        False,
        None,
        None,
    )


def test_without_results_there_is_nothing() -> None:
    assert Editor().shown() == ("none", [])


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param("SCALE", "# why\n\nSCALE", ("fresh", moved(2)), id="comment"),
        pytest.param("SCALE = 2", "'doc'\nSCALE = (\n    2)", ("fresh", moved(2)), id="docstring and formatting"),
        pytest.param("a = x + 1", "a = x + 2", ("stale", [(8, 8), (9, 9)]), id="edited statement"),
        pytest.param(
            "a = x + 1", "a = x + 1\n    c = a", ("stale", [(7, 7), (9, 8), (10, 9)]), id="inserted statement"
        ),
        pytest.param("return x\n", "return x + 1\n", ("stale", ROWS), id="helper"),
        pytest.param("return x - 1", "return x - 2", ("fresh", ROWS), id="another function"),
        pytest.param("SCALE = 2", "SCALE = 3", ("stale", ROWS), id="constant"),
        pytest.param("def f(x)", "def f(x, y)", ("stale", []), id="signature"),
        pytest.param("def f(x)", "def h(x)", None, id="name"),
    ],
)
def test_an_edit_leaves_what_is_still_true(
    before: str, after: str, expected: tuple[str, list[tuple[int, int]]] | None
) -> None:
    editor = opened().edit(before, after)
    assert editor.shown("f" if expected else "h") == (expected or ("stale", ROWS))


def test_undo_gives_fresh_numbers_again() -> None:
    editor = opened()
    assert editor.edit("x + 1", "x + 2").shown()[0] == "stale"
    assert editor.edit("x + 2", "x + 1").shown() == ("fresh", ROWS)


def test_of_several_results_the_one_of_this_text_is_shown_else_the_newest() -> None:
    texts = [TEXT.replace("x + 1", f"x + {number}") for number in range(4)]
    results = [result(text, finished_s=1000.0 - number) for number, text in enumerate(texts)]
    editor = Editor(texts[2], *results)
    assert editor.shown() == ("fresh", ROWS)
    assert editor.views()["f"].result is results[2]
    assert editor.write(TEXT.replace("x + 1", "x + 9")).shown() == ("stale", [(8, 8), (9, 9)])
    assert editor.views()["f"].result is results[0]


def test_signature_or_inputs_that_changed_leave_no_rows() -> None:
    for editor in (opened().edit("def f(x)", "def f(x=1)"), opened().write(f"{TEXT}def f_inputs(): return (1,)\n")):
        view = editor.views()["f"]
        assert (view.state, view.inputs_changed, view.rows, view.is_current) == ("stale", True, (), False)


def test_a_renamed_function_keeps_its_history_until_it_has_one_of_its_own() -> None:
    editor = opened().edit("def f(", "def renamed(")
    view = editor.views()["renamed"]
    assert view.result is editor.file.results[0]
    assert (view.state, view.is_current) == ("stale", False)
    assert [row.line for row in view.rows] == [7, 8, 9]
    own = result(editor.file.text, "renamed", finished_s=2000.0)
    editor.file.results = (own, *editor.file.results)
    assert editor.views()["renamed"].result is own
    assert editor.views()["renamed"].state == "fresh"


def test_a_copy_of_a_function_under_another_name_has_no_history() -> None:
    editor = opened().write(
        TEXT + TEXT.split("return x\n")[1].split("@profile_neuron\ndef g")[0].replace("def f", "def copy")
    )
    assert editor.shown("copy") == ("none", [])
    assert editor.shown("f") == ("fresh", ROWS)


def test_a_renamed_and_edited_function_has_no_history() -> None:
    editor = opened().edit("def f(", "def renamed(").edit("x + 1", "x + 2")
    assert editor.shown("renamed") == ("none", [])


def test_other_modules_and_circumstances_count() -> None:
    made = result(TEXT, modules=(ModuleDependency("/p/ops.py", "00", "", ()),))
    editor = Editor(TEXT, made)
    assert editor.shown()[0] == "stale"
    editor.file.modules = {"/p/ops.py": Module("00")}
    assert editor.shown()[0] == "fresh"
    editor.file.circumstances = "other"
    assert editor.views()["f"].reasons == ("measured with another interpreter, torch, device or other settings",)


TWICE = f"{IMPORT}@profile_neuron\ndef f(x):\n    return x + 1\n@profile_neuron\ndef f(x):\n    return x + 2\n"


def test_of_two_definitions_of_one_name_each_has_its_own_results() -> None:
    editor = Editor(TWICE, result(TWICE, occurrence=1), result(TWICE, occurrence=0, finished_s=900.0))
    editor.file.analyse(MODULES)
    found = editor.file.views(1, editor.activity.get, None)
    assert [(view.occurrence, view.state, [row.line for row in view.rows]) for view in found] == [
        (0, "fresh", [4]),
        (1, "fresh", [7]),
    ]


# What runs did, and what is on.


def outcome(state: ShownState, text: str = TEXT, function: FunctionId = F, *lines: int, path: str = PATH) -> Outcome:
    found = outline(text)
    own = found.function(*function[1:])
    assert own is not None
    frames = tuple(Frame(path, line, "f", "x") for line in lines)
    key = digest([text_key(found, own), ""])
    return Outcome(state, Failure("RuntimeError: no", frames), key, "", found.lines)


@pytest.mark.parametrize(
    ("state", "text", "expected", "is_current"),
    [
        pytest.param("failed", TEXT, "failed", False, id="failed with this very code"),
        pytest.param("failed", TEXT.replace("x + 1", "x + 2"), "fresh", True, id="failed with other code"),
        pytest.param("cancelled", TEXT, "fresh", True, id="cancelled"),
        pytest.param("noInputs", TEXT, "noInputs", False, id="no inputs for this code"),
        pytest.param("noInputs", TEXT.replace("x + 1", "x + 2"), "fresh", True, id="no inputs for other code"),
    ],
)
def test_a_run_that_gave_nothing_takes_nothing_from_fresh_numbers_of_other_code(
    state: ShownState, text: str, expected: str, is_current: bool
) -> None:
    editor = opened()
    editor.file.outcomes[F] = outcome(state, text)
    view = editor.views()["f"]
    assert (view.state, view.is_current) == (expected, is_current)
    assert [row.line for row in view.rows] == [7, 8, 9]
    assert (view.failure is None) == is_current


@pytest.mark.parametrize("state", ["failed", "cancelled", "noInputs"])
def test_after_an_edit_the_last_run_that_gave_nothing_is_said_beside_the_old_numbers(state: ShownState) -> None:
    editor = opened().edit("x + 1", "x + 2")
    editor.file.outcomes[F] = outcome(state, editor.file.text)
    view = editor.views()["f"]
    assert (view.state, view.is_current, view.reasons) == (state, False, ("edited since",))
    assert [row.line for row in view.rows] == [8, 9]


def test_without_any_result_a_run_that_gave_nothing_is_the_state() -> None:
    editor = Editor()
    editor.file.outcomes[F] = outcome("cancelled")
    assert editor.shown() == ("cancelled", [])


def test_a_run_that_waits_or_is_on_is_the_state_and_old_numbers_stay() -> None:
    editor = opened()
    editor.activity = {F: Activity("", 2), G: Activity("r", None, "capture", 1, 5)}
    assert editor.shown() == ("queued", ROWS)
    assert editor.shown("g") == ("running", [(12, 12)])
    assert editor.views()["f"].is_current


def test_in_a_folder_that_is_not_trusted_old_results_are_shown() -> None:
    editor = opened()
    editor.state = "untrusted"
    assert editor.shown() == ("untrusted", ROWS)
    assert editor.views()["f"].is_current


@pytest.mark.parametrize(
    ("lines", "path", "edit", "expected"),
    [
        pytest.param((8,), PATH, ("SCALE", "SCALE"), 8, id="at its line"),
        pytest.param((8, 4), PATH, ("SCALE", "SCALE"), 4, id="innermost line of this file"),
        pytest.param((8,), PATH, ("SCALE", "\n\nSCALE"), 10, id="moved"),
        pytest.param((8,), PATH, ("helper(a)", "helper(x)"), None, id="edited"),
        pytest.param((8,), "/p/ops.py", ("SCALE", "\nSCALE"), 7, id="in another file only, so at def"),
        pytest.param((), PATH, ("SCALE", "\nSCALE"), 7, id="without a frame, so at def"),
    ],
)
def test_a_failure_is_shown_where_its_line_is_today(
    lines: tuple[int, ...], path: str, edit: tuple[str, str], expected: int | None
) -> None:
    editor = opened().edit(*edit)
    editor.file.outcomes[F] = outcome("failed", TEXT, F, *lines, path=path)
    editor.file.results = ()
    assert editor.views()["f"].failure_line == expected


# Text that does not parse.

BROKEN = ("    return b", "    return (b")


def test_where_a_text_does_not_parse_lines_that_stayed_keep_their_rows() -> None:
    editor = opened()
    assert editor.shown() == ("fresh", ROWS)
    editor.edit("SCALE = 2", "SCALE = (\n\n").edit("x + 1", "x + 2")
    assert editor.shown() == ("stale", [(10, 8), (11, 9)])
    view = editor.views()["f"]
    assert (view.spec.decorator_line, view.spec.def_line, view.spec.first_line, view.spec.last_line) == (7, 8, 7, 11)
    assert (view.is_current, view.reasons) == (False, ("edited since", "code outside of functions changed"))


def test_where_a_text_does_not_parse_a_function_that_is_not_edited_stays_fresh() -> None:
    editor = opened()
    editor.shown()
    editor.edit("return x - 1", "return (x")
    assert editor.shown() == ("fresh", ROWS)
    assert editor.shown("g") == ("stale", [])


@pytest.mark.parametrize(
    ("before", "after", "present"),
    [
        pytest.param("def f(x):", "def f(x", ["g"], id="def"),
        pytest.param("    return b\n@profile_neuron\n", "    return (b\n", ["f"], id="decorator"),
        pytest.param("    return b\n", "    return (b\n", ["f", "g"], id="neither"),
    ],
)
def test_a_function_whose_decorator_or_def_is_edited_is_dropped_while_the_text_does_not_parse(
    before: str, after: str, present: list[str]
) -> None:
    editor = opened()
    editor.shown()
    assert sorted(editor.edit(before, after).views()) == present


def test_when_the_text_parses_again_all_is_as_before() -> None:
    editor = opened()
    editor.shown()
    editor.edit(*BROKEN)
    editor.shown()
    assert editor.edit(BROKEN[1], BROKEN[0]).shown() == ("fresh", ROWS)


def test_a_file_that_never_parsed_shows_nothing() -> None:
    editor = Editor("def f(:\n", result(TEXT))
    assert editor.views() == {}
    assert editor.file.error is not None
    assert editor.file.error.line == 1


def test_the_lines_that_share_a_figure_move_with_a_text_that_does_not_parse() -> None:
    before = f"{IMPORT}@profile_neuron\ndef f(x):\n    a; b\n    return x\n"
    editor = Editor(before.replace("a; b", "a\n    b"), result(before))
    assert [(row.line, row.shared) for row in editor.views()["f"].rows] == [(4, (4, 5)), (5, (4, 5)), (6, ())]
    editor.edit("def f", "def f").write("x = (\n\n" + editor.file.text)
    assert [(row.line, row.shared) for row in editor.views()["f"].rows] == [(6, (6, 7)), (7, (6, 7)), (8, ())]


@pytest.mark.parametrize(
    ("line", "expected"),
    [pytest.param(line, line - 3, id=str(line)) for line in (7, 8, 9)],
)
def test_the_line_of_a_failure_is_right_in_a_text_that_does_not_parse(line: int, expected: int) -> None:
    editor = Editor()
    editor.file.outcomes[F] = outcome("failed", TEXT, F, line)
    assert editor.views()["f"].failure_line == line
    # Three lines fewer before the function put each of its lines where another one was, such as that of def.
    editor.edit("SCALE = 2\ndef helper(x):\n    return x\n", "").edit("return x - 1", "return (x")
    view = editor.views()["f"]
    assert view.spec.def_line == 3
    assert view.failure_line == expected


# What is kept between edits.


def test_views_are_made_once_per_text_and_epoch() -> None:
    editor = opened()
    editor.file.analyse(MODULES)
    first = editor.file.views(1, editor.activity.get, None)
    assert editor.file.views(1, editor.activity.get, None) is first
    assert editor.file.views(2, editor.activity.get, None) is not first


def test_an_analysis_of_an_older_text_is_not_taken_over() -> None:
    editor = opened()
    editor.file.analyse(MODULES)
    editor.edit("x + 1", "x + 2")
    editor.file.take_analysis(TEXT, outline(TEXT), None)
    assert not editor.file.is_analysed
    assert editor.shown()[0] == "stale"


def test_the_baseline_is_the_text_at_opening() -> None:
    editor = Editor(TEXT)
    editor.views()
    baseline = editor.file.baseline
    assert baseline is not None
    assert baseline.text == TEXT
    editor.edit("x + 1", "x + 2").views()
    assert editor.file.baseline is baseline


def test_a_text_that_was_edited_before_it_was_first_looked_at_is_no_baseline() -> None:
    editor = Editor(TEXT)
    editor.edit("x + 1", "x + 2").views()
    assert editor.file.baseline is None


def test_the_columns_of_the_first_line_count_the_mark_that_its_text_begins_with() -> None:
    editor = Editor(f"\ufeff{TEXT}")
    assert editor.file.client_lines == [f"\ufeff{editor.file.lines[0]}", *editor.file.lines[1:]]
    assert not editor.file.lines[0].startswith("\ufeff")


@pytest.mark.parametrize(
    ("problem", "is_kept"),
    [
        pytest.param(Problem(3, "line 3: invalid syntax"), False, id="about text that did not parse"),
        pytest.param(Problem(None, "it is not on disk"), True, id="about the file"),
    ],
)
def test_a_problem_of_the_text_is_gone_when_the_text_parses(problem: Problem, is_kept: bool) -> None:
    editor = opened()
    editor.file.save_problem = problem
    editor.views()
    assert (editor.file.save_problem is problem) == is_kept


def test_other_decorator_modules_make_another_outline() -> None:
    editor = opened()
    editor.views()
    editor.file.forget_analysis()
    editor.file.analyse(("other",))
    assert editor.file.views(99, editor.activity.get, None) == ()


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_any_kind_give_the_same_lines(end: str) -> None:
    assert opened(TEXT.replace("\n", end)).shown() == ("fresh", ROWS)
    assert opened("\ufeff" + TEXT.replace("\n", end)).shown() == ("fresh", ROWS)


class TestComparison:
    """Of f, whose lines 7, 8 and 9 take as many ms as their number, in a text where the first one was another."""

    OTHER = TEXT.replace("x + 1", "x + 2")
    SLOW = MappingProxyType({7: 9 * MS, 8: 8 * MS, 9: 9 * MS})

    def results(self, **changes: Any) -> tuple[Result, Result]:
        """Today's and one of other code before it, newest first, with a deviation that is known."""
        made = result(TEXT, ns_by_line=self.SLOW, finished_s=2000.0), result(self.OTHER, **changes)
        now, before = (replace(item, costs=replace(item.costs, fastest_spread_ns=0)) for item in made)
        return now, before

    def deltas(self, editor: Editor, qualname: str = "f") -> list[tuple[int, str]]:
        view = editor.views()[qualname]
        return [(row.line, delta) for row in view.rows if (delta := row_delta(view, row))]

    def test_fresh_numbers_are_beside_those_of_other_code(self) -> None:
        editor = Editor(TEXT, *self.results())
        assert self.deltas(editor) == [(7, "▲29 %")]
        view = editor.views()["f"]
        assert view.comparison is not None
        assert view.comparison.total == even_change(24 * MS, 26 * MS, 0.0)
        assert editor.views()["g"].comparison is None

    def test_an_edit_above_moves_them_and_one_inside_takes_them_away(self) -> None:
        editor = Editor(TEXT, *self.results())
        before = editor.views()["f"].comparison
        assert self.deltas(editor.edit("SCALE = 2", "# why\nSCALE = 2")) == [(8, "▲29 %")]
        assert editor.views()["f"].comparison is before, "worked out once"
        editor.edit("a = x + 1", "a = x + 7")
        assert self.deltas(editor) == []
        assert editor.views()["f"].comparison is None

    def test_a_text_that_does_not_parse_keeps_what_is_not_edited(self) -> None:
        editor = Editor(TEXT, *self.results())
        editor.views()
        assert self.deltas(editor.edit("return x - 1", "return x -")) == [(7, "▲29 %")]
        editor.edit("a = x + 1", "a = x +")
        assert editor.views()["f"].comparison is None

    def test_lines_that_were_joined_are_beside_their_sum(self) -> None:
        editor = Editor(TEXT, *self.results()).edit("a = x + 1\n    b = helper(a)", "a = x + 1; b = helper(a)")
        assert self.deltas(editor) == [(7, "▲13 %")]

    def test_a_new_result_is_compared_anew(self) -> None:
        now, before = self.results()
        editor = Editor(TEXT, now, before)
        editor.views()
        faster = replace(result(TEXT, finished_s=3000.0, ns_by_line={7: MS}), run_id="faster")
        editor.file.results = (faster, now, before)
        view = editor.views()["f"]
        assert view.result is faster
        assert view.comparison is not None
        assert view.comparison.total is not None
        assert view.comparison.total.ns == MS

    def test_the_person_chooses_what_it_is_compared_with(self) -> None:
        editor = Editor(TEXT, *self.results())
        editor.file.analyse(MODULES)
        (view, _) = editor.file.views(1, editor.activity.get, None, "pinned")
        assert view.comparison is not None
        assert (view.comparison.choice, view.comparison.reason) == ("pinned", "no result is pinned")
        (view, _) = editor.file.views(2, editor.activity.get, None, "previous")
        assert view.comparison is not None
        assert view.comparison.reason == ""

    def test_what_was_run_under_an_earlier_name_is_history_as_long_as_that_name_is_gone(self) -> None:
        renamed = TEXT.replace("def f(x)", "def h(x)")
        now = result(renamed.replace("x + 1", "x + 3"), "h", finished_s=3000.0)
        between = result(renamed, "h", finished_s=2500.0)
        _, before = self.results()
        editor = Editor(
            renamed, replace(between, costs=replace(between.costs, fastest_spread_ns=0)), result(TEXT), before
        )
        view = editor.views()["h"]
        assert view.comparison is not None
        assert view.comparison.baseline is before, "what differs by the name alone is no other code"
        both = Editor(renamed + "@profile_neuron\ndef f(x):\n    return 1\n", now, between, before)
        assert both.views()["h"].comparison is not None
        assert both.file.history(both.file.outline.functions[0], both.file.outline) == [now, between]  # type: ignore[union-attr, arg-type]

    def test_pinning_takes_todays_result_and_leaves_one_pin(self) -> None:
        now, before = self.results()
        editor = Editor(TEXT, now, replace(before, is_pinned=True))
        editor.views()
        assert editor.file.todays_result(F) is now
        assert editor.file.pin(F, now) == (replace(before, is_pinned=True),)
        assert editor.file.results == (replace(now, is_pinned=True), before)
        assert editor.file.pin(F, None) == (replace(now, is_pinned=True),)
        assert editor.file.results == (now, before)
        assert editor.file.pin(F, None) == ()

    def test_old_numbers_and_functions_that_are_not_there_cannot_be_pinned(self) -> None:
        editor = Editor(TEXT, *self.results()).edit("x + 1", "x + 9")
        editor.views()
        assert editor.file.todays_result(F) is None
        assert editor.file.todays_result(FunctionId(PATH, "nobody", 0)) is None
        assert editor.file.pin(FunctionId(PATH, "nobody", 0), None) == ()
        editor.edit("x + 9", "x +")
        editor.views()
        assert editor.file.todays_result(F) is None


@pytest.mark.parametrize(
    ("reason", "circumstances", "expected"),
    [
        pytest.param("ModuleNotFoundError: No module named 'x'", "", True, id="a package that may have come since"),
        pytest.param("ModuleNotFoundError: No module named 'x'", MADE_WITH, False, id="one that has not come"),
        pytest.param("RuntimeError: no", "", False, id="another failure"),
    ],
)
def test_a_failure_at_a_line_is_run_again_only_where_something_may_have_changed(
    reason: str, circumstances: str, expected: bool
) -> None:
    editor = Editor(TEXT)
    editor.file.analyse(MODULES)
    editor.file.circumstances = MADE_WITH
    found = editor.file.outline
    assert found is not None
    function = found.function("f", 0)
    assert function is not None
    failed = replace(outcome("failed", TEXT, F, 5), circumstances=circumstances)
    editor.file.outcomes[F] = replace(failed, failure=replace(failed.failure, reason=reason))
    assert needs_run(editor.file, function, found) == expected
