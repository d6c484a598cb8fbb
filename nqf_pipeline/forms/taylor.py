"""The quadratic form of any module as a function transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lazy_loader

Array = Any
jax = lazy_loader.load("jax")


def quadratic_form(apply: Callable[..., Array]) -> Callable[..., Array]:
    """The second-order Taylor polynomial of `apply(W, *inputs)` in W at W = 0, evaluated as fast as a few calls of `apply`.

    Two nested forward derivatives along W: f(0) + df(0)[W] + d2f(0)[W, W] / 2 (theory: Theorem 1 and 12).
    """

    def twin(weights: Array, *inputs: Array) -> Array:
        origin = jax.numpy.zeros_like(weights)

        def value(at: Array) -> Array:
            return apply(at, *inputs)

        def value_and_slope(at: Array) -> tuple[Array, Array]:
            return jax.jvp(value, (at,), (weights,))

        (constant, slope), (_, curvature) = jax.jvp(value_and_slope, (origin,), (weights,))
        return constant + slope + curvature / 2

    return twin
