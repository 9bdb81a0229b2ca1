"""Small computations on a device, by name: what the stand-in gives has to be what the CPU gives.

Run as a program it computes all of them on both and prints a JSON object: those that differ, with the reason.
"""

from __future__ import annotations

import copy
import io
import json
import sys
import threading
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

PROBES: dict[str, Callable[[str], Tensor]] = {}


def main() -> None:
    different = {name: reason for name in PROBES if (reason := difference(name)) is not None}
    sys.stdout.write(json.dumps({"count": len(PROBES), "different": different}) + "\n")


def difference(name: str) -> str | None:
    try:
        expected, found = PROBES[name]("cpu"), PROBES[name]("neuron")
        assert found.device.type == "neuron", found.device
        torch.testing.assert_close(found.detach().cpu(), expected.detach())
    except Exception as error:  # noqa: BLE001, whatever it is belongs to this probe
        return f"{type(error).__name__}: {error}"
    return None


def probe(function: Callable[[str], Tensor]) -> Callable[[str], Tensor]:
    PROBES[function.__name__] = function
    return function


def seeded(device: str, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(device)


def backend(device: str) -> str:
    return "neuron" if device == "neuron" else "eager"


@probe
def arithmetic(on: str) -> Tensor:
    a = seeded(on, 3, 4)
    return a * 2 + a / 3 - (a**2) % 1.5


@probe
def views_of_views(on: str) -> Tensor:
    return seeded(on, 4, 6).t()[1:4].reshape(-1).view(2, 6)[..., ::2]


@probe
def linear_on_a_transpose(on: str) -> Tensor:
    return F.linear(seeded(on, 6, 4).t(), seeded(on, 5, 6), seeded(on, 5))


@probe
def index_assignment(on: str) -> Tensor:
    a = torch.zeros(4, 5, device=on)
    a[1:3, ::2] = seeded(on, 2, 3)
    a[0] = 3
    a[torch.tensor([3]).to(on), 1] = 7.0
    return a


@probe
def index_by_a_mask(on: str) -> Tensor:
    a = seeded(on, 5, 5)
    return a[a > 0]


@probe
def index_from_the_host(on: str) -> Tensor:
    return seeded(on, 5, 5)[torch.tensor([0, 3])]


@probe
def einsum(on: str) -> Tensor:
    return torch.einsum("bij,bjk->bik", seeded(on, 2, 3, 4), seeded(on, 2, 4, 5))


@probe
def in_place(on: str) -> Tensor:
    a = seeded(on, 3, 3)
    a[1].add_(5).mul_(2)
    return a.clamp_(min=0)


@probe
def out_that_grows(on: str) -> Tensor:
    grown = torch.empty(0, device=on)
    torch.abs(seeded(on, 3, 3), out=grown)
    return grown


@probe
def out_that_is_a_view(on: str) -> Tensor:
    whole = torch.zeros(6, 3, device=on)
    a = seeded(on, 3, 3)
    torch.add(a, a, out=whole[1:4])
    return whole


@probe
def several_results(on: str) -> Tensor:
    values, places = seeded(on, 4, 6).max(dim=1)
    return torch.stack([values, places.float()])


@probe
def sorting(on: str) -> Tensor:
    a = seeded(on, 4, 6)
    return torch.cat([a.topk(2).values, a.sort().values, a.argsort().float()], 1)


@probe
def softmax(on: str) -> Tensor:
    return F.softmax(seeded(on, 3, 4), -1).log()


@probe
def layer_norm(on: str) -> Tensor:
    return F.layer_norm(seeded(on, 3, 4), (4,), seeded(on, 4), seeded(on, 4))


@probe
def convolution(on: str) -> Tensor:
    return F.conv2d(seeded(on, 1, 2, 6, 6), seeded(on, 3, 2, 3, 3), padding=1)


@probe
def batch_norm(on: str) -> Tensor:
    norm = nn.BatchNorm1d(4).to(on)
    norm(seeded(on, 8, 4))
    return norm.running_mean


@probe
def embedding(on: str) -> Tensor:
    return F.embedding(torch.tensor([1, 2, 0]).to(on), seeded(on, 4, 3))


@probe
def attention(on: str) -> Tensor:
    queries = seeded(on, 1, 2, 4, 8)
    return F.scaled_dot_product_attention(queries, queries, queries, is_causal=True)


@probe
def transformer_layer(on: str) -> Tensor:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).to(on).eval()(seeded(on, 1, 4, 8))


@probe
def where(on: str) -> Tensor:
    a = seeded(on, 3, 4)
    return torch.where(a > 0, a, 0.0) + a.masked_fill(a < 0, -1.0)


@probe
def scatter_and_gather(on: str) -> Tensor:
    a = seeded(on, 3, 4)
    places = torch.tensor([[0, 1], [2, 0], [1, 1]]).to(on)
    return a.gather(1, places) + torch.zeros(3, 2, device=on).scatter_add(1, places % 2, a[:, :2])


@probe
def fallback(on: str) -> Tensor:
    values, places = seeded(on, 3, 4).cummin(1)
    return values + places + torch.searchsorted(seeded(on, 8).sort().values, values)


@probe
def factories(on: str) -> Tensor:
    made = torch.arange(5, device=on) + torch.full((5,), 2.0, device=on) + torch.ones(5, device=on)
    return made + torch.eye(5, device=on)[0] + torch.linspace(0, 1, 5, device=on) + torch.tensor([1.0], device=on)


@probe
def factories_like_another(on: str) -> Tensor:
    a = seeded(on, 3, 4).t()
    return torch.zeros_like(a) + torch.ones_like(a) + a.new_full((4, 3), 2.0) + torch.empty_like(a).fill_(1)


@probe
def random_numbers(on: str) -> Tensor:
    torch.manual_seed(3)
    return torch.randn(3, device=on) + torch.rand(3, device=on) + torch.randperm(3, device=on)


@probe
def types(on: str) -> Tensor:
    a = seeded(on, 3, 4)
    return a.half().float() + a.to(torch.int32) + a.bfloat16().double()


@probe
def single_numbers(on: str) -> Tensor:
    a = seeded(on, 3, 4)
    numbers = [a.sum().item(), float(a[0, 0]), int(a[1, 1] > 0), bool(a[0].any()), torch.equal(a, a + 1)]
    return torch.tensor(numbers, device=on)


@probe
def printing(on: str) -> Tensor:
    text = repr(seeded(on, 3, 4)).replace(", device='neuron:0'", "")
    return torch.tensor(list(text.encode()), device=on)


@probe
def deep_copies(on: str) -> Tensor:
    torch.manual_seed(0)
    layer = copy.deepcopy(nn.Linear(3, 4).to(on))
    return layer(copy.deepcopy(seeded(on, 3, 3).t()))


@probe
def backward(on: str) -> Tensor:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).to(on)
    model(seeded(on, 5, 4)).pow(2).mean().backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@probe
def backward_of_rms_norm(on: str) -> Tensor:
    x, weight = seeded(on, 4, 8).requires_grad_(), seeded(on, 8).requires_grad_()
    F.rms_norm(x, (8,), weight, 1e-6).square().sum().backward()
    return torch.cat([x.grad.flatten(), weight.grad])


@probe
def backward_of_a_convolution(on: str) -> Tensor:
    weight = seeded(on, 3, 2, 3, 3).requires_grad_()
    F.max_pool2d(F.conv2d(seeded(on, 1, 2, 6, 6), weight), 2).sum().backward()
    return weight.grad


@probe
def backward_in_place(on: str) -> Tensor:
    x = seeded(on, 3, 3).requires_grad_()
    y = x * 2
    y[0].mul_(3)
    y.sum().backward()
    return x.grad


@probe
def backward_of_a_checkpoint(on: str) -> Tensor:
    x = seeded(on, 3, 3).requires_grad_()
    checkpoint(lambda a: torch.tanh(a @ a), x, use_reentrant=False).sum().backward()
    return x.grad


@probe
def training(on: str) -> Tensor:
    torch.manual_seed(0)
    model = nn.Linear(4, 2).to(on)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(model(seeded(on, 5, 4)), torch.tensor([0, 1, 0, 1, 1]).to(on)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    return model.weight


@probe
def complex_numbers(on: str) -> Tensor:
    a = torch.view_as_complex(seeded(on, 2, 4, 2))
    return torch.view_as_real(a.conj() * torch.polar(torch.ones(4, device=on), seeded(on, 4)))


@probe
def linear_algebra(on: str) -> Tensor:
    a = seeded(on, 3, 3)
    return torch.linalg.solve(a @ a.T + torch.eye(3, device=on), a) + torch.fft.rfft(seeded(on, 5)).abs()


@probe
def shapes(on: str) -> Tensor:
    a = F.pad(seeded(on, 2, 3), (1, 1)).roll(1, 1).flip(0).triu()
    return a.repeat(2, 2) + a.repeat_interleave(2, 0).tile(1, 2) + seeded(on, 4, 1).expand(4, 10).contiguous()


@probe
def sizes_of_the_data(on: str) -> Tensor:
    found = torch.unique(torch.tensor([3, 1, 3, 2]).to(on))
    return torch.cat([found, torch.nonzero(seeded(on, 3, 3) > 0).flatten(), torch.empty(0, device=on).long()])


@probe
def inference_mode(on: str) -> Tensor:
    with torch.inference_mode():
        a = seeded(on, 3, 3)
        a[0].add_(1)
        return (a @ a).view(9)


@probe
def function_transforms(on: str) -> Tensor:
    a = seeded(on, 3, 4)
    return torch.vmap(lambda row: (row * row).sum())(a) + torch.func.grad(lambda b: (b * b).sum())(a).sum(1)


@probe
def threads(on: str) -> Tensor:
    sums: list[Tensor] = [torch.empty(0)] * 4

    def compute(number: int) -> None:
        sums[number] = (seeded(on, 3, 4) * number).sum()

    started = [threading.Thread(target=compute, args=(number,)) for number in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return torch.stack(sums)


@probe
def streams(on: str) -> Tensor:
    if on == "cpu":
        return seeded(on, 3) * 2
    with torch.Stream(device=on):
        doubled = seeded(on, 3) * 2
    torch.accelerator.synchronize()
    return doubled


@probe
def compiled(on: str) -> Tensor:
    return torch.compile(lambda a: (a * a).sum(-1).relu(), backend=backend(on), fullgraph=True)(seeded(on, 3, 4))


@probe
def compiled_in_place(on: str) -> Tensor:
    def grow(a: Tensor) -> Tensor:
        a.add_(1)
        return a[1:] * 2

    return torch.compile(grow, backend=backend(on))(seeded(on, 3, 4))


@probe
def compiled_backward(on: str) -> Tensor:
    torch.manual_seed(0)
    layer = nn.Linear(4, 4).to(on)
    torch.compile(lambda a: layer(a).tanh(), backend=backend(on))(seeded(on, 3, 4)).sum().backward()
    return layer.weight.grad


@probe
def saved_and_loaded(on: str) -> Tensor:
    file = io.BytesIO()
    torch.save(seeded(on, 3, 4).t(), file)
    file.seek(0)
    return torch.load(file)


@probe
def other_storage(on: str) -> Tensor:
    a = torch.empty(0, device=on)
    a.set_(seeded(on, 6).untyped_storage(), 1, (2, 2), (2, 1))
    b = seeded(on, 2, 2).clone()
    b.resize_(3, 3).view(-1)[4:] = 2
    parameter = nn.Parameter(seeded(on, 3))
    parameter.data = b
    return parameter.detach()[:2, :2] + a


@probe
def lists_of_tensors(on: str) -> Tensor:
    return torch.stack(torch._foreach_add([seeded(on, 3), seeded(on, 3)], 1.0))


if __name__ == "__main__":
    main()
