"""What is read of the Neuron runtime in the output of a worker; texts are constructed after its guide and source."""

from __future__ import annotations

import pytest

from profile_neuron.agent.output import Output

DROPPED = {
    "of a trace": (b"Warning: 123 trace events were dropped\n", 123),
    "plain": (b"123 events were dropped, increase max_events_per_nc\n", 123),
    "of two cores": (b"nc0: 5 events were dropped\nnc1: 7 trace events were dropped\n", 12),
    "no number": (b"some events were dropped\n", 0),
    "of something else": (b"12 packets were dropped\n", 0),
}
FALLBACKS = {
    "said by the backend": (b"[W] Operator 'aten::foo' fell back to CPU\n", {"aten::foo"}),
    "said by the executor": (b"'aten::foo.out' (dtype int64) executed via CPU fallback\n", {"aten::foo.out"}),
    "two": (b"Operator 'aten::b' fell back to CPU\nOperator 'aten::a' fell back to CPU\n", {"aten::a", "aten::b"}),
    "of something else": (b"'x' is on the CPU\nI fell back to CPU\n", set()),
    "on another line": (b"'aten::foo'\n executed via CPU fallback\n", set()),
}


def taken(*pieces: bytes) -> Output:
    output = Output(lambda _: None)
    output.begin("1")
    for piece in pieces:
        output.feed(piece)
    return output


@pytest.mark.parametrize("kind", DROPPED)
def test_dropped_events_are_counted(kind: str) -> None:
    text, expected = DROPPED[kind]
    assert taken(text).dropped_events == expected
    assert taken(*(text[at : at + 1] for at in range(len(text)))).dropped_events == expected


@pytest.mark.parametrize("kind", FALLBACKS)
def test_operators_that_fell_back_are_known(kind: str) -> None:
    text, expected = FALLBACKS[kind]
    assert taken(text).fallback_operators == expected


def test_operators_stay_known_in_later_runs_and_events_do_not() -> None:
    output = taken(b"Operator 'aten::foo' fell back to CPU\n3 events were dropped\n")
    output.finish()
    output.feed(b"Operator 'aten::between' fell back to CPU\n")
    output.begin("2")
    output.feed(b"Operator 'aten::bar' fell back to CPU\n")
    assert output.fallback_operators == {"aten::foo", "aten::bar"}
    assert output.dropped_events == 0
