"""Training at a compressed width: the optimizer that goes with it, and how far a width below k_V + 1 can stray (theory: Corollary 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from nqf_pipeline.dynamics.closure import Closure, as_float64, gradient_step
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.compression import Compression
from nqf_pipeline.forms.dense import refuse_huge
from nqf_pipeline.forms.quadratic import Order

Array = Any


def compressed_optimizer(optimizer: Optimizer, compression: Compression) -> Optimizer:
    """eta' = (d/d') eta, lambda' = (d'/d) lambda, everything else unchanged."""
    if not optimizer.in_linear_span:
        raise InputError(
            f"compressed width: {optimizer.kind} steps by the sign and running size of every single weight, and a compressed module has "
            "other weights with the same (M, mu); its path would be another one. Train the full width, or use gd, sgd or momentum"
        )
    return optimizer.model_copy(
        update={
            "learning_rate": optimizer.learning_rate * compression.learning_rate_factor,
            "weight_decay": optimizer.weight_decay * compression.weight_decay_factor,
        }
    )


def error_bound(closure: Closure, compression: Compression, optimizer: Optimizer, steps: int) -> Float[np.ndarray, "steps+1"]:
    """A bound on |f' - f| (Euclidean over outputs and samples) before and after every step of full-batch gradient descent.

    Corollary 3's gap exp(eta L t) with 1 + eta L taken from step to step: the product of the norms of the step's Jacobian in (M, mu), times
    the norm of f's own. On the segment between both paths a norm of an affine function is largest at an end, so the larger of the two
    ends bounds it: exact where Jacobians are affine (squared error without g and B, to first order in eta), to leading order in the gap
    elsewhere. Costs a singular value decomposition of (unit_size^2 + unit_size)^2 numbers a step.
    """
    if optimizer.momentum > 0 or optimizer.batch_size is not None or optimizer.timetable is not None:
        raise InputError("error_bound: it follows the step map of full-batch gradient descent; give a `gd` optimizer without a schedule")
    size = len(compression.basis)
    refuse_huge(
        "error_bound: the Jacobian of a step in (M, mu)", (size**2 + size) ** 2, "express the form in the basis of its own span first"
    )
    every = np.arange(steps + 1)
    (exact,) = closure.train(optimizer, every)
    small = Closure.single(compression.form, closure.targets, closure.objective.loss, compression.weights)
    (compressed,) = small.train(compressed_optimizer(optimizer, compression), every)
    onto = compression.basis @ compression.basis.T
    ends = compression.original(compressed.order)
    both = Order(*map(np.concatenate, zip((onto @ exact.order.second @ onto, exact.order.mean @ onto), ends, strict=True)))
    growth, reach = (norms.reshape(2, -1).max(0) for norms in _norms(closure, both, optimizer))
    return compression.gap * reach * np.cumprod(np.concatenate([[1.0], growth[:-1]]))


def _norms(closure: Closure, path: Order, optimizer: Optimizer) -> tuple[Array, Array]:
    """Spectral norms, at every point of a path, of the Jacobians of the step and of f in (M, mu)."""
    with jax.enable_x64(True):
        data, targets = as_float64((closure.data, closure.targets))
        rates = jnp.float64(optimizer.learning_rate), jnp.float64(optimizer.weight_decay)

        def step(order: Order) -> Order:
            (pull,) = closure.objective.pulls((order,), data, targets)
            return gradient_step(order, pull, closure.widths[0], *rates)

        def norms(order: Order) -> tuple[Array, Array]:
            flat, restore = ravel_pytree(order)

            def norm(function: Callable[[Order], Any]) -> Array:
                return jnp.linalg.norm(jax.jacfwd(lambda at: ravel_pytree(function(_symmetric(restore(at))))[0])(flat), 2)

            return norm(step), norm(lambda at: closure.objective.outputs(data, (at,)))

        growth, reach = jax.jit(lambda orders: jax.lax.map(norms, orders))(as_float64(path))
        return np.asarray(growth), np.asarray(reach)


def _symmetric(order: Order) -> Order:
    return Order((order.second + order.second.T) / 2, order.mean)
