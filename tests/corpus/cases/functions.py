"""Functions in functions: nested, closures, lambdas, recursion, callbacks, defaults."""

from functools import lru_cache, partial, reduce

from ops import add, exp, mul, ones, pair, relu, sqrt, sub, tanh, tensor
from profile_neuron import profile_neuron


@profile_neuron(inputs=pair)
def nested_function(x, y):
    def scale(z):
        z = z * 2  #: mul*2
        return z + y  #: add*2

    return scale(x) - scale(y)  #: sub


@profile_neuron(inputs=tensor)
def three_levels_of_nesting(x):
    def outer(a):
        def middle(b):
            def inner(c):
                return c * 2  #: mul

            return inner(b) + 1  #: add

        return middle(a) - 1  #: sub

    return -outer(x)  #: neg


@profile_neuron(inputs=pair)
def closure_that_changes_its_variable(x, y):
    total = x * y  #: mul

    def accumulate(z):
        nonlocal total
        total = total + z  #: add*3
        return total

    for z in (x, y, x):
        accumulate(z)
    return total / 2  #: div


@profile_neuron(inputs=pair)
def operator_after_a_call_on_the_same_line(x, y):
    def square(z):
        return z * z  #: mul*2

    return square(x) @ y + square(y) - x  #: matmul add sub


@profile_neuron(inputs=pair)
def call_as_an_argument_between_operators(x, y):
    def square(z):
        return z * z  #: mul

    return add(  #: add
        x - y,  #: sub
        square(  #: div
            x + y,  #: add
        ) / 2,
    )


@profile_neuron(inputs=pair)
def lambdas(x, y):
    scale = lambda z: z * 2  #: mul*2
    combine = lambda a, b: (
        a + b  #: add
    )
    return combine(scale(x), scale(y)) - x  #: sub


@profile_neuron(inputs=pair)
def lambda_called_where_it_stands(x, y):
    return (lambda a, b: a * b + a)(x, y) @ y  #: mul add matmul


@profile_neuron(inputs=tensor)
def lambdas_in_builtins(x):
    scaled = list(map(lambda k: x * k, range(3)))  #: mul*3
    ordered = sorted(range(3), key=lambda k: (x - k).sum().item())  #: sub*3 sum*3 item*3
    total = reduce(lambda a, b: a + b, scaled)  #: add*2
    return total / ordered[0]  #: div


@profile_neuron(inputs=tensor)
def recursion(x, depth=3):
    if depth == 0:
        return exp(x)  #: exp
    y = x * 2  #: mul*3
    return recursion(y, depth - 1) + y  #: add*3


@profile_neuron(inputs=tensor)
def recursion_of_a_nested_function(x):
    def halve(z, depth):
        return halve(z / 2, depth - 1) + z if depth else z  #: div*2 add*2

    return relu(halve(x, 2))  #: relu


@profile_neuron(inputs=tensor)
def functions_that_call_each_other(x):
    def even(z, n):
        return odd(z + 1, n - 1) if n else z  #: add*2

    def odd(z, n):
        return even(
            z * 2,  #: mul*2
            n - 1,
        )

    return even(x, 4)


@profile_neuron(inputs=pair)
def body_on_the_line_of_def(x, y): return x * y + scaled_on_one_line(x)  #: mul*2 add


def scaled_on_one_line(x): return x * 2  #: mul


@profile_neuron(inputs=tensor, fresh=True, warmup=0)
def argument_changed_in_place(x):
    x += 1  #: add_
    return x.sum()  #: sum


@profile_neuron(inputs=pair, grad=False, warmup=1, name="without gradients")
def options_of_the_mark(x, y):
    return x @ y  #: matmul


@profile_neuron(inputs=pair)
def partial_application(x, y):
    scale = partial(mul, y)
    shift = partial(lambda a, b: a - b, y)  #: sub
    return shift(scale(x))  #: mul


@profile_neuron(inputs=pair)
def operator_passed_as_a_value(x, y):
    for apply in (add, sub, mul):
        x = apply(x, y)  #: add sub mul
    return [apply(x) for apply in (exp, sqrt, tanh)]  #: exp sqrt tanh


@profile_neuron(inputs=tensor)
def defaults_are_computed_with_the_definition(x):
    def scale(
        z,
        factor=x * 2,  #: mul
        shift=x + 1,  #: add
    ):
        return z @ factor - shift  #: matmul sub

    return scale(x)


@profile_neuron(inputs=tensor)
def decorator_of_a_nested_function(x):
    def scaled(factor):
        def decorate(function):
            return lambda z: function(z) * factor  #: mul
        return decorate

    @scaled(x + 1)  #: add
    def shift(z):
        return z - 1  #: sub

    return shift(x)


@profile_neuron(inputs=tensor)
def class_in_a_function(x):
    class Layer:
        weight = x * 2  #: mul

        def forward(self, z):
            return z @ self.weight  #: matmul

        def __call__(self, z):
            return self.forward(z) + 1  #: add

    return Layer()(x)


def scale_and_shift(x, factor, *shifts, **more):
    x = x * factor  #: mul
    for shift in (*shifts, *more.values()):
        x = x + shift  #: add*3
    return x


@profile_neuron(inputs=pair)
def stars_in_a_call(x, y):
    return scale_and_shift(*(  #: mul add*3
        x,
        y * 2,  #: mul
        y,
    ), **{
        "one": 1,
        "two": y - 2,  #: sub
    })


def make(factor):
    """The outer function runs during import, so the inner ones stand for themselves."""

    @profile_neuron(inputs=tensor)
    def inner(x):
        y = x * factor  #: mul
        return [z - 1 for z in (x, y)]  #: sub*2

    return inner


made = make(3)

square = lambda z: z * z  #: mul


@profile_neuron(inputs=tensor)
def lambda_of_the_module(x):
    return square(x + 1) - x  #: add mul sub


@lru_cache(maxsize=None)
def weight(size):
    return ones() * size  #: ones mul


@profile_neuron(inputs=tensor)
def cache_that_is_emptied(x):
    weight.cache_clear()
    return weight(2) @ x + weight(2)  #: ones mul matmul add
