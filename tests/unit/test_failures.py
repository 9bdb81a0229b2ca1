"""What an error of user code is called, on one line."""

from __future__ import annotations

import pytest

from profile_neuron.worker.failures import describe


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError(), "ValueError"),
        (ValueError("no\nmore"), "ValueError: no"),
        (ValueError("\n\n  indented  \nmore"), "ValueError: indented"),
        (
            RuntimeError("backend='inductor' raised:\nModuleNotFoundError: No module named 'x'\n\nSet MORE=1"),
            "RuntimeError: backend='inductor' raised: ModuleNotFoundError: No module named 'x'",
        ),
        (RuntimeError("nothing follows:\n\n"), "RuntimeError: nothing follows:"),
        (ValueError("x" * 400), f"ValueError: {'x' * 300}…"),
        (SyntaxError("invalid syntax", ("a.py", 1, 1, "def")), "SyntaxError: invalid syntax"),
        (Unprintable(), "Unprintable: (its message cannot be shown)"),
    ],
    ids=repr,
)
def test_it_is_the_type_and_what_the_message_begins_with(error: Exception, text: str) -> None:
    assert describe(error) == text
