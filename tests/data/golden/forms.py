"""Forms of statements, for the places of hints; test_golden.py has it run by the fake agent, so nothing here is executed."""

import contextlib
import functools

import torch

from profile_neuron import profile_neuron


def inputs():
    return torch.ones(4)


@profile_neuron
def nested(x):
    """A docstring takes no time."""

    def scaled(y):
        return y * 2

    @functools.lru_cache(
        maxsize=None,
    )
    def cached(n):
        # A comment before the first statement.
        return n + 1

    class Local:
        """Its docstring does not either."""

        size = 3

        def method(self, z):
            return z - self.size

    return scaled(x) + cached(1) + Local().method(x)


@profile_neuron(
    inputs=inputs,
    repeats=2,
    name="outer and inner",
)
def outer(x):
    before = x + 1

    @profile_neuron
    def inner(y):
        doubled = y * 2
        return doubled

    after = inner(before)
    return after


@profile_neuron(inputs=lambda: (torch.ones(2), torch.ones(2)))
def expressions(x, y):
    rows = [row * 2 for row in x]
    table = {
        name: value + 1
        for name, value in zip("ab", y)
        if value.sum() > 0
    }
    lazy = (item for item in rows)
    double = lambda z: z * 2
    triple = lambda z: (
        z * 3
    )
    return sum(lazy) + double(x) + triple(y) + sum(table.values())


@profile_neuron
def lines(x, w):
    total = (
        x
        * w
    )
    wide = torch.cat(
        (
            total,
            x,
        ),
        dim=0,
    ).sum(
        dim=0,
    )
    joined = x + \
        w + \
        wide
    text = f"""first
    {wide.sum()}
    last"""
    a = x + 1; b = a * 2; c = b - w
    d = (a +
         b); e = c
    if a.sum() > 0: a = a * 2
    print(
        text,
        d,
    ); return a + b + c + e + joined


@profile_neuron
def compound(x, command):
    for step in range(
        3,
    ):
        # Between the header and the body.

        x = x + step
    else:
        x = x * 2
    while x.sum() < 10:
        x = x * 2
        if x.max() > 5:
            break
        elif x.min() < 0:
            continue
        else:
            pass
    with (
        torch.no_grad(),
        contextlib.suppress(ValueError),
    ):
        x = x - 1
    try:
        x = x / x.sum()
    except (
        ZeroDivisionError,
        OverflowError,
    ) as error:
        raise ValueError(
            "no sum",
        ) from error
    else:
        x = x + 0
    finally:
        command = command[::-1]
    match command:
        case [] | [[]]:
            return x
        case [first, *rest] if (
            len(rest) > 1
        ):
            x = x + len(first)
        case {"scale": scale, **others}:
            x = x * scale
        case _:
            x = x - 1
    assert x.shape, (
        "a scalar"
    )
    global COUNT
    COUNT = 1
    del command
    return x


class Model:
    @profile_neuron
    async def answer(self, reader):
        first = await reader.read()
        async for piece in reader:
            first = first + piece
        async with reader.lock as lock, reader.other:
            pieces = [piece async for piece in reader]
        return first, pieces, lock

    @staticmethod
    @profile_neuron
    @torch.no_grad()
    def stream(x):
        while True:
            y = yield x
            x = yield from (
                y + 1,
                y + 2,
            )

    @property
    @profile_neuron
    def norm(self): return self.weight.norm()


@profile_neuron
def 文字(x):
    名前 = x + 1  # 名前
    smile = "😀😀" + "👩‍👩‍👧"; y = x * 2  # 😀
    text = "漢字" if y.sum() > 0 else "かな"
    combining = "é"
	
    trailing = x - 1   	
    return smile, text, combining, trailing, 名前
