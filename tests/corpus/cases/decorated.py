"""Decorators above and below the mark: their lines never carry an operator."""

from contextlib import ContextDecorator
from functools import wraps

from ops import exp, pair, relu, tanh, tensor
from profile_neuron import profile_neuron


def doubled(function):
    @wraps(function)
    def wrapper(x):
        y = x * 2  #: mul
        result = function(y)  #: neg exp
        return result + y  #: add

    return wrapper


def shifted(by):
    def decorate(function):
        def call(x):
            return function(x + by)  #: add relu

        call.__wrapped__ = function
        return call

    return decorate


class logged(ContextDecorator):
    """A decorator of contextlib, whose both ends run operators of the module's own helper."""

    def __init__(self, note):
        self.note = note

    def __enter__(self):
        self.note(tensor())  #: ones tanh

    def __exit__(self, *error):
        return None


def note(x):
    return tanh(x)  #: tanh


def before(prepare):
    def decorate(function):
        @wraps(function)
        def prepared(x):
            return function(prepare(x))  #: mul sub neg

        return prepared

    return decorate


@before(lambda x: x * 2 - 1)  #: mul sub
@profile_neuron(inputs=tensor)
def lambda_in_a_decorator(x):
    return -x  #: neg


@doubled
@profile_neuron(inputs=tensor)
def decorator_above(x):
    x = -x  #: neg
    return exp(x)  #: exp


@profile_neuron(inputs=tensor)
@shifted(1)
def decorator_below(x):
    return relu(x)  #: relu


@logged(
    note=note,
)
@profile_neuron(
    inputs=pair,
    name="decorators of several lines",
)
@logged(note)
def decorators_over_several_lines(
    x,
    y,
):
    return (
        x  #: add
        + y * 2  #: mul
    )


@profile_neuron(inputs=tensor)
def decorated_function_called_by_another(x):
    # With the decorator's own line above the definition it is entered through its wrapper.
    x = decorator_below(x) - 1  #: add relu sub
    return decorator_below(x)  #: add relu
