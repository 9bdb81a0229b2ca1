"""A Llama decoder block: RMSNorm, rotary attention with a cache that grows in place, SwiGLU.

The marked methods share one set of weights. What a helper costs stands on the line that calls it, and again
on the helper's own lines.

Run it: profile-neuron run samples/llama_block.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from profile_neuron import profile_neuron


@dataclass(frozen=True)
class Config:
    hidden: int = 256
    intermediate: int = 688
    heads: int = 8
    kv_heads: int = 2
    rotary_base: float = 10_000.0
    epsilon: float = 1e-5

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads


CONFIG = Config()
BATCH, LENGTH = 1, 32


def device() -> torch.device:
    """The accelerator of this machine, or the CPU where it has none."""
    if torch.accelerator.is_available():
        return torch.accelerator.current_accelerator() or torch.device("cpu")
    return torch.device("cpu")


DEVICE = device()
DTYPE = torch.float32 if DEVICE.type == "cpu" else torch.bfloat16


class RMSNorm(nn.Module):
    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    @profile_neuron(grad=False)
    def forward(self, x: Tensor) -> Tensor:
        precise = x.float()
        mean_square = precise.square().mean(-1, keepdim=True)
        scale = torch.rsqrt(mean_square + self.epsilon)
        normalised = (precise * scale).type_as(x)
        return normalised * self.weight


def rotary_tables(start: int, length: int, size: int, base: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine for the positions from start on, one row per position."""
    positions = torch.arange(start, start + length, device=DEVICE, dtype=torch.float32)
    exponents = torch.arange(0, size, 2, device=DEVICE, dtype=torch.float32) / size
    angles = torch.outer(positions, base**-exponents)
    both_halves = torch.cat((angles, angles), dim=-1)
    return both_halves.cos(), both_halves.sin()


def rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    straight = x * cos
    turned = rotate_half(x) * sin
    return (straight + turned).type_as(x)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """From [batch, length, heads * size] to [batch, heads, length, size]."""
    batch, length, _ = x.shape
    return x.view(batch, length, heads, -1).transpose(1, 2)


def causal_mask(length: int, total: int) -> Tensor:
    """Minus infinity where one of the last length positions would see a later one of all total."""
    blocked = torch.full((length, total), -math.inf, device=DEVICE, dtype=DTYPE)
    return blocked.triu(total - length + 1)


class KVCache:
    """Keys and values of all positions so far, in storage that is larger and doubles when it is full."""

    def __init__(self, config: Config, capacity: int) -> None:
        shape = (BATCH, config.kv_heads, capacity, config.head_size)
        self.length = 0
        self.keys = torch.zeros(shape, device=DEVICE, dtype=DTYPE)
        self.values = torch.zeros(shape, device=DEVICE, dtype=DTYPE)

    @property
    def capacity(self) -> int:
        return self.keys.shape[2]

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the next positions in place; gives views of all positions, the new ones last."""
        start, end = self.length, self.length + keys.shape[2]
        if end > self.capacity:
            self.reserve(max(end, 2 * self.capacity))
        self.keys[:, :, start:end] = keys
        self.values[:, :, start:end] = values
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def reserve(self, capacity: int) -> None:
        """Move to larger storage."""
        more = capacity - self.capacity
        self.keys = F.pad(self.keys, (0, 0, 0, more))
        self.values = F.pad(self.values, (0, 0, 0, more))


class Attention(nn.Module):
    """Grouped-query attention: several query heads share one head of keys and values."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.q_proj = nn.Linear(config.hidden, config.heads * config.head_size, bias=False)
        self.k_proj = nn.Linear(config.hidden, config.kv_heads * config.head_size, bias=False)
        self.v_proj = nn.Linear(config.hidden, config.kv_heads * config.head_size, bias=False)
        self.o_proj = nn.Linear(config.heads * config.head_size, config.hidden, bias=False)

    @profile_neuron(inputs=lambda: (hidden_states(), KVCache(CONFIG, 2 * LENGTH)), grad=False)
    def forward(self, x: Tensor, cache: KVCache) -> Tensor:
        config = self.config
        length = x.shape[1]
        queries = split_heads(self.q_proj(x), config.heads)
        keys = split_heads(self.k_proj(x), config.kv_heads)
        values = split_heads(self.v_proj(x), config.kv_heads)
        cos, sin = rotary_tables(cache.length, length, config.head_size, config.rotary_base)
        queries = apply_rotary(queries, cos, sin)
        keys = apply_rotary(keys, cos, sin)
        keys, values = cache.append(keys, values)
        keys = keys.repeat_interleave(config.heads // config.kv_heads, dim=1)
        values = values.repeat_interleave(config.heads // config.kv_heads, dim=1)
        scores = queries @ keys.transpose(-2, -1)
        scaled = scores / math.sqrt(config.head_size)
        masked = scaled + causal_mask(length, cache.length)
        weights = masked.softmax(dim=-1)
        mixed = weights @ values
        merged = mixed.transpose(1, 2).flatten(2)
        output: Tensor = self.o_proj(merged)
        return output


class SwiGLU(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=False)

    @profile_neuron(grad=False)
    def forward(self, x: Tensor) -> Tensor:
        gate = F.silu(self.gate_proj(x))
        gated = gate * self.up_proj(x)
        output: Tensor = self.down_proj(gated)
        return output


class DecoderBlock(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.hidden, config.epsilon)
        self.attention = Attention(config)
        self.mlp_norm = RMSNorm(config.hidden, config.epsilon)
        self.mlp = SwiGLU(config)

    @profile_neuron(grad=False)
    def forward(self, x: Tensor, cache: KVCache) -> Tensor:
        attended: Tensor = self.attention(self.attention_norm(x), cache)
        x = x + attended
        transformed: Tensor = self.mlp(self.mlp_norm(x))
        return x + transformed


torch.manual_seed(0)
BLOCK: DecoderBlock = DecoderBlock(CONFIG).to(DEVICE, DTYPE).eval()


def hidden_states() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(BATCH, LENGTH, CONFIG.hidden).to(DEVICE, DTYPE)


# The profiler looks these up by name: CLASS_instance gives the object a method is called on, and
# CLASS_METHOD_inputs its arguments where the decorator has no inputs=. It calls them once per run, so the
# cache is longer in every call.


def DecoderBlock_instance() -> DecoderBlock:
    return BLOCK


def DecoderBlock_forward_inputs() -> tuple[Tensor, KVCache]:
    return hidden_states(), KVCache(CONFIG, 2 * LENGTH)


def Attention_instance() -> Attention:
    return BLOCK.attention


def SwiGLU_instance() -> SwiGLU:
    return BLOCK.mlp


def SwiGLU_forward_inputs() -> Tensor:
    return hidden_states()


def RMSNorm_instance() -> RMSNorm:
    return BLOCK.attention_norm


def RMSNorm_forward_inputs() -> Tensor:
    return hidden_states()
