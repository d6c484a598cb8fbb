"""Checks of a cell before it runs: is its step stable where training ends? (NumPy, no JAX)"""

from __future__ import annotations

from typing import Any

import numpy as np

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem

Array = Any
ITERATIONS = 60
TOLERANCE = 1e-3
"""Power iteration stops at this relative change: the answer is compared with a bound, not propagated."""


def stability(architecture: Architecture, problem: Problem, optimizer: Optimizer) -> tuple[float, float]:
    """(learning_rate times the largest curvature at the optimum, the bound it must stay below).

    The bound is 2 for gradient descent (minibatches included) and 2 (1 + momentum) for Polyak momentum. Where one logistic mode rules,
    the curvature is its rate r. Adam rescales each coordinate, logistic losses have no optimum at finite
    weights, and layers that read each other none in closed form: there no bound is known, (nan, inf).
    """
    if not optimizer.in_linear_span or problem.loss != "squared_error" or architecture.layered:
        return float("nan"), float("inf")
    return optimizer.learning_rate * largest_curvature(architecture, problem.moments), 2 * (1 + optimizer.momentum)


def largest_curvature(architecture: Architecture, moments: Moments) -> float:
    """Largest eigenvalue of the Hessian of the quadratic form's loss in W at its (balanced) optimum."""
    single = architecture.positive
    if architecture.pairing == "rowwise":
        return _entry_curvature(moments, single)
    left, right = _optimal_factors(moments.optimum, single)
    if single:
        return _symmetric_curvature(moments, left * np.sqrt(_fitting_multiple(moments, left)))
    return _product_curvature(moments, left, right)


def _fitting_multiple(moments: Moments, factor: Array) -> float:
    """The multiple of Z Z^T that fits best: not 1 where data see M in part only, or where the optimum has a negative part."""
    order = factor @ factor.T
    size = float(np.sum(order * moments.act(order)))
    return max(float(np.sum(order * moments.linear)) / size, 0.0) if size > 0 else 1.0


def _entry_curvature(moments: Moments, single: bool) -> float:
    reach = np.maximum(moments.optimum, 0) if single else np.abs(moments.optimum)
    scale = 8.0 if single else 4.0
    if moments.kind == "diagonal":
        return scale * float(np.max(moments.operator * reach))
    root = np.sqrt(reach)
    return scale * float(np.linalg.norm(root[:, None] * moments.operator * root, 2))


def _optimal_factors(optimum: Array, single: bool) -> tuple[Array, Array]:
    if single:
        values, vectors = np.linalg.eigh(optimum)
        factor = vectors * np.sqrt(np.clip(values, 0, None))
        return factor, factor
    left, values, right = np.linalg.svd(optimum, full_matrices=False)
    return left * np.sqrt(values), right.T * np.sqrt(values)


def _product_curvature(moments: Moments, left: Array, right: Array) -> float:
    """Second derivative of <dG, K dG> with dG = dZ1 Z2^T + Z1 dZ2^T."""

    def hessian(step: tuple[Array, Array]) -> tuple[Array, Array]:
        change = 2 * moments.act(step[0] @ right.T + left @ step[1].T)
        return change @ right, change.T @ left

    return _power(hessian, (left, right))


def _symmetric_curvature(moments: Moments, factor: Array) -> float:
    """Second derivative of <dM, K dM> with dM = dZ Z^T + Z dZ^T."""

    def hessian(step: tuple[Array]) -> tuple[Array]:
        change = 2 * moments.act(step[0] @ factor.T + factor @ step[0].T)
        return ((change + change.T) @ factor,)

    return _power(hessian, (factor,))


def _power(operator: Any, start: tuple[Array, ...]) -> float:
    """Largest eigenvalue of a positive operator; the start leans on the leading mode, where it usually lies."""
    noise = np.random.default_rng(0)
    vector = tuple(part + 0.1 * np.std(part) * noise.standard_normal(part.shape) for part in start)
    value = 0.0
    for _ in range(ITERATIONS):
        norm = np.sqrt(sum(np.sum(part**2) for part in vector))
        if norm == 0:
            return 0.0
        vector = operator(tuple(part / norm for part in vector))
        before, value = value, float(np.sqrt(sum(np.sum(part**2) for part in vector)))
        if abs(value - before) <= TOLERANCE * value:
            break
    return value
