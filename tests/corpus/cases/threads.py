"""Work in threads: nested functions, lambdas, methods, pools, and helpers that no line of the caller runs."""

import threading
from concurrent.futures import ThreadPoolExecutor

from ops import exp, mul, pair, relu, sqrt, tanh, tensor
from profile_neuron import profile_neuron


def run_in_threads(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@profile_neuron(inputs=tensor)
def nested_function_in_a_thread(x):
    def work():
        y = x * 2  #: mul
        results.append(y + 1)  #: add

    results = []
    run_in_threads(work)
    return results[0] - x  #: sub


@profile_neuron(inputs=tensor)
def threads_side_by_side(x):
    def halve():
        z = x
        for _ in range(3):
            z = z / 2  #: div*3

    def grow():
        z = x
        for _ in range(4):
            z = z + x  #: add*4

    run_in_threads(halve, grow, lambda: exp(x))  #: exp
    return -x  #: neg


@profile_neuron(inputs=tensor)
def pool_with_a_lambda(x):
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda k: x * k - 1, range(3)))  #: mul*3 sub*3
    return sum(parts)  #: add*3


@profile_neuron(inputs=tensor)
def pool_with_futures(x):
    def square(z):
        return z * z  #: mul*2

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(square, x + 1)  #: add
        second = pool.submit(
            square,
            x - 1,  #: sub
        )
        return first.result() @ second.result()  #: matmul


def scale(x):
    y = x * 2  #: mul
    return relu(y)  #: relu


@profile_neuron(inputs=tensor)
def helper_in_a_thread(x):
    # No line of this function runs in the thread: the helper's operators are the helper's alone.
    thread = threading.Thread(target=scale, args=(x + 1,))  #: add
    thread.start()
    thread.join()
    return tanh(x)  #: tanh


@profile_neuron(inputs=tensor)
def helper_called_by_a_nested_function_in_a_thread(x):
    def work():
        y = scale(x)  #: mul relu
        return y - 1  #: sub

    run_in_threads(work)
    return x / 2  #: div


class Worker(threading.Thread):
    """A thread by its run method."""

    def __init__(self, x):
        super().__init__()
        self.x = x
        self.result = None

    def run(self):
        y = sqrt(self.x)  #: sqrt
        self.result = y + 1  #: add


@profile_neuron(inputs=tensor)
def thread_class(x):
    worker = Worker(x * 2)  #: mul
    worker.start()
    worker.join()
    return worker.result @ x  #: matmul


@profile_neuron(inputs=pair)
def generator_moved_to_another_thread(x, y):
    def parts():
        yield x * 2  #: mul
        yield y + 1  #: add
        yield x - y  #: sub

    source = parts()
    first = next(source) / 2  #: div
    rest = []
    run_in_threads(lambda: rest.append(-next(source)))  #: neg
    return first @ rest[0] - next(source)  #: matmul sub


@profile_neuron(inputs=tensor)
def exception_in_a_thread(x):
    def work():
        try:
            mul(x, x)  #: mul
            raise ValueError
        except ValueError:
            tanh(x)  #: tanh

    run_in_threads(work)
    return exp(x)  #: exp
