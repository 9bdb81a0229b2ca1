// The Python files that the tests open.

export const MODEL = `\
import torch

from profile_neuron import profile_neuron


def inputs():
    return (torch.ones(300, 300),)


@profile_neuron(inputs=inputs)
def block(x):
    y = x @ x
    z = torch.exp(y)
    return z.sum()


@profile_neuron(inputs=inputs)
def other(x):
    return x @ x
`;

// With line ends of two characters, and with characters of two code units before and at the lines' ends.
export const EMOJI = `\
import torch
from profile_neuron import profile_neuron

# 🚀🚀 模型

def inputs():
    return (torch.ones(300, 300),)

@profile_neuron(inputs=inputs)
def rocket(x):
    y = x @ x  # 🚀
    模型 = "🚀🚀"; z = torch.exp(y)
    return z.sum()
`.replaceAll('\n', '\r\n');

/** A function that waits for somebody to write into a pipe. */
export const waiting = (pipe) => `\
import torch
from profile_neuron import profile_neuron


@profile_neuron
def waits():
    open(${JSON.stringify(pipe)}).read()
    return torch.ones(300, 300) @ torch.ones(300, 300)
`;

export const FAILING = `\
import torch
from profile_neuron import profile_neuron


def inputs():
    return (torch.ones(300, 300),)


@profile_neuron(inputs=inputs)
def breaks(x):
    y = x @ x
    z = torch.exp(y)
    return z.sum()
`;

/** What leaves a file at the given place when it is executed, whoever does that. */
export const planted = (file) => `open(${JSON.stringify(file)}, 'a').write(__name__ + '\\n')\n`;
