"""Coroutines: await, gather, async for, async with, async generators and comprehensions, tasks."""

import asyncio
from contextlib import asynccontextmanager

from ops import exp, matmul, mul, pair, relu, sqrt, stack, tanh, tensor
from profile_neuron import profile_neuron


@profile_neuron(inputs=tensor)
async def coroutine_that_sleeps(x):
    y = x * 2  #: mul
    await asyncio.sleep(0)
    y = y + 1  #: add
    return y - await asyncio.sleep(0, x)  #: sub


async def fetch(x):
    y = x * 2  #: mul
    await asyncio.sleep(0)
    return y + 1  #: add


@profile_neuron(inputs=tensor)
async def await_between_operators(x):
    y = await fetch(x) @ x  #: mul add matmul
    return (
        await fetch(x / 2)  #: div mul add sub
        - y
    )


@profile_neuron(inputs=tensor)
async def tasks_that_take_turns(x):
    async def work(z, steps):
        for _ in range(steps):
            z = z * 2  #: mul*5
            await asyncio.sleep(0)
            z = z - x  #: sub*5
        return z

    a, b = await asyncio.gather(work(x, 2), work(x + 1, 3))  #: add
    return a @ b  #: matmul


@profile_neuron(inputs=tensor)
async def task_of_a_helper(x):
    # A task runs while its maker waits, in no frame of the maker's.
    task = asyncio.create_task(fetch(x + 1))  #: add
    y = x / 2  #: div
    return (await task) @ y  #: matmul


class Source:
    """An asynchronous iterator and context manager."""

    def __init__(self, x):
        self.x = x
        self.steps = 2

    async def __aenter__(self):
        await asyncio.sleep(0)
        return self.x * 2  #: mul

    async def __aexit__(self, kind, error, trace):
        await asyncio.sleep(0)
        self.x = self.x + 1  #: add

    def __aiter__(self):
        return self

    async def __anext__(self):
        y = self.x / 2  #: div
        await asyncio.sleep(0)
        if not self.steps:
            raise StopAsyncIteration
        self.steps -= 1
        return y


@profile_neuron(inputs=tensor)
async def async_with(x):
    async with Source(x) as y:  #: mul add
        y = y @ x  #: matmul
    return -y  #: neg


@profile_neuron(inputs=tensor)
async def async_for(x):
    async for y in Source(x):  #: div*3
        x = x + y  #: add*2
    else:
        x = exp(x)  #: exp
    return x


async def countdown(x, steps):
    for k in range(2):
        yield x * k  #: mul*2
        await asyncio.sleep(0)
        x = x - 1  #: sub*2


@profile_neuron(inputs=tensor)
async def async_generator_of_a_helper(x):
    async for y in countdown(x, 2):  #: mul*2 sub*2
        x = x @ y  #: matmul*2
    return relu(x)  #: relu


@profile_neuron(inputs=tensor)
async def async_generator_that_is_closed(x):
    async def guarded():
        try:
            yield x * 2  #: mul
            yield x / 2
        finally:
            await asyncio.sleep(0)
            tanh(x)  #: tanh

    source = guarded()
    y = await source.__anext__() + 1  #: add
    await source.aclose()
    return y - x  #: sub


@profile_neuron(inputs=tensor)
async def async_comprehension(x):
    parts = [y + 1 async for y in countdown(x, 2)]  #: mul*2 sub*2 add*2
    more = [await fetch(y) for y in parts]  #: mul*2 add*2
    return stack(more)  #: stack


@profile_neuron(inputs=tensor)
async def profiled_async_generator(x):
    for k in range(3):
        x = x * k  #: mul*3
        yield x + 1  #: add*3
        await asyncio.sleep(0)
    tanh(x)  #: tanh


@profile_neuron(inputs=tensor)
async def exception_through_awaits(x):
    async def fail(z):
        z = z * 2  #: mul
        await asyncio.sleep(0)
        raise ValueError(z.sum().item())  #: sum item

    async def middle(z):
        try:
            return await fail(z + 1)  #: add
        finally:
            await asyncio.sleep(0)
            sqrt(z)  #: sqrt

    try:
        x = await middle(x)
    except ValueError:
        x = relu(x)  #: relu
    return x - 1  #: sub


@profile_neuron(inputs=tensor)
async def cancelled_task(x):
    async def work():
        try:
            while True:
                mul(x, x)  #: mul
                await asyncio.sleep(3600)
        except asyncio.CancelledError:
            exp(x)  #: exp
            raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return x + 1  #: add


@asynccontextmanager
async def opened(x):
    y = x * 2  #: mul
    await asyncio.sleep(0)
    try:
        yield y
    finally:
        await asyncio.sleep(0)
        tanh(y)  #: tanh


@profile_neuron(inputs=pair)
async def async_context_manager_from_a_generator(x, y):
    async with opened(x) as a, opened(y) as b:  #: mul*2 tanh*2
        return matmul(  #: matmul
            a,
            b - 1,  #: sub
        )


@profile_neuron(inputs=tensor)
async def wait_for_a_limit(x):
    y = await asyncio.wait_for(asyncio.sleep(0, x * 2), 60)  #: mul
    try:
        await asyncio.wait_for(asyncio.sleep(3600), 0)
    except asyncio.TimeoutError:
        y = y + 1  #: add
    return y


@profile_neuron(inputs=tensor)
async def work_in_a_thread(x):
    y = await asyncio.to_thread(lambda: x * 2)  #: mul
    return y - x  #: sub


class Model:
    @profile_neuron(inputs=tensor)
    async def forward(self, x):
        return await self.attend(x) + await self.attend(x)  #: matmul*2 add

    async def attend(self, x):
        await asyncio.sleep(0)
        return x @ x  #: matmul
