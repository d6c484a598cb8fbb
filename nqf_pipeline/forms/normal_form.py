"""Normal form of any function of interchangeable units, f = f(0) + g^T mu + mu^T B mu + Tr[M A] + O(|W|^3).

M = W W^T and mu = W 1. Convention (theory: section 1, Theorem 12): in this (M, mu) form, with H_ii and H_ij
the Hessian blocks of one unit and of a pair at zero weights, B = H_ij / 2 and A = (H_ii - H_ij) / 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lazy_loader
import numpy as np
from jaxtyping import Float

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.dense import refuse_huge

Array = Any
jax = lazy_loader.load("jax")


@dataclass(frozen=True)
class NormalForm:
    """The coefficients for every output; `*outputs` is whatever shape the module returns (empty for a scalar)."""

    f0: Float[np.ndarray, "*outputs"]
    g: Float[np.ndarray, "*outputs unit_size"]
    A: Float[np.ndarray, "*outputs unit_size unit_size"]
    B: Float[np.ndarray, "*outputs unit_size unit_size"]

    def __call__(self, weights: Float[np.ndarray, "unit_size width"]) -> Float[np.ndarray, "*outputs"]:
        """The quadratic form at weights of any width."""
        mean = weights.sum(1)
        second = weights @ weights.T
        return self.f0 + self.g @ mean + (self.B @ mean) @ mean + (self.A * second).sum((-2, -1))


def normal_form(apply: Callable[[Array, Array], Array], x: Array, width: int, unit_size: int) -> NormalForm:
    """The normal form of `apply(W, x)`, W of shape (unit_size, width), at the input(s) x; float64 throughout.

    Units are taken to be interchangeable: the first two stand for all. With one unit there is no pair, so B = 0.
    """
    if width < 1 or unit_size < 1:
        raise InputError(f"normal_form: width = {width} and unit_size = {unit_size} must both be 1 or more: a module has at least one unit")
    with jax.enable_x64(True):
        return _expand(apply, jax.tree.map(_as_float64, x), width, unit_size)


def _expand(apply: Callable[[Array, Array], Array], x: Array, width: int, unit_size: int) -> NormalForm:
    def pair(first: Array, second: Array) -> Array:
        weights = jax.numpy.zeros((unit_size, width)).at[:, 0].add(first)
        return apply(weights if width == 1 else weights.at[:, 1].add(second), x)

    origin = jax.numpy.zeros(unit_size)
    refuse_huge(
        f"normal_form: A, dense {unit_size} x {unit_size} matrices for every output and input,",
        math.prod(jax.eval_shape(pair, origin, origin).shape) * unit_size**2,
        "pass fewer inputs, or use nqf_pipeline.forms.taylor.quadratic_form, which never forms them",
    )

    def derivatives(first: Array, second: Array) -> tuple[Array, Array, tuple[Array, Array]]:
        slope = jax.jacfwd(pair)
        return pair(first, second), slope(first, second), jax.jacfwd(slope, argnums=(0, 1))(first, second)

    value, gradient, (own, cross) = jax.device_get(jax.jit(derivatives)(origin, origin))
    return NormalForm(value, gradient, (own - cross) / 2, cross / 2)


def _as_float64(leaf: Array) -> Array:
    array = np.asarray(leaf)
    return jax.numpy.asarray(array, dtype=np.float64 if array.dtype.kind == "f" else None)
