"""Statements that decide what runs next: loops, branches, try, with, match, return and raise."""

from contextlib import contextmanager, nullcontext, suppress

from ops import add, exp, matmul, mul, pair, relu, scalar, sigmoid, sqrt, tanh, tensor
from profile_neuron import profile_neuron


@profile_neuron(inputs=pair)
def for_loop_with_else(x, y):
    for _ in range(3):
        x = x * y  #: mul*3
        y = y + 1  #: add*3
    else:
        x = x - y  #: sub
    return x


@profile_neuron(inputs=tensor)
def loop_on_one_line(x):
    for k in range(4): x = x * k  #: mul*4
    return x


@profile_neuron(inputs=tensor)
def break_and_continue(x):
    total = 0
    for k, row in enumerate(x):  #: unbind
        if k == 1:
            continue
        if k == 3:
            total = total - row  #: sub
            break
        total = total + row * k  #: mul*2 add*2
    else:
        total = exp(total)
    return total


@profile_neuron(inputs=scalar)
def while_loop_with_operators_in_its_condition(x):
    steps = 0
    while steps < 3 and x * 2 > 0:  #: mul*3 gt*3 is_nonzero*3
        x = x + 1  #: add*3
        steps += 1
    return x


@profile_neuron(inputs=scalar)
def while_loop_over_several_lines(x):
    steps = 2
    while (
        steps
        and x + 1  #: add*2 gt*2 is_nonzero*2
        > 0
    ):
        steps -= 1
    else:
        x = -x  #: neg
    return x


@profile_neuron(inputs=scalar)
def branches(x):
    if x > 2:  #: gt is_nonzero
        x = x * 2
    elif x < 0:  #: lt is_nonzero
        x = x - 2
    elif (
        x + 1  #: add le is_nonzero
        <= 3
    ):
        x = exp(x)  #: exp
    else:
        x = relu(x)
    return x


@profile_neuron(inputs=scalar)
def early_return(x):
    y = x * 2  #: mul
    if y > 0:  #: gt is_nonzero
        return y + 1  #: add
    y = exp(y)
    return y


@profile_neuron(inputs=pair)
def return_through_finally(x, y):
    try:
        for _ in range(3):
            try:
                return x * y  #: mul
            finally:
                x = x + 1  #: add
    finally:
        y = y - x  #: sub
    return exp(y)


@profile_neuron(inputs=pair)
def try_except_else_finally(x, y):
    try:
        z = x * y  #: mul
    except ValueError:
        z = x - y
    else:
        z = z + 1  #: add
    finally:
        x = x / 2  #: div
    return z @ x  #: matmul


@profile_neuron(inputs=tensor)
def continue_and_break_through_finally(x):
    for k in range(4):
        try:
            if k == 0:
                continue
            if k == 2:
                break
            x = x * 2  #: mul
        finally:
            x = x + 1  #: add*3
    return x


@profile_neuron(inputs=tensor)
def return_that_replaces_an_exception(x):
    def work():
        try:
            raise KeyError(x.mean().item())  #: mean item
        finally:
            return relu(x)  #: relu

    return work() - x  #: sub


@profile_neuron(inputs=tensor)
def caught_exception(x):
    try:
        x = x * 2  #: mul
        raise ValueError(x.sum().item())  #: sum item
    except (TypeError, KeyError):
        x = exp(x)
    except ValueError as error:
        x = x + error.args[0]  #: add
    finally:
        x = -x  #: neg
    return x


def diverge(x):
    """Raises after some work."""
    x = x * 2  #: mul
    raise ArithmeticError(x.sum().item())  #: sum item


@profile_neuron(inputs=tensor)
def exception_out_of_a_helper(x):
    for _ in range(2):
        try:
            x = diverge(x + 1)  #: add*2 mul*2 sum*2 item*2
        except ArithmeticError:
            x = x - 1  #: sub*2
    return x / 2  #: div


@profile_neuron(inputs=tensor)
def exception_through_two_frames(x):
    def inner(z):
        try:
            return diverge(z)  #: mul sum item
        finally:
            tanh(z)  #: tanh

    def middle(z):
        z = inner(z + 1)  #: add
        return z * 2

    try:
        x = middle(x)
    except ArithmeticError as error:
        try:
            raise RuntimeError("no result") from error
        except RuntimeError:
            x = sigmoid(x)  #: sigmoid
    return sqrt(x)  #: sqrt


class Fallback:
    """An attribute that cannot be computed, which getattr then hides."""

    def __init__(self, x):
        self.x = x

    @property
    def scale(self):
        relu(self.x)  #: relu
        raise AttributeError("scale")


@profile_neuron(inputs=tensor)
def exception_caught_outside_of_python_code(x):
    def last():
        tanh(x)  #: tanh
        raise StopIteration

    holder = Fallback(x)
    y = getattr(holder, "scale", x) * x  #: relu mul
    return list(iter(last, None)), x + y  #: add


@profile_neuron(inputs=tensor)
def exception_that_nobody_catches(x):
    x = x * 2  #: mul
    try:
        x = diverge(x)  #: mul sum item raises
    finally:
        x = x + 1  #: add
    return exp(x)


@profile_neuron(inputs=scalar)
def assertion(x):
    assert x > 0, x * 2  #: gt is_nonzero
    return x + 1  #: add


class Scaled:
    """A context manager whose both ends run operators."""

    def __init__(self, x):
        self.x = x

    def __enter__(self):
        return self.x * 2  #: mul

    def __exit__(self, kind, error, trace):
        self.x = self.x + 1  #: add
        return kind is not None


@profile_neuron(inputs=pair)
def with_statement(x, y):
    with Scaled(x) as scaled:  #: mul add
        y = y @ scaled  #: matmul
    return y - x  #: sub


@profile_neuron(inputs=pair)
def with_several_items(x, y):
    with nullcontext(x * y) as a, Scaled(x + y) as b:  #: mul*2 add*2
        z = a @ b  #: matmul
    return -z  #: neg


@profile_neuron(inputs=pair)
def with_statement_that_hides_an_error(x, y):
    with Scaled(x), suppress(KeyError):  #: mul add
        y = exp(y)  #: exp
        raise ValueError
    with suppress(ArithmeticError):
        y = diverge(y)  #: mul sum item
    return tanh(y)  #: tanh


@contextmanager
def shifted(x):
    """The part before the body, the body and the part after it are three stretches of one generator."""
    moved = x + 1  #: add
    try:
        yield moved * 2  #: mul
    finally:
        moved = moved - 1  #: sub


@profile_neuron(inputs=tensor)
def context_manager_from_a_generator(x):
    with shifted(x) as moved:  #: add mul sub
        x = x @ moved  #: matmul
    return relu(x)  #: relu


@profile_neuron(inputs=tensor)
def return_out_of_with_and_loop(x):
    for _ in range(2):
        with shifted(x) as moved:  #: add mul sub
            return x @ moved  #: matmul


@profile_neuron(inputs=pair)
def match_statement(x, y):
    result = []
    for case in (("mul", 2), {"kind": "add"}, [x, y], 7, "other"):
        match case:
            case (str(), factor):
                result.append(x * factor)  #: mul
            case {"kind": "add"}:
                result.append(x + y)  #: add
            case [a, b] if (a @ b).sum() > 0:  #: matmul sum gt is_nonzero
                result.append(a - b)  #: sub
            case int(number):
                result.append(x / number)  #: div
            case _:
                result.append(-x)  #: neg
    return result


@profile_neuron(inputs=pair)
def nested_blocks(x, y):
    for k in range(2):
        if k:
            with nullcontext():
                while k:
                    try:
                        x = mul(x, y)  #: mul
                    finally:
                        k -= 1
                        y = add(x, y)  #: add
        else:
            x = matmul(x, y)  #: matmul
    return x
