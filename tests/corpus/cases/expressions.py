"""Several operators in one statement: on one line, over several lines, nested, and with comparisons."""

from ops import add, exp, mul, pair, scalar, sqrt, stack, sub, tensor, where
from profile_neuron import profile_neuron


@profile_neuron(inputs=pair)
def several_on_one_line(x, y):
    return (x * y + x) @ y - x  #: mul add matmul sub


@profile_neuron(inputs=pair)
def arithmetic_of_every_kind(x, y):
    total = x + y  #: add
    total = total - y  #: sub
    total = 2 * total  #: mul
    total = total / y  #: div
    total = total @ y  #: matmul
    total = total ** 2  #: pow
    total = -total  #: neg
    total = abs(total)  #: abs
    return 1 - total  #: rsub


@profile_neuron(inputs=pair)
def statements_that_share_a_line(x, y):
    a = x * y; b = x + y; c = a - b  #: mul add sub
    return c @ c  #: matmul


@profile_neuron(inputs=pair)
def operators_at_the_start_of_lines(x, y):
    return (
        x * y  #: mul add sub
        + x
        - y
    )


@profile_neuron(inputs=pair)
def operands_in_brackets_of_their_own(x, y):
    return (
        x  #: add
        + (
            y  #: sub
            - (
                x * y  #: mul
            )
        )
    )


@profile_neuron(inputs=pair)
def nested_call_over_several_lines(x, y):
    return add(  #: add
        mul(x, y),  #: mul
        sub(  #: sub
            x,
            exp(y),  #: exp
        ),
    )


@profile_neuron(inputs=pair)
def closing_bracket_with_more_to_do(x, y):
    scaled = mul(  #: mul add
        x,
        sqrt(y),  #: sqrt
    ) + x
    return scaled - y  #: sub


@profile_neuron(inputs=tensor)
def chain_of_methods(x):
    return (
        x.relu()  #: relu
        .exp()  #: exp
        .clamp(  #: clamp
            0,
        )
        .sum()  #: sum
    )


@profile_neuron(inputs=pair)
def backslash_at_the_end_of_a_line(x, y):
    z = x * y \
        + x @ y \
        - y
    #: @-3 mul add sub @-2 matmul
    return z


@profile_neuron(inputs=tensor)
def text_of_several_lines(x):
    text = """
        sum %.1f
        mean %.1f
    """ % (
        x.sum().item(),  #: sum item
        x.mean().item(),  #: mean item
    )
    size = len("""
        one more line
    """) * x  #: @-2 mul
    return text, size


@profile_neuron(inputs=pair)
def displays_over_several_lines(x, y):
    parts = [
        x * y,  #: mul
        {"sum": x + y}["sum"],  #: add
        *(
            -x,  #: neg
            abs(y),  #: abs
        ),
    ]
    return stack(parts)  #: stack


@profile_neuron(inputs=pair)
def assignment_in_place(x, y):
    total = x * 1  #: mul
    total += y  #: add_
    total -= (  #: sub_
        x  #: mul
        * y
    )
    total *= 2; total += x  #: mul_ add_
    return total


@profile_neuron(inputs=tensor)
def subscripts(x):
    first = x[0]  #: select
    corner = x[0][-1]  #: select*2
    middle = x[1:3]  #: slice
    positive = x[x > 0]  #: gt index
    return first[  #: select
        int(corner.item()) - 1  #: item
    ], middle, positive


@profile_neuron(inputs=scalar)
def comparison_chain(x):
    inside = 0 < x < 2  #: gt is_nonzero lt
    low = 2 < x < 3  #: gt is_nonzero
    return inside & low  #: __and__


@profile_neuron(inputs=scalar)
def comparison_chain_over_several_lines(x):
    return (
        x * 1  #: mul lt is_nonzero lt
        < x + 1  #: add
        < x + 2  #: add
    )


@profile_neuron(inputs=pair)
def conditional_expression(x, y, flag=True):
    a = x * y if flag else x + y  #: mul
    b = (
        x @ y
        if not flag
        else x - y  #: sub
    )
    c = mul(b if flag else  #: mul
            a, x + y)  #: add
    return a, b, c


@profile_neuron(inputs=scalar)
def boolean_operators(x):
    both = x > 0 and x < 2  #: gt is_nonzero lt
    either = x > 0 or x * 2  #: gt is_nonzero
    neither = (
        x > 2  #: gt is_nonzero
        or not x < 2  #: lt is_nonzero
    )
    return both, either, neither


@profile_neuron(inputs=scalar)
def walrus(x):
    if (double := x * 2) > 1:  #: mul gt is_nonzero
        x = double + x  #: add
    return [half := x / 2, half - 1]  #: div sub


@profile_neuron(inputs=tensor)
def walrus_in_a_comprehension(x):
    kept = [y for k in range(3) if (y := x * k) is not None]  #: mul*3
    return y + kept[0]  #: add


@profile_neuron(inputs=tensor)
def comprehensions_of_every_kind(x):
    items = [x * k for k in range(3)]  #: mul*3
    table = {k: x + k for k in range(2)}  #: add*2
    numbers = {(x - k).sum().item() for k in range(2)}  #: sub*2 sum*2 item*2
    return sum(y for y in items), table, numbers  #: add*3


@profile_neuron(inputs=tensor)
def comprehension_over_several_lines(x):
    return [
        scaled  #: sub*2
        - x
        for scaled in (
            x * 2,  #: mul
            x / 2,  #: div
        )
        if (
            scaled.sum()  #: sum*2 gt*2 is_nonzero*2
            > 0
        )
    ]


@profile_neuron(inputs=tensor)
def comprehension_in_a_comprehension(x):
    return [
        [
            x * i + j  #: mul*6 add*6
            for j in range(2)
        ]
        for i in range(3)
    ]


@profile_neuron(inputs=pair)
def formatted_text(x, y):
    return f"{(x * y).sum().item():.1f} of {y.sum().item():.1f}"  #: mul sum*2 item*2


@profile_neuron(inputs=pair)
def unpacking(x, y):
    first, *rest = x * y  #: mul unbind
    a, b = x + first, y - rest[0]  #: add sub
    return where(a > b, a, b)  #: gt where
