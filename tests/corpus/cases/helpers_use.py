"""Helpers of other modules: on the caller's line here, on their own line in their own listing."""

import layers
import shapes
from layers.scale import center
from ops import cat, pair, relu, sigmoid, tensor
from profile_neuron import profile_neuron
from shapes import Shape, attend, normalise


@profile_neuron(inputs=pair)
def helper_of_another_module(x, y):
    z = attend(x, y)  #: t matmul*2 exp softmax
    return normalise(z) + z  #: exp softmax add


@profile_neuron(inputs=tensor)
def helper_by_its_module(x):
    return shapes.normalise(  #: exp softmax
        layers.rescale(x, 2)  #: sqrt mul
    )


@profile_neuron(inputs=tensor)
def helper_that_calls_back(x):
    def activate(half):
        return relu(half)  #: relu*2

    return cat(Shape(x).each(activate))  #: slice*2 cat


@profile_neuron(inputs=tensor)
def helpers_in_one_statement(x):
    return [
        center(x),  #: sqrt mul mean sub
        center(x) @ center(x),  #: sqrt*2 mul*2 mean*2 sub*2 matmul
        *(
            normalise(part)  #: exp*2 softmax*2
            for part in (x, -x)  #: neg
        ),
    ]


@profile_neuron(inputs=tensor)
def method_of_a_package(x):
    block = layers.Block()  #: ones
    y = block.forward(x)  #: sqrt*2 mul*3 mean sub matmul add
    return sigmoid(y)  #: sigmoid
