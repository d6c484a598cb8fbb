"""Modules that break a condition of Theorem 1, one each, with what must be found: apply(W, x), W of shape (5, width), x of 4 entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

Module = Callable[[jax.Array, jax.Array], jax.Array]


def inner(weights: jax.Array, x: jax.Array) -> jax.Array:
    return weights[:4].T @ x


def by_index(weights: jax.Array, x: jax.Array) -> jax.Array:
    return (jnp.arange(1.0, weights.shape[1] + 1) * weights[4] * jnp.tanh(inner(weights, x))).sum()


def normalised(epsilon: float) -> Module:
    def apply(weights: jax.Array, x: jax.Array) -> jax.Array:
        hidden = inner(weights, x)
        return weights[4] @ (hidden / jnp.sqrt((hidden**2).mean() + epsilon))

    return apply


class Violator(NamedTuple):
    """A module with its verdict, the order of its remainder (None: none) and a word of the reason."""

    apply: Module
    verdict: str
    order: float | None
    reason: str


VIOLATORS = {
    "relu": Violator(lambda w, x: w[4] @ jax.nn.relu(inner(w, x)), "not_smooth", 2, "ReLU"),
    "absolute value": Violator(lambda w, x: w[4] @ jnp.abs(inner(w, x)), "not_smooth", 2, r"\|x\|"),
    "softsign": Violator(lambda w, x: w[4] @ jax.nn.soft_sign(inner(w, x)), "not_smooth", 3, "third derivatives"),
    "norm of the weights": Violator(lambda w, x: jnp.sqrt((w**2).sum()) * x[0], "not_smooth", None, "kink"),
    "L1 term": Violator(lambda w, x: w[4] @ jnp.tanh(inner(w, x)) + jnp.abs(w).sum(), "not_smooth", 1, "kink"),
    "hard gate": Violator(lambda w, x: (w[4] * (inner(w, x) > 0)).sum(), "not_smooth", 1, "slopes to the left"),
    "sign of the sum": Violator(lambda w, x: jnp.sign(inner(w, x).sum()), "not_smooth", 0, "jumps"),
    "class number": Violator(lambda w, x: jnp.argmax(inner(w, x)), "not_symmetric", 0, "jumps"),
    "max pooling": Violator(lambda w, x: (w[4] * jnp.tanh(inner(w, x))).max(), "not_smooth", 2, "max pooling"),
    "fixed bias": Violator(lambda w, x: w[4] @ jnp.tanh(inner(w, x) + 0.3), "nqf_general", 3, "bias"),
    "bias on the output": Violator(lambda w, x: w[4] @ jnp.tanh(x[:3] @ w[:3]) + w[3].sum(), "nqf_general", 4, "bias"),
    "sigmoid": Violator(lambda w, x: w[4] @ jax.nn.sigmoid(inner(w, x)), "nqf_general", 4, "g is needed"),
    "softmax gating": Violator(lambda w, x: jax.nn.softmax(inner(w, x)) @ w[4], "nqf_general", 3, "softmax gating"),
    "tanh after the sum": Violator(lambda w, x: jnp.tanh(inner(w, x).sum()), "nqf_general", 3, "after the sum"),
    "exp after the sum": Violator(lambda w, x: jnp.exp(inner(w, x).sum()), "nqf_general", 3, "B is needed"),
    "normalisation": Violator(normalised(0.0), "not_evaluable", None, "normalisation that divides"),
    "weight normalisation": Violator(
        lambda w, x: w[4] @ (inner(w, x) / jnp.linalg.norm(w[:4], axis=0)), "not_evaluable", None, "add an epsilon"
    ),
    "logarithm": Violator(lambda w, x: jnp.log(inner(w, x) ** 2).sum(), "not_evaluable", None, "logarithm"),
    "derivative 0/0": Violator(lambda w, x: jnp.sqrt(inner(w, x) ** 4).sum(), "not_evaluable", None, "not numbers"),
    "derivative hidden by where": Violator(
        lambda w, x: (w[4] * jnp.where(inner(w, x) == 0, 0.0, inner(w, x))).sum(), "not_smooth", 2, "does not see"
    ),
    "chain of units": Violator(lambda w, x: w[4, :-1] @ jnp.tanh(inner(w, x)[1:]), "not_symmetric", 4, "relabelling"),
    "chain of relus": Violator(lambda w, x: w[4, :-1] @ jax.nn.relu(inner(w, x)[1:]), "not_symmetric", 2, "ReLU"),
    "weights by index": Violator(by_index, "nqf_distinct_units", 4, "matrix A of its own"),
}

ALLOWED = {
    "tanh of a sum of pairs": Violator(lambda w, x: jnp.sin(w[4] @ jnp.tanh(inner(w, x))), "nqf", 4, "beyond second order"),
    "trained bias inside": Violator(lambda w, x: w[4] @ jnp.tanh(x[:3] @ w[:3] + w[3]), "nqf", 4, ""),
    "swish": Violator(lambda w, x: w[4] @ jax.nn.silu(inner(w, x)), "nqf", 3, ""),
    "normalisation with epsilon": Violator(normalised(1e-6), "nqf", 4, "only for weights below"),
    "cubic": Violator(lambda w, x: w[4] @ inner(w, x) ** 2, "nqf", 3, "no quadratic part"),
    "coupled beyond second order": Violator(
        lambda w, x: w[4] @ inner(w, x) + w[4].sum() * (w[3] * w[2]).sum(), "nqf", 3, "feels the others"
    ),
}
