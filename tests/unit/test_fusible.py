"""Sequences of operators that one call does at once."""

from __future__ import annotations

import pytest

from profile_neuron.core.fusible import fusible
from profile_neuron.core.model import LineCost, OperatorCalls
from profile_neuron.core.work_text import tiny_executions


def found(*names: str) -> list[tuple[int, int, str]]:
    return [(item.start, item.stop, item.call) for item in fusible([f"aten::{name}" for name in names])]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("mul mean add rsqrt mul mul", [(0, 6, "torch.rms_norm")]),
        ("pow mean add rsqrt mul", [(0, 5, "torch.rms_norm")]),
        ("to square mean add rsqrt mul type_as mul", [(1, 8, "torch.rms_norm")]),
        ("matmul div softmax matmul", [(0, 4, "torch.nn.functional.scaled_dot_product_attention")]),
        ("matmul mul add softmax to matmul", [(0, 6, "torch.nn.functional.scaled_dot_product_attention")]),
        ("mean sub pow mean add sqrt div", [(0, 7, "torch.nn.functional.layer_norm")]),
        ("exp sum div", [(0, 3, "torch.softmax")]),
        ("mul mean add rsqrt mul mul exp sum div", [(0, 6, "torch.rms_norm"), (6, 9, "torch.softmax")]),
        ("mul mean add mul rsqrt", []),
        ("mul add mul", []),
        ("rms_norm", []),
        ("", []),
    ],
)
def test_a_sequence_is_told_by_the_order_of_its_operators(names: str, expected: list[tuple[int, int, str]]) -> None:
    assert found(*names.split()) == expected


def line(
    number: int, name: str, ns: int = 388_167, executions: float | None = 1.0, self_ns: int | None = None
) -> LineCost:
    own = ns if self_ns is None else self_ns
    return LineCost(number, own, ns, None, (OperatorCalls(f"aten::{name}", 1.0),), executions=executions)


NAIVE = [line(number, name) for number, name in enumerate(("mul", "mean", "add", "rsqrt", "mul", "mul"), 40)]


def test_the_text_says_how_often_the_device_is_started_and_what_does_it_once() -> None:
    assert list(tiny_executions((item.line, item) for item in NAIVE)) == [
        (
            40,
            "this looks like an RMSNorm, in 6 executions (mul, mean, add, rsqrt, mul, mul) of 2.33 ms together; "
            "torch.rms_norm starts the device once",
        )
    ]


def test_what_runs_as_one_execution_already_or_in_a_called_function_is_not_told() -> None:
    fused = [line(item.line, item.operators[0].name[6:], executions=0.0) for item in NAIVE]
    assert list(tiny_executions((item.line, item) for item in fused)) == []
    of_helper = [line(item.line, item.operators[0].name[6:], self_ns=0) for item in NAIVE]
    assert list(tiny_executions((item.line, item) for item in of_helper)) == []
