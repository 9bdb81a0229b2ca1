"""Methods of every kind, properties, operators defined by a class, and what a class statement runs."""

from dataclasses import dataclass, field
from functools import cached_property, singledispatchmethod

from ops import Tensor, exp, matmul, mul, ones, pair, relu, scalar, sigmoid, sqrt, tanh, tensor
from profile_neuron import profile_neuron


class Linear:
    """A small module: its methods call each other."""

    def __init__(self):
        self.weight = ones()  #: ones
        self.steps = 0

    @profile_neuron(inputs=tensor)
    def forward(self, x):
        self.steps += 1
        y = x @ self.weight  #: matmul
        return self.activate(y) + self.bias  #: relu add mul

    def activate(self, y):
        return relu(y)  #: relu

    @property
    def bias(self):
        return self.weight * 2  #: mul

    @profile_neuron(inputs=tensor)
    def __call__(self, x):
        return self.forward(x) - 1  #: matmul relu add mul sub

    @profile_neuron(inputs=tensor)
    def __private(self, x):
        return self.weight - x  #: sub

    @staticmethod
    @profile_neuron(inputs=pair)
    def combine(x, y):
        return x * y + x  #: mul add

    @profile_neuron(inputs=pair)
    @staticmethod
    def combine_marked_above(x, y):
        return x - y  #: sub

    @classmethod
    @profile_neuron(inputs=tensor)
    def build(cls, x):
        layer = cls()  #: ones
        layer.weight = layer.weight / x  #: div
        return layer

    @property
    @profile_neuron
    def scale(self):
        return sqrt(  #: sqrt
            self.weight.sum()  #: sum
        )

    @scale.setter
    @profile_neuron(inputs=tensor)
    def scale(self, value):
        self.weight = self.weight * 0 + value  #: mul add

    @cached_property
    @profile_neuron
    def norm(self):
        return (self.weight * self.weight).sum()  #: mul sum


class Residual(Linear):
    """A derived class, made by a factory of the file."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    @profile_neuron(inputs=tensor)
    def forward(self, x):
        y = super().forward(x)  #: matmul relu add mul
        return y * self.factor + x  #: mul add

    @profile_neuron(inputs=tensor, instance=lambda: Residual(3))
    def twice(self, x):
        for _ in range(2):
            x = self.forward(x)  #: matmul*2 relu*2 add*4 mul*4
        return x


def Residual_instance():
    return Residual(2)


class Outer:
    """A class in a class."""

    class Inner:
        @profile_neuron(inputs=tensor)
        def forward(self, x):
            return self.Deepest.run(x) / 2  #: exp div

        class Deepest:
            @staticmethod
            def run(x):
                return exp(x)  #: exp


class Point:
    """Operators, subscripts, iteration and comparison by methods of Python."""

    def __init__(self, x):
        self.x = x

    def __add__(self, other):
        return Point(self.x + other.x)  #: add

    def __matmul__(self, other):
        return Point(matmul(self.x, other.x))  #: matmul

    def __getitem__(self, index):
        return self.x[index]  #: select

    def __lt__(self, other):
        return (self.x - other.x).sum() < 0  #: sub sum lt

    def __bool__(self):
        return bool(self.x.sum() > 0)  #: sum gt is_nonzero

    def __iter__(self):
        yield self.x * 2  #: mul
        yield self.x / 2  #: div


@profile_neuron(inputs=pair)
def operators_defined_by_a_class(x, y):
    a, b = Point(x), Point(y)
    c = a + b @ a  #: add matmul
    first = c[0]  #: select
    if c:  #: sum gt is_nonzero
        first = -first  #: neg
    return first, a < b, [*c]  #: sub sum lt mul div


@dataclass
class Parameters:
    """Defaults that are built for each object."""

    weight: Tensor = field(default_factory=lambda: ones() * 2)  #: ones mul
    bias: Tensor = None

    def __post_init__(self):
        self.bias = self.weight + 1  #: add


@profile_neuron(inputs=tensor)
def dataclass_with_computed_fields(x):
    parameters = Parameters()  #: ones mul add
    return x @ parameters.weight + parameters.bias  #: matmul add


class Clamped:
    """A descriptor."""

    def __get__(self, owner, kind):
        return owner.raw.clamp(0)  #: clamp

    def __set__(self, owner, value):
        owner.raw = tanh(value)  #: tanh


class Gate:
    value = Clamped()

    @singledispatchmethod
    def apply(self, other):
        return sigmoid(other)  #: sigmoid

    @apply.register
    def _(self, other: int):
        return self.value * other  #: clamp mul

    def __getattr__(self, name):
        if name != "computed":
            raise AttributeError(name)
        return self.raw + 1  #: add


@profile_neuron(inputs=tensor)
def descriptor_and_dispatch(x):
    gate = Gate()
    gate.value = x * 2  #: mul tanh
    both = gate.apply(x) - gate.apply(3)  #: sigmoid clamp mul sub
    return both @ gate.computed  #: add matmul


class Handle:
    """Runs an operator when the last reference to it goes."""

    def __init__(self, x):
        self.x = x

    def __del__(self):
        exp(self.x)  #: exp


@profile_neuron(inputs=tensor)
def object_that_is_let_go(x):
    handle = Handle(x * 2)  #: mul
    y = handle.x + 1  #: add
    del handle  #: exp
    return y - Handle(x).x  #: sub exp


class Countdown:
    """An iterator whose end is an exception."""

    def __init__(self, x, steps):
        self.x = x
        self.steps = steps

    def __iter__(self):
        return self

    def __next__(self):
        y = self.x * self.steps  #: mul
        if self.steps == 0:
            raise StopIteration
        self.steps -= 1
        return y


@profile_neuron(inputs=tensor)
def iterator_that_ends_with_an_exception(x):
    total = sum(Countdown(x, 2)) - x  #: mul*3 add*2 sub
    for y in Countdown(x, 2):  #: mul*3
        total = total + y  #: add*2
    return next(Countdown(x, 0), x) / 2, total  #: mul div


@profile_neuron(inputs=scalar)
def class_statement_that_branches(x):
    class Chosen:
        if x > 0:  #: gt is_nonzero
            factor = x * 2  #: mul
        else:
            factor = x / 2
        scales = [x + k for k in range(2)]  #: add*2

    return Chosen.factor - mul(*Chosen.scales)  #: mul sub
