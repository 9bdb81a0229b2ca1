"""Views to remarks at lines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from profile_neuron.core.findings import DEFAULT_SEVERITIES, Finding, findings, unparsable
from profile_neuron.core.model import Change, Failure, Frame
from tests.unit.constructed import PATH, SPEC, beside, failure, row, view

if TYPE_CHECKING:
    from profile_neuron.core.model import FunctionView

OTHER = Frame("/p/ops.py", 9, "g", "raise")
RAISED = Failure("RuntimeError: no", (Frame(PATH, 5, "f", "g(x)"), OTHER))
FAILED = view(None, state="failed", failure=RAISED, failure_line=5)


def test_what_a_function_raised_is_at_its_line_with_the_other_files_as_related_places() -> None:
    assert findings(PATH, [FAILED], {}) == (
        Finding(5, "run-failed", "information", "profiling f failed: RuntimeError: no", (OTHER,), "f", ""),
    )


@pytest.mark.parametrize(
    ("state", "reason", "code", "severity", "text"),
    [
        ("failed", "RuntimeError: no", "run-failed", "information", "RuntimeError: no"),
        ("failed", "timeout: 120 s passed", "timeout", "information", "timeout: 120 s passed"),
        ("failed", "the timeout: is no code", "run-failed", "information", "the timeout: is no code"),
        ("noInputs", "f needs the argument x", "no-inputs", "hint", "f needs the argument x"),
    ],
)
def test_each_kind_of_failure_has_its_code_and_severity(
    state: str, reason: str, code: str, severity: str, text: str
) -> None:
    (found,) = findings(PATH, [view(None, state=state, failure=Failure(reason), failure_line=3)], {})
    assert (found.line, found.code, found.severity, found.text) == (3, code, severity, text)


@pytest.mark.parametrize("state", ["none", "queued", "running", "fresh", "stale", "cancelled", "untrusted", "disabled"])
def test_other_states_have_no_finding(state: str) -> None:
    assert findings(PATH, [replace(FAILED, state=state)], {}) == ()


def test_a_failure_whose_line_was_edited_has_none() -> None:
    assert findings(PATH, [replace(FAILED, failure_line=None)], {}) == ()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"run-failed": "off"}, None),
        ({"run-failed": "warning"}, "warning"),
        ({"run-failed": "hint"}, "hint"),
        ({"run-failed": "error"}, "information"),
        ({"timeout": "off", "no-inputs": "off"}, "information"),
    ],
)
def test_severities_are_the_users_but_never_error(given: dict[str, str], expected: str | None) -> None:
    found = findings(PATH, [FAILED], given)
    assert [item.severity for item in found] == ([expected] if expected else [])
    assert [item.severity for item in unparsable(4, "x", given)] == ([expected] if expected else [])


def test_findings_are_in_the_order_of_the_functions() -> None:
    second = replace(FAILED, spec=replace(SPEC, qualname="g"), failure_line=2)
    assert [(item.line, item.qualname) for item in findings(PATH, [FAILED, view(1), second], {})] == [
        (5, "f"),
        (2, "g"),
    ]


def test_a_file_that_does_not_parse_has_a_finding_that_says_what_to_do() -> None:
    (found,) = unparsable(7, "line 7: invalid syntax", {})
    assert (found.line, found.code, found.severity, found.qualname) == (7, "run-failed", "information", "")
    assert found.text == "not-runnable: line 7: invalid syntax; nothing was run, save again when it parses"


def test_a_problem_without_a_line_stands_on_the_first_one_in_its_own_words() -> None:
    (found,) = unparsable(None, "/p/m.py is not on disk; save it first", {})
    assert (found.line, found.text) == (1, "not-runnable: /p/m.py is not on disk; save it first")


def test_no_finding_is_an_error_and_each_code_has_a_severity() -> None:
    assert set(DEFAULT_SEVERITIES) == {
        "run-failed", "timeout", "no-inputs", "device-busy", "regression",
        "cpu-fallback", "host-sync", "transfer", "tiny-executions", "missing-synchronize",
    }  # fmt: skip
    assert "error" not in DEFAULT_SEVERITIES.values()


def test_a_finding_names_the_result_that_is_shown_beside_it() -> None:
    made = view(1_000_000, state="failed", failure=failure("RuntimeError: no", 5), failure_line=5)
    (found,) = findings(PATH, [made], {})
    assert found.run_id == "run 1000.0"


US, MS = 1_000, 1_000_000


def slower(rows: dict[int, tuple[int, float | None] | None], previous_ns: int = 8 * MS, **changes: Any) -> FunctionView:
    """A function of 12 ms whose lines 5 and 6 take 6 and 3 ms."""
    return replace(beside(view(12 * MS, [row(5, 6 * MS), row(6, 3 * MS)]), previous_ns, rows, noise=0.02), **changes)


@pytest.mark.parametrize(
    ("rows", "line", "more"),
    [
        pytest.param({5: (2 * MS, 0.0), 6: (3 * MS, 0.0)}, 5, "; this line: 2.00 ms → 6.00 ms, ▲200 %", id="one"),
        pytest.param({5: None, 6: (3 * MS, 0.0)}, 5, "; this line is new", id="new"),
        pytest.param({5: (4 * MS, 0.0), 6: (1 * MS, 0.0)}, 3, "", id="two"),
        pytest.param({5: (6 * MS, 0.0), 6: (2 * MS, 0.0)}, 3, "", id="one that explains little"),
        pytest.param({5: (2 * MS, 9.0), 6: (3 * MS, 0.0)}, 3, "", id="noise"),
        pytest.param({}, 3, "", id="none"),
    ],
)
def test_a_function_that_is_slower_has_a_warning_at_the_line_to_blame_or_at_its_name(
    rows: dict[int, tuple[int, float | None] | None], line: int, more: str
) -> None:
    assert findings(PATH, [slower(rows)], {}) == (
        Finding(
            line,
            "regression",
            "warning",
            f"f is slower: 8.00 ms → 12.0 ms, ▲50 % vs previous{more}",
            (),
            "f",
            "run 1000.0",
        ),
    )


def test_a_function_whose_averages_say_something_else_is_slower_by_the_fastest_calls() -> None:
    made = slower({5: (2 * MS, 0.0)})
    assert made.comparison is not None
    total = Change(12 * MS, 12 * MS, 0.02, 8 * MS, 10 * MS)
    (found,) = findings(PATH, [replace(made, comparison=replace(made.comparison, total=total))], {})
    assert found.text.startswith("f is slower: 12.0 ms → 12.0 ms, ▲25 % by the fastest calls vs previous; this line: ")


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        pytest.param(slower({}, 13 * MS), {}, id="faster"),
        pytest.param(slower({}, 11_900 * US), {}, id="noise"),
        pytest.param(slower({}, state="stale", is_current=False), {}, id="stale"),
        pytest.param(slower({}, state="queued"), {}, id="queued"),
        pytest.param(slower({}, comparison=None), {}, id="not compared"),
        pytest.param(slower({}), {"regression": "off"}, id="off"),
    ],
)
def test_nothing_else_is_called_slower(shown: FunctionView, given: dict[str, str]) -> None:
    assert findings(PATH, [shown], given) == ()


def test_the_severity_of_a_slower_function_is_the_users() -> None:
    (found,) = findings(PATH, [slower({})], {"regression": "hint"})
    assert found.severity == "hint"
