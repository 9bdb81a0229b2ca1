from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_neuron.core.model import (
    ExecutedFile,
    Failure,
    Frame,
    FunctionCosts,
    LineCost,
    LineCosts,
    OperatorCalls,
    OperatorRow,
    SharedGroup,
    SourceFile,
    Toolchain,
)
from profile_neuron.errors import WireError
from profile_neuron.wire import codec
from profile_neuron.wire.messages import (
    Cancel,
    Hello,
    Holder,
    Limits,
    Message,
    RunDone,
    RunFailed,
    RunOutput,
    RunProgress,
    RunRequest,
    RunWaiting,
)
from profile_neuron.wire.stdio import MAGIC

COSTS = LineCosts(
    device_kind="cpu",
    device_name="cpu",
    toolchain=Toolchain("3.11", "/py", "", "2.13.0", "cpu", "cpu", "settrace"),
    inputs="none needed",
    warmup=3,
    repeats=3,
    functions=(
        FunctionCosts(
            path="/p/größe.py",
            qualname="f",
            name=None,
            line=3,
            last_line=9,
            decorated=True,
            state="failed",
            reason="ValueError: x",
            frames=(Frame("/p/größe.py", 4, "f", "raise ValueError('x')"),),
            calls=3,
            device_ns=None,
            host_ns=10**15,
            unattributed_ns=0,
            spread_ns=None,
            lines=(LineCost(4, 1, 2, None, (OperatorCalls("aten::mul", 2 / 3),)),),
            shared=(SharedGroup((4, 5), 7),),
            operators=(OperatorRow("aten::mul", 1.0, 2, None),),
            warnings=("w",),
            provenance="p",
        ),
    ),
    sources=(SourceFile("/p/größe.py", "x = '\u2028'\r\n"),),
    modules=(ExecutedFile("/p/größer.py", "00"),),
)
REQUEST = RunRequest(
    "id", "/p/m.py", "00", "A.f", 1, 2, None, "cpu", ("profile_neuron",), ("/p",), "/p", Limits(1.0, 2.5)
)
MESSAGES: list[Message] = [
    Hello(1, "agent", "0.1", "3.11"),
    REQUEST,
    Cancel("id"),
    RunProgress("id", "capture", 1, 5),
    RunWaiting("id", (Holder(4123, "python train.py", (0, 1)),)),
    RunOutput("id", "x\x00\udcff".encode("utf-8", "replace").decode()),
    RunDone("id", COSTS, ""),
    RunFailed("id", "noInputs", Failure("reason")),
]


def test_every_message_survives_the_wire() -> None:
    frames = b"".join(codec.encode(message) for message in MESSAGES)
    assert codec.Decoder().feed(MAGIC + frames) == MESSAGES


@given(st.lists(st.integers(1, 200), max_size=40))
def test_pieces_of_any_size_give_the_same_messages(sizes: list[int]) -> None:
    stream = MAGIC + b"".join(codec.encode(message) for message in MESSAGES)
    decoder, found, start = codec.Decoder(), [], 0
    for size in [*sizes, len(stream)]:
        found += decoder.feed(stream[start : start + size])
        start += size
    assert found == MESSAGES


def test_a_login_banner_before_the_magic_line_does_no_harm() -> None:
    stream = b"Welcome to trn2!\nLast login: today\n" + MAGIC + codec.encode(Cancel("a"))
    assert codec.Decoder().feed(stream) == [Cancel("a")]


def frame(content: object) -> bytes:
    body = content if isinstance(content, bytes) else msgpack.packb(content)
    return MAGIC + len(body).to_bytes(4, "big") + body


def test_unknown_fields_are_ignored() -> None:
    assert codec.Decoder().feed(frame({"kind": "Cancel", "run_id": "a", "since": "2.0"})) == [Cancel("a")]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"kind": "Explode"}, "unknown kind 'Explode'"),
        ({"run_id": "a"}, "unknown kind None"),
        ([1, 2], "unknown kind None"),
        ({"kind": "Cancel"}, "does not fit"),
        ({"kind": "Cancel", "run_id": 3}, "field run_id holds 3"),
        ({"kind": "RunFailed", "run_id": "a", "state": "great", "failure": {}}, "field state holds 'great'"),
        (b"\xc1\xc1", "not msgpack"),
    ],
)
def test_what_is_no_message_is_refused(content: object, sentence: str) -> None:
    with pytest.raises(WireError, match=sentence):
        codec.Decoder().feed(frame(content))


def test_a_frame_over_the_size_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(WireError, match="over the limit"):
        codec.Decoder().feed(MAGIC + (codec.FRAME_LIMIT_BYTES + 1).to_bytes(4, "big"))


def test_a_stream_without_the_magic_line_is_refused() -> None:
    with pytest.raises(WireError, match="does not speak this protocol"):
        codec.Decoder().feed(b"x" * (codec.BANNER_LIMIT_BYTES + 1))
