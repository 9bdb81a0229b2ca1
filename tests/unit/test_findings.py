"""Views to remarks at lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from profile_neuron.core.findings import DEFAULT_SEVERITIES, Finding, findings, unparsable
from profile_neuron.core.model import Failure, Frame
from tests.unit.constructed import PATH, SPEC, failure, view

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
    assert set(DEFAULT_SEVERITIES) == {"run-failed", "timeout", "no-inputs"}
    assert "error" not in DEFAULT_SEVERITIES.values()


def test_a_finding_names_the_result_that_is_shown_beside_it() -> None:
    made = view(1_000_000, state="failed", failure=failure("RuntimeError: no", 5), failure_line=5)
    (found,) = findings(PATH, [made], {})
    assert found.run_id == "run 1000.0"
