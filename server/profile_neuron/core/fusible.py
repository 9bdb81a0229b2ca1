"""Sequences of operators that one call of torch does at once, so that a device is started once instead of many times.

Told by the names of the operators in the order in which they run, never by their times: whether an own sequence means
the same is for its author to see, and the text of the finding says what it looks like and not what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Casts and changes of shape may stand anywhere between: they start nothing, or are part of the fused call.
_BETWEEN = {
    "to", "_to_copy", "type_as", "float", "view", "reshape", "transpose", "t", "permute", "contiguous", "expand",
    "unsqueeze", "squeeze", "_unsafe_view", "chunk", "split", "slice", "select", "clone", "copy_", "alias", "detach",
}  # fmt: skip


class _Pattern(NamedTuple):
    what: str
    call: str
    # For each step the operators that may stand there.
    steps: tuple[frozenset[str], ...]


class Fusible(NamedTuple):
    """A part of a sequence of operators, from start to before stop."""

    start: int
    stop: int
    what: str
    # The call that does it at once.
    call: str
    # Of the operators, without their namespace.
    names: tuple[str, ...]


def _pattern(what: str, call: str, *steps: str) -> _Pattern:
    return _Pattern(what, call, tuple(frozenset(step.split()) for step in steps))


# Longer ones first: what is part of a longer one is not told by itself.
_PATTERNS = (
    _pattern(
        "this looks like attention", "torch.nn.functional.scaled_dot_product_attention",
        "matmul bmm mm", "mul div", "add masked_fill where", "softmax _softmax", "matmul bmm mm",
    ),
    _pattern(
        "this looks like attention", "torch.nn.functional.scaled_dot_product_attention",
        "matmul bmm mm", "mul div", "softmax _softmax", "matmul bmm mm",
    ),
    _pattern(
        "this looks like an RMSNorm", "torch.rms_norm",
        "mul pow square", "mean", "add", "rsqrt", "mul", "mul",
    ),
    _pattern("this looks like an RMSNorm", "torch.rms_norm", "mul pow square", "mean", "add", "rsqrt", "mul"),
    _pattern(
        "this looks like a LayerNorm", "torch.nn.functional.layer_norm",
        "mean", "sub", "pow square mul", "mean", "add", "rsqrt sqrt", "mul div",
    ),
    _pattern("this looks like a softmax", "torch.softmax", "exp", "sum", "div"),
)  # fmt: skip


def fusible(operators: Sequence[str]) -> Iterator[Fusible]:
    """Parts that follow each other without a gap in them, in order; operators are names as aten::mul."""
    names = [name.rpartition("::")[2] for name in operators]
    start = 0
    while start < len(names):
        found = next((match for pattern in _PATTERNS if (match := _match(names, start, pattern)) is not None), None)
        if found is None:
            start += 1
            continue
        yield found
        start = found.stop


def _match(names: Sequence[str], start: int, pattern: _Pattern) -> Fusible | None:
    position = start
    used: list[str] = []
    for step in pattern.steps:
        while used and position < len(names) and names[position] in _BETWEEN:
            position += 1
        if position == len(names) or names[position] not in step:
            return None
        used.append(names[position])
        position += 1
    return Fusible(start, position, pattern.what, pattern.call, tuple(used))
