"""The tangent kernel of a quadratic form from (M, mu) alone, and its drift as a measure of feature learning (theory: Proposition 8).

With u = g + 2 B mu, Theta(x, x') = d u.u' + 2 u.A' mu + 2 mu.A u' + 4 Tr[A M A'] = <df(x)/dW, df(x')/dW>, outputs and samples alike.
It is what gradient flow does to the outputs, df/dt = -Theta l', so its action on a residual is the rate of (M, mu) under that residual,
seen through f: no Jacobian, no weights, no A. The kernel is constant in lazy training and turns with the features otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import lazy_loader
import numpy as np
from jaxtyping import Float

from nqf_pipeline.forms.dense import refuse_huge
from nqf_pipeline.forms.quadratic import Form, Order, pull
from nqf_pipeline.forms.structure import Structure, namespace

Array = Any
jax = lazy_loader.load("jax")
AT_ONCE = 32
"""Columns of the kernel computed together: each holds a few (unit_size, unit_size) matrices."""


class Drift(NamedTuple):
    """How far a kernel has moved from where it started; 0 in lazy training."""

    change: Array
    """|Theta - Theta_0| / |Theta_0| (Frobenius), growth in size included."""
    turn: Array
    """1 - <Theta, Theta_0> / (|Theta| |Theta_0|): a change of direction alone, between 0 and 1."""


def kernel_action(form: Form, order: Order, width: int, residual: Float[Array, "outputs samples"]) -> Float[Array, "outputs samples"]:
    """Theta r without Theta, at the cost of a few evaluations of the form."""
    matrix, vector = pull(lambda at: (residual * form.apply(at)).sum(), order)
    climb = matrix @ order.second + jax.numpy.outer(vector, order.mean)
    rate = Order(climb + climb.T, matrix @ order.mean + width * vector)
    return jax.jvp(form.apply, (order,), (rate,))[1]


def factor_kernel(
    structure: Structure, factors: tuple[Float[Array, "rows columns"], ...], *, rowwise: bool
) -> Float[Array, "outputs samples outputs samples"]:
    """`tangent_kernel` of a `StructureForm` from the two diagonal blocks of M that its factors make (JAX, in the factors' precision)."""
    sizes = [(factor**2).sum(1) if rowwise else factor @ factor.T for factor in factors]

    def action(residual: Array) -> Array:
        climb = structure.adjoint(residual)
        if len(factors) == 1:
            climb = 2 * climb if rowwise else climb + climb.T
        rate = climb * (sizes[0] + sizes[-1]) if rowwise else climb @ sizes[-1] + sizes[0] @ climb
        return structure.apply(rate)

    shape = structure.offset.shape
    columns = jax.numpy.eye(int(np.prod(shape)), dtype=factors[0].dtype).reshape(-1, *shape)
    return jax.vmap(action)(columns).reshape(*shape, *shape)


def tangent_kernel(form: Form, order: Order, width: int) -> Float[np.ndarray, "outputs samples outputs samples"]:
    """Theta between all outputs and samples of the form, in float64."""
    return next(_kernels(form, Order(*(np.asarray(part)[None] for part in order)), width))


def kernel_drift(form: Form, orders: Order, width: int) -> Drift:
    """Drift of the kernel along a trajectory (leading axis of M and mu) from its first record; `form.take` thins the samples."""
    kernels = _kernels(form, orders, width)
    start = next(kernels)
    return Drift(*np.array([drift(start, start), *(drift(kernel, start) for kernel in kernels)]).T)


def _kernels(form: Form, orders: Order, width: int) -> Iterator[Float[np.ndarray, "outputs samples outputs samples"]]:
    with jax.enable_x64(True):
        steps = [Order(*map(jax.numpy.asarray, step)) for step in zip(*map(_as_float64, orders), strict=True)]
        shape = jax.eval_shape(form.apply, steps[0]).shape
        size = int(np.prod(shape))
        refuse_huge(f"tangent kernel: {size} outputs and samples against each other", size**2, "thin the samples with form.take(index)")
        columns = jax.numpy.eye(size).reshape(size, *shape)

        def kernel(order: Order) -> Array:
            rows = jax.lax.map(lambda column: kernel_action(form, order, width, column), columns, batch_size=min(size, AT_ONCE))
            return rows.reshape(*shape, *shape)

        compiled = jax.jit(kernel)
    for step in steps:
        with jax.enable_x64(True):
            yield np.asarray(compiled(step))


def drift(kernel: Array, start: Array) -> Drift:
    """Drift of one kernel from another; both of any equal shape. No drift is defined from a kernel of zero: NaN."""
    xp = namespace(kernel)
    size, before = (xp.sqrt((part**2).sum()) for part in (kernel, start))
    with np.errstate(invalid="ignore", divide="ignore"):
        change = xp.sqrt(((kernel - start) ** 2).sum()) / before
        turn = 1 - (kernel * start).sum() / (size * before)
    return Drift(change, xp.maximum(turn, xp.zeros_like(turn)))


def _as_float64(part: Array) -> Array:
    return np.asarray(part, np.float64)
