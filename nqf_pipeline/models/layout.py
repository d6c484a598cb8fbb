"""The product of samples and weights, and the layout of samples in which it and its gradient run fastest.

On a CPU a matrix product is fast where both factors lie as they are read: the response of units to samples wants one sample a row, the
gradient of their weights one feature a row. Training reads the same samples in every step, so it holds them in both layouts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import lazy_loader
from jaxtyping import Float

Array = Any
Product = Callable[[Any, Array], Array]
jax = lazy_loader.load("jax")


class Both(NamedTuple):
    """A matrix of samples in both layouts."""

    columns: Float[Array, "features samples"]
    rows: Float[Array, "samples features"]

    @classmethod
    def of(cls, columns: Float[Array, "features samples"]) -> Both:
        return cls(columns, columns.T)


def response(samples: Float[Array, "features samples"] | Both, weights: Float[Array, "features units"]) -> Float[Array, "samples units"]:
    """X^T W, one sample a row. Of samples in both layouts, reverse mode alone tells derivatives, and in the weights alone."""
    if not isinstance(samples, Both):
        return samples.T @ weights
    return product(lambda data, factor: data.rows @ factor, lambda data, pull: data.columns @ pull, samples, weights)


def product(forward: Product, backward: Product, data: Any, factor: Array) -> Array:
    """`forward(data, factor)`, linear in the factor, whose gradient is `backward(data, pull)`: each reads the data as it runs fastest.

    Reverse mode only, and in the factor only: data have no gradient.
    """
    linear = jax.custom_vjp(forward)
    linear.defvjp(lambda data, factor: (forward(data, factor), data), lambda data, pull: (None, backward(data, pull)))
    return linear(data, factor)
