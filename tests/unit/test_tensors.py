"""What tensors are like, and others like them: strides, ranges, special numbers, and no trace left in torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.torch

torch = pytest.importorskip("torch")

from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from profile_neuron.core.recording import CannotRecordError  # noqa: E402
from profile_neuron.worker.tensors import (  # noqa: E402
    generator,
    like,
    load_contents,
    save_contents,
    tensor_facts,
    torch_value,
)


def none(text: str) -> None:
    raise AssertionError(text)


def copy_of(value: Any, content: Any = None) -> Any:
    return like(tensor_facts(value), generator(), content, none)


TENSORS: dict[str, Callable[[], Any]] = {
    "float": lambda: torch.rand(64, 8) * 3 - 1,
    "double": lambda: torch.rand(64, dtype=torch.float64),
    "half": lambda: (torch.rand(64) * 7).to(torch.float16),
    "bfloat16": lambda: (torch.rand(64) * 7).to(torch.bfloat16),
    "float8": lambda: (torch.rand(64) * 7).to(torch.float8_e4m3fn),
    "int": lambda: torch.randint(-5, 90, (64,)),
    "byte": lambda: torch.randint(3, 250, (64,), dtype=torch.uint8),
    "16 bits without sign": lambda: torch.randint(3, 60_000, (64,)).to(torch.uint16),
    "the greatest numbers": lambda: torch.tensor([-(2**63), 2**63 - 1]),
    "one number": lambda: torch.tensor(4.5),
    "no elements": lambda: torch.ones(0, 3),
    "transposed": lambda: torch.rand(4, 8).t(),
    "channels last": lambda: torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "a slice": lambda: torch.rand(10, 10)[2:5, ::3],
    "expanded": lambda: torch.rand(1, 5).expand(7, 5),
    "overlapping": lambda: torch.rand(10).unfold(0, 4, 1),
    "complex": lambda: torch.complex(torch.rand(8), torch.rand(8)),
    "conjugated": lambda: torch.complex(torch.rand(8), torch.rand(8)).conj(),
    "meta": lambda: torch.ones(3, 2, device="meta").t(),
    "constant": lambda: torch.full((3,), 0.1),
    "the whole range": lambda: torch.tensor([-3e38, 3e38]),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_another_tensor_is_like_the_recorded_one(kind: str) -> None:
    value = TENSORS[kind]()
    made = copy_of(value)
    assert (made.shape, made.dtype, made.device) == (value.shape, value.dtype, value.device)
    assert made.stride() == value.resolve_conj().stride()
    assert not made._is_view()
    if value.numel() and not value.is_meta:
        wide, of = (item.resolve_conj() for item in (made, value))
        wide, of = (torch.view_as_real(item) if item.is_complex() else item.to(torch.float64) for item in (wide, of))
        assert of.min() <= wide.min()
        assert wide.max() <= of.max()
        assert len(set(wide.flatten().tolist())) > 1 or of.min() == of.max()


def test_how_much_of_a_boolean_tensor_is_true_is_kept() -> None:
    assert tensor_facts(torch.tensor([True, False, False, False])).true_share == 0.25
    made = copy_of(torch.rand(10_000) < 0.2)
    assert 0.1 < made.float().mean() < 0.3
    assert not copy_of(torch.zeros(100, dtype=torch.bool)).any()
    assert copy_of(torch.ones(100, dtype=torch.bool)).all()


def test_what_is_not_finite_is_kept_as_a_share() -> None:
    mask = torch.zeros(10_000).masked_fill(torch.rand(10_000) < 0.3, -torch.inf)
    facts = tensor_facts(mask)
    assert (facts.low, facts.high, facts.mean, facts.nan_share, facts.inf_share) == ("0.0", "0.0", 0.0, 0.0, 0.0)
    assert 0.25 < copy_of(mask).isneginf().float().mean() < 0.35
    nothing = torch.full((4,), torch.nan)
    assert (tensor_facts(nothing).low, tensor_facts(nothing).nan_share) == ("", 1.0)
    assert copy_of(torch.tensor([1.0, torch.nan] * 500)).isnan().any()


def test_what_requires_a_gradient_does_so_again_as_a_leaf_or_as_something_computed() -> None:
    leaf = torch.ones(3, 2).requires_grad_()
    made = copy_of(leaf)
    assert made.requires_grad
    assert made.is_leaf
    computed = copy_of((leaf * 2).t())
    assert computed.requires_grad
    assert not computed.is_leaf
    assert computed.stride() == (1, 2)
    computed.mul_(2)
    parameter = copy_of(torch.nn.Parameter(torch.ones(2)))
    assert type(parameter) is torch.nn.Parameter
    assert parameter.requires_grad


class Own(torch.Tensor):  # type: ignore[misc]
    pass


NOT_KEPT: dict[str, tuple[Callable[[], Any], str]] = {
    "sparse": (lambda: torch.eye(3).to_sparse(), "a tensor of layout sparse_coo"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged), "a tensor of class torch.nested"),
    "subclass": (lambda: torch.ones(2).as_subclass(Own), "a tensor of class tests.unit.test_tensors.Own"),
}  # fmt: skip


@pytest.mark.parametrize("kind", NOT_KEPT)
def test_kinds_of_tensors_that_are_not_kept_are_named(kind: str) -> None:
    make, sentence = NOT_KEPT[kind]
    with pytest.raises(CannotRecordError) as raised:
        tensor_facts(make())
    assert str(raised.value).startswith(sentence)


def test_a_tensor_inside_of_a_function_transform_is_not_kept() -> None:
    def look(value: Any) -> Any:
        with pytest.raises(CannotRecordError, match="inside of a function transform"):
            tensor_facts(value)
        return value

    torch.func.vmap(look)(torch.ones(3))


class FunctionMode(TorchFunctionMode):  # type: ignore[misc]
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("a mode of the user's saw it")


class DispatchMode(TorchDispatchMode):  # type: ignore[misc]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("a mode of the user's saw it")


def test_nothing_of_the_program_notices_that_its_tensors_were_looked_at() -> None:
    value = torch.rand(8, requires_grad=True) * 2
    state = torch.get_rng_state()
    with FunctionMode(), DispatchMode():
        facts = tensor_facts(value)
    with torch.inference_mode():
        assert tensor_facts(value) == facts
    like(facts, generator(), None, none)
    assert torch.equal(torch.get_rng_state(), state)
    value.sum().backward()


def test_the_same_facts_give_the_same_numbers() -> None:
    value = torch.rand(100)
    assert torch.equal(copy_of(value), copy_of(value))


def test_a_device_that_is_not_there_is_said_and_replaced_by_the_cpu() -> None:
    from dataclasses import replace

    said: list[str] = []
    made = like(replace(tensor_facts(torch.ones(2)), device="cuda:7"), generator(), None, said.append)
    assert made.device.type == "cpu"
    assert said == ["the recorded inputs were on cuda:7, which is not there; they are on the CPU instead"]


@pytest.mark.parametrize("kind", [kind for kind in TENSORS if kind not in ("meta", "the greatest numbers")])
def test_what_tensors_hold_is_kept_exactly_where_a_person_wants_that(kind: str, tmp_path: Path) -> None:
    value = TENSORS[kind]()
    save_contents([torch.ones(1), value], str(tmp_path / "data.pt"))
    content = load_contents(str(tmp_path / "data.pt"))[1]
    made = copy_of(value, content)
    assert made.stride() == value.resolve_conj().stride()
    assert made.resolve_conj().tolist() == value.resolve_conj().tolist()


def test_only_the_part_of_a_storage_that_a_tensor_reaches_is_kept(tmp_path: Path) -> None:
    save_contents([torch.rand(1_000_000)[:10]], str(tmp_path / "data.pt"))
    assert (tmp_path / "data.pt").stat().st_size < 10_000


@pytest.mark.parametrize("content", [None, b"", b"\x80\x04cposix\nsystem\n.", b"PK\x03\x04"])
def test_a_damaged_file_of_contents_is_one_kind_of_error(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "data.pt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match="what the tensors held cannot be read"):
        load_contents(str(path))


def test_names_of_torch_lead_to_its_types_only() -> None:
    assert torch_value("dtype", "torch.float32") is torch.float32
    assert torch_value("device", "cpu") == torch.device("cpu")
    assert torch_value("Size", [2, 3]) == torch.Size([2, 3])
    for name, content in (("dtype", "load"), ("load", "x"), ("dtype", "nn.Module")):
        with pytest.raises(ValueError, match="torch has no"):
            torch_value(name, content)
