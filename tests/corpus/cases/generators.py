"""Generators: profiled ones, helpers, send, throw, close, yield from, and frames that take turns."""

from ops import exp, mul, pair, relu, sqrt, stack, tanh, tensor
from profile_neuron import profile_neuron


@profile_neuron(inputs=tensor)
def profiled_generator(x):
    y = x * 2  #: mul
    yield y + 1  #: add
    for k in range(3):
        yield (
            y - k  #: sub*3
        )
        y = exp(y)  #: exp*3


def scaled_rows(x):
    for k in range(3):
        y = x * k  #: mul*3
        yield y + 1  #: add*3
    tanh(x)  #: tanh


@profile_neuron(inputs=tensor)
def generator_of_a_helper(x):
    total = x / 2  #: div
    for row in scaled_rows(x):  #: mul*3 add*3 tanh
        total = total @ row  #: matmul*3
    return total


@profile_neuron(inputs=tensor)
def nested_generator(x):
    def halves(z):
        while True:
            z = z / 2  #: div*3
            yield z - 1  #: sub*3

    source = halves(x)
    first = next(source) + x  #: add
    second = next(source) * x  #: mul
    return first @ second + next(source)  #: matmul add


@profile_neuron(inputs=tensor)
def generators_that_take_turns(x):
    def steps(z):
        for k in range(2):
            z = z + k  #: add*4
            yield z * 2  #: mul*4

    return [a - b for a, b in zip(steps(x), steps(x))]  #: sub*2


@profile_neuron(inputs=tensor)
def generator_expression(x):
    parts = (x * k for k in range(3))  #: mul*3
    first = next(parts) + 1  #: add
    return sum(  #: add*2
        part
        - first  #: @-1 sub*2
        for part in parts
    )


@profile_neuron(inputs=tensor)
def yield_as_an_expression(x):
    def running():
        total = x / 2  #: div
        while True:
            total = total + (yield total) * 2  #: mul*2 add*2

    averager = running()
    next(averager)
    averager.send(x)
    return averager.send(x - 1) @ x  #: sub matmul


@profile_neuron(inputs=tensor)
def yield_over_several_lines(x):
    def running():
        received = mul(  #: mul
            (
                yield x + 1  #: add
            ),
            exp(  #: exp
                (yield x - 1),  #: sub
            ),
        )
        yield received

    source = running()
    next(source)
    source.send(x / 2)  #: div
    return source.send(x)


@profile_neuron(inputs=tensor)
def delegation(x):
    def inner(z):
        yield z * 2  #: mul
        yield z + 1  #: add
        return z - 1  #: sub

    def outer(z):
        result = yield from inner(z)
        yield result / 2  #: div

    return stack([*outer(x)])  #: stack


def delegating(x):
    rest = yield from finishing(x + 1)  #: add mul sub
    yield rest @ x  #: matmul


def finishing(x):
    yield x * 2  #: mul
    return x - 1  #: sub


@profile_neuron(inputs=tensor)
def delegation_between_helpers(x):
    for y in delegating(x):  #: add mul sub matmul
        relu(y)  #: relu*2


@profile_neuron(inputs=tensor)
def generator_that_is_closed(x):
    def guarded():
        try:
            yield x * 2  #: mul
            yield x / 2
        finally:
            tanh(x)  #: tanh

    source = guarded()
    y = next(source) + 1  #: add
    source.close()
    return y - x  #: sub


@profile_neuron(inputs=tensor)
def generator_that_is_thrown_into(x):
    def guarded(z):
        while True:
            try:
                z = z + (yield z * 2)  #: mul*3 add
            except ValueError:
                z = relu(z)  #: relu

    source = guarded(x)
    next(source)
    source.send(x)
    y = source.throw(ValueError()) - x  #: sub
    return exp(y)  #: exp


@profile_neuron(inputs=tensor)
def exception_out_of_a_generator(x):
    def failing():
        yield x * 2  #: mul
        tanh(x)  #: tanh
        raise ValueError

    total = x
    try:
        for y in failing():
            total = total + y  #: add
    except ValueError:
        total = -total  #: neg
    return total @ x  #: matmul


@profile_neuron(inputs=tensor)
def generator_left_by_break(x):
    def endless(z):
        try:
            while True:
                yield z * 2  #: mul
        finally:
            sqrt(z)  #: sqrt

    for y in endless(x):
        y = y - 1  #: sub
        break
    return y / 2  #: div


@profile_neuron(inputs=pair)
def recursive_generator(x, y):
    def halves(z, depth):
        if depth:
            yield from halves(z / 2, depth - 1)  #: div*2
        yield z + y  #: add*3

    return [part * 2 for part in halves(x, 2)]  #: mul*3
