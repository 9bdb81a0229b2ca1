"""The inputs of a call as one line: every kind of value, bounded, and no code of the user's run for it."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict, namedtuple
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")

from profile_neuron.worker.signature import describe, signature_text  # noqa: E402

Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = "r"

    def __repr__(self) -> str:
        raise AssertionError("the user's own text is not asked for")


class Hostile:
    """Everything that an object may do when it is looked at."""

    @property
    def __class__(self) -> Any:
        raise AssertionError("asked for its class")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")

    def __repr__(self) -> str:
        raise AssertionError("asked for its text")


class Text(str):
    def __repr__(self) -> str:
        raise AssertionError("asked for its text")


class Asked(torch.Tensor):  # type: ignore[misc]
    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("asked what it is")


VALUES: dict[str, tuple[Callable[[], Any], str]] = {
    "tensor": (lambda: torch.ones(8, 2048), "float32[8, 2048]"),
    "scalar tensor": (lambda: torch.tensor(3), "int64[]"),
    "no elements": (lambda: torch.ones(0, 3, dtype=torch.bool), "bool[0, 3]"),
    "strides": (lambda: torch.ones(4, 8).t(), "float32[8, 4] strides (1, 8)"),
    "device": (lambda: torch.ones(2, device="meta"), "float32[2] meta"),
    "sparse": (lambda: torch.eye(3).to_sparse(), "sparse_coo float32[3, 3]"),
    "parameter": (lambda: torch.nn.Parameter(torch.ones(2)), "float32[2]"),
    "tensor subclass": (lambda: torch.ones(2).as_subclass(Asked), "float32[2]"),
    "module": (lambda: torch.nn.Linear(1, 1), "Linear"),
    "dtype": (lambda: torch.bfloat16, "bfloat16"),
    "torch's device": (lambda: torch.device("cpu"), "cpu"),
    "size": (lambda: torch.Size([2, 3]), "(2, 3)"),
    "numbers": (lambda: [True, None, 1e-05, math.nan, 2j], "[True, None, 1e-05, nan, …]"),
    "large number": (lambda: 10**5000, "int"),
    "long text": (lambda: "a" * 40, f"'{'a' * 30}'…"),
    "tuples": (lambda: ((1,), ()), "((1,), ())"),
    "dict": (lambda: {"ids": torch.ones(2), 3: [1]}, "{'ids': float32[2], 3: [1]}"),
    "named tuple": (lambda: Point(torch.ones(2), 1), "Point(x=float32[2], y=1)"),
    "set": (lambda: {1}, "{1}"),
    "slice": (lambda: slice(None, 2), "slice(None, 2, None)"),
    "ellipsis": (lambda: ..., "Ellipsis"),
    "deep": (lambda: [[[[[1]]]]], "[[[[…]]]]"),
    "enum": (lambda: Colour.RED, "Colour.RED"),
    "object": (Hostile, "Hostile"),
    "subclass of text": (lambda: Text("x"), "Text"),
    "other mapping": (lambda: OrderedDict(a=1), "OrderedDict"),
    "function": (lambda: len, "builtin_function_or_method"),
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_is_described_by_what_it_is(kind: str) -> None:
    make, text = VALUES[kind]
    assert describe(make()) == text


def test_arguments_have_their_names_and_plain_ones_their_values() -> None:
    args = (torch.ones(8, 2048), torch.ones(2048), 3)
    assert signature_text(["x", "weight"], args, {"eps": 1e-05, "config": Hostile()}) == (
        "x: float32[8, 2048], weight: float32[2048], 3, eps=1e-05, config: Hostile"
    )
    assert signature_text(["x"], (), {}) == ""


def test_the_whole_is_no_longer_than_a_reader_can_take_in() -> None:
    text = signature_text([f"argument{number}" for number in range(100)], range(100), {})
    assert len(text) == 200
    assert text.endswith("…")
