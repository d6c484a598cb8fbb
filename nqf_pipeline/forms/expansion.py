"""Terms of a module beyond quadratic order, and what each order and each block of a unit does to the loss (theory: Theorem 13).

f(W) = sum_n f_n(W) with f_n homogeneous of degree n in W: f_0 + f_1 + f_2 is the quadratic form, f_3 and f_4 are what it leaves out.
The descent of the loss under gradient flow splits exactly over orders n and blocks b of rows of W (queries and keys, values, ...),

    -dL/dt = |dL/dW|^2 = sum_n sum_b <l' df_n/dW_b, dL/dW_b> + remainder,

so a drop that order two does not account for is attributed to the order and the block that drive it; l' is that of the module itself.
Derivatives are nested forward ones, which every differentiable module has; jax.experimental.jet agrees where it has rules and is no
faster at order four. JAX, to be compiled and batched over a trajectory by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import lazy_loader
import numpy as np
from jaxtyping import Float

Array = Any
jax = lazy_loader.load("jax")
QUARTIC = 4
Module = Callable[[Array], Array]
"""Weights (unit_size, width) to outputs (outputs, samples), the inputs already bound."""


class Descent(NamedTuple):
    """The rate at which the loss falls under gradient flow, by what makes it fall. Negative entries work against it."""

    rate: Float[Array, "orders blocks"]
    """<l' df_n/dW_b, dL/dW_b>, orders 1 to n."""
    remainder: Float[Array, "blocks"]
    """What the higher orders add."""

    @property
    def total(self) -> Array:
        """|dL/dW|^2."""
        return self.rate.sum() + self.remainder.sum()

    @property
    def beyond_quadratic(self) -> Array:
        """The share of the fall that the quadratic form does not account for; 0 where it is the whole story."""
        return 1 - self.rate[:2].sum() / self.total


def homogeneous_terms(
    module: Module, weights: Float[Array, "unit_size width"], order: int = QUARTIC
) -> Float[Array, "orders outputs samples"]:
    """f_0, f_1, ..., f_order at these weights: the Taylor coefficients of s -> f(s W) at s = 0, each over n!."""

    def along(scale: Array) -> Array:
        return module(scale * weights)

    derivatives = _derivatives(along, order)(jax.numpy.zeros((), weights.dtype))
    factorial = jax.numpy.cumprod(jax.numpy.maximum(jax.numpy.arange(order + 1), 1)).astype(weights.dtype)
    return jax.numpy.stack(derivatives) / factorial[:, None, None]


def entry_orders(
    module: Module, weights: Float[Array, "unit_size width"], blocks: tuple[slice, ...], order: int = QUARTIC, tolerance: float = 1e-10
) -> tuple[int | None, ...]:
    """The lowest order at which each block of rows of W changes the outputs; None where it does not up to `order`.

    A change counts above `tolerance` times the largest term of its order.
    """
    weights = jax.numpy.asarray(weights)
    terms = jax.jit(lambda at: homogeneous_terms(module, at, order))
    full = np.asarray(terms(weights)).reshape(order + 1, -1)
    entries = []
    for rows in blocks:
        change = np.abs(full - np.asarray(terms(weights.at[rows].set(0))).reshape(full.shape)).max(1)
        entered = np.flatnonzero(change > tolerance * np.abs(full).max(1))
        entries.append(int(entered[0]) if len(entered) else None)
    return tuple(entries)


def truncated_losses(
    module: Module, loss: Callable[[Array], Array], weights: Float[Array, "unit_size width"], order: int = QUARTIC
) -> Float[Array, "orders"]:
    """The loss that f_0 + ... + f_n would have at these weights, for n = 0, ..., order; `loss` takes outputs."""
    return jax.vmap(loss)(jax.numpy.cumsum(homogeneous_terms(module, weights, order), axis=0))


def descent(
    module: Module,
    loss: Callable[[Array], Array],
    weights: Float[Array, "unit_size width"],
    blocks: tuple[Any, ...],
    order: int = QUARTIC,
) -> Descent:
    """The fall of the loss at these weights by order and block; `blocks` are slices or indices of rows that cover W without overlap."""
    outputs, back = jax.vjp(module, weights)
    slope = jax.grad(loss)(outputs)
    (gradient,) = back(slope)
    along = jax.numpy.stack([jax.numpy.zeros_like(gradient).at[rows].set(gradient[rows]) for rows in blocks])

    def falls(direction: Array) -> Array:
        terms = jax.jvp(lambda at: homogeneous_terms(module, at, order), (weights,), (direction,))[1]
        return jax.numpy.tensordot(terms[1:], slope, 2)

    rates = jax.vmap(falls, out_axes=1)(along)
    return Descent(rates, (along**2).sum((1, 2)) - rates.sum(0))


def _derivatives(function: Callable[[Array], Array], order: int) -> Callable[[Array], tuple[Array, ...]]:
    """(f, f', ..., f^(order)) of a function of one number, each from the one before by a forward derivative."""
    if order == 0:
        return lambda at: (function(at),)
    lower = _derivatives(function, order - 1)

    def higher(at: Array) -> tuple[Array, ...]:
        values, slopes = jax.jvp(lower, (at,), (jax.numpy.ones_like(at),))
        return (*values, slopes[-1])

    return higher
