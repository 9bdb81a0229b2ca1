"""What the corpus needs of torch, without torch: an operator is a plain call that notes one event under its name.

The same record takes the ranges of the line clock, and a counter stands for the clock, so that operators and
ranges nest as they do in a trace of torch.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class Noted(NamedTuple):
    """An operator or a range that has ended; start and end are steps of the counter."""

    name: str
    thread: int
    start: int
    end: int


class Record:
    """What ran while it was on, of all threads; there is one, as torch has one profiler."""

    def __init__(self) -> None:
        self.noted: list[Noted] = []
        self._steps = itertools.count(1)
        self._is_on = False

    def switch(self, is_on: bool) -> None:
        """Begin an empty record, or end it."""
        if is_on:
            self.noted = []
        self._is_on = is_on

    def step(self) -> int:
        """The next point in time; no two are equal."""
        return next(self._steps)

    def note(self, name: str, start: int) -> None:
        """End at this point what started at another one."""
        if self._is_on:
            self.noted.append(Noted(name, threading.get_native_id(), start, self.step()))


RECORD = Record()


def _run(name: str, value: Any) -> Any:
    RECORD.note(f"aten::{name}", RECORD.step())
    return value


def _value(operand: Any) -> Any:
    return operand.value if isinstance(operand, Tensor) else operand


class Tensor:
    """A tensor of equal elements, known by one of them; only the sign of its value is to be relied on."""

    def __init__(self, value: float) -> None:
        self.value = value

    def _binary(self, name: str, other: Any, compute: Callable[[Any, Any], Any]) -> Tensor:
        return Tensor(_run(name, compute(self.value, _value(other))))

    def _same(self, name: str) -> Tensor:
        return Tensor(_run(name, self.value))

    def _change(self, name: str, value: float) -> Tensor:
        self.value = _run(name, value)
        return self

    def __add__(self, other: Any) -> Tensor:
        return self._binary("add", other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Tensor:
        return self._binary("sub", other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Tensor:
        return self._binary("rsub", other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Tensor:
        return self._binary("mul", other, lambda a, b: a * b)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Tensor:
        return self._binary("div", other, lambda a, b: a / b)

    def __matmul__(self, other: Any) -> Tensor:
        return self._binary("matmul", other, lambda a, b: a * b)

    def __pow__(self, other: Any) -> Tensor:
        return self._binary("pow", other, lambda a, b: a**b)

    def __iadd__(self, other: Any) -> Tensor:
        return self._change("add_", self.value + _value(other))

    def __isub__(self, other: Any) -> Tensor:
        return self._change("sub_", self.value - _value(other))

    def __imul__(self, other: Any) -> Tensor:
        return self._change("mul_", self.value * _value(other))

    def __neg__(self) -> Tensor:
        return Tensor(_run("neg", -self.value))

    def __abs__(self) -> Tensor:
        return Tensor(_run("abs", abs(self.value)))

    def __invert__(self) -> Tensor:
        return Tensor(_run("bitwise_not", not self.value))

    def __and__(self, other: Any) -> Tensor:
        return self._binary("__and__", other, lambda a, b: a and b)

    def __gt__(self, other: Any) -> Tensor:
        return self._binary("gt", other, lambda a, b: a > b)

    def __ge__(self, other: Any) -> Tensor:
        return self._binary("ge", other, lambda a, b: a >= b)

    def __lt__(self, other: Any) -> Tensor:
        return self._binary("lt", other, lambda a, b: a < b)

    def __le__(self, other: Any) -> Tensor:
        return self._binary("le", other, lambda a, b: a <= b)

    def __getitem__(self, index: Any) -> Tensor:
        if isinstance(index, Tensor):
            return self._same("index")
        return self._same("slice" if isinstance(index, slice) else "select")

    def __iter__(self) -> Iterator[Tensor]:
        return iter(_run("unbind", [Tensor(self.value) for _ in range(4)]))

    def __bool__(self) -> bool:
        return bool(_run("is_nonzero", self.value))

    def __float__(self) -> float:
        return self.item()

    def item(self) -> float:
        return float(_run("item", self.value))

    def sum(self) -> Tensor:
        return self._same("sum")

    def mean(self) -> Tensor:
        return self._same("mean")

    def exp(self) -> Tensor:
        return self._same("exp")

    def relu(self) -> Tensor:
        return self._same("relu")

    def clamp(self, least: float) -> Tensor:
        return self._same("clamp")

    def t(self) -> Tensor:
        return self._same("t")


def ones(*size: int) -> Tensor:
    return Tensor(_run("ones", 1.0))


def tensor(value: float) -> Tensor:
    return Tensor(value)


def add(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def sub(x: Tensor, y: Tensor) -> Tensor:
    return x - y


def mul(x: Tensor, y: Tensor) -> Tensor:
    return x * y


def matmul(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return Tensor(_run("where", x.value if condition.value else y.value))


def exp(x: Tensor) -> Tensor:
    return x.exp()


def relu(x: Tensor) -> Tensor:
    return x.relu()


def sqrt(x: Tensor) -> Tensor:
    return Tensor(_run("sqrt", x.value))


def tanh(x: Tensor) -> Tensor:
    return Tensor(_run("tanh", x.value))


def sigmoid(x: Tensor) -> Tensor:
    return Tensor(_run("sigmoid", x.value))


def softmax(x: Tensor, dim: int) -> Tensor:
    return Tensor(_run("softmax", x.value))


def stack(tensors: Sequence[Tensor]) -> Tensor:
    return Tensor(_run("stack", tensors[0].value))


def cat(tensors: Sequence[Tensor]) -> Tensor:
    return Tensor(_run("cat", tensors[0].value))
