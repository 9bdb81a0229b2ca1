"""A helper module of the package."""

from ops import mul, sqrt


def rescale(x, factor):
    y = sqrt(x)  #: sqrt
    return mul(  #: mul
        y,
        factor,
    )


def center(x):
    """Calls a function of its own module."""
    return rescale(x, 2) - x.mean()  #: sqrt mul mean sub
