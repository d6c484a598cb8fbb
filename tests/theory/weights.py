"""The quadratic form integrated in weight space, in plain NumPy: what predictions are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import Architecture
from nqf_pipeline.tasks import Task
from nqf_pipeline.theory.ignition import crossing
from nqf_pipeline.theory.predict import CellInputs

Array = Any


@dataclass(frozen=True)
class Twin:
    """Recovered strengths, loss and order parameter at every step."""

    strength: Array
    loss: Array
    order: Array

    @property
    def ignition(self) -> Array:
        return crossing(np.arange(len(self.loss)), self.strength)


def cell(
    architecture: Architecture, task: Task, optimizer: Optimizer, sigma: float, steps: int, seed: int = 0, records: int = 200
) -> CellInputs:
    """A cell with its own data and weights, recorded on a log-spaced grid."""
    rng = np.random.default_rng(seed)
    problem = task.problem(architecture, rng)
    weights = sigma * problem.initial_scale * architecture.initial(rng)
    grid = np.unique(np.concatenate([[0], np.geomspace(1, steps, records).round().astype(int)]))
    return CellInputs(architecture, problem, optimizer, weights, grid, sigma)


def integrate(inputs: CellInputs, steps: int | None = None) -> Twin:
    """Every step up to `steps` (by default to the last record)."""
    architecture, problem, optimizer = inputs.architecture, inputs.problem, inputs.optimizer
    rowwise = architecture.pairing == "rowwise"
    factors = [np.array(factor) for factor in reduced(inputs)]
    first, second = ([np.zeros_like(factor) for factor in factors] for _ in range(2))
    strengths, losses, orders = [], [], []
    for step in range((int(inputs.step_number[-1]) if steps is None else steps) + 1):
        left, right = factors[0], factors[-1]
        order = (left * right).sum(-1) if rowwise else left @ right.T
        strengths.append(problem.modes.strength(order))
        losses.append(float(problem.moments.loss(order)))
        orders.append(order)
        slope = 2 * problem.moments.act(order - problem.moments.optimum)
        by_left = slope[:, None] * right if rowwise else slope @ right
        by_right = slope[:, None] * left if rowwise else slope.T @ left
        gradients = [by_left + by_right] if len(factors) == 1 else [by_left, by_right]
        for k, gradient in enumerate(gradients):
            if optimizer.kind == "adam":
                first[k] = optimizer.beta1 * first[k] + (1 - optimizer.beta1) * gradient
                second[k] = optimizer.beta2 * second[k] + (1 - optimizer.beta2) * gradient**2
                mean, square = first[k] / (1 - optimizer.beta1 ** (step + 1)), second[k] / (1 - optimizer.beta2 ** (step + 1))
                move = mean / (np.sqrt(square) + optimizer.eps) + optimizer.weight_decay * factors[k]
            else:
                first[k] = optimizer.momentum * first[k] + gradient + optimizer.weight_decay * factors[k]
                move = first[k]
            share = 1.0 if optimizer.timetable is None else float(optimizer.timetable.share(np.array(step)))
            factors[k] = factors[k] - optimizer.learning_rate * share * move
    return Twin(np.array(strengths), np.array(losses), np.array(orders))


def reduced(inputs: CellInputs) -> tuple[Array, ...]:
    """Factors with no more columns than rows: linear optimizers see the Gram matrix of the rows only (Adam does not)."""
    factors = inputs.architecture.factors(inputs.weights)
    rows = np.concatenate(factors)
    if inputs.architecture.pairing == "rowwise" or not inputs.optimizer.in_linear_span or rows.shape[1] <= rows.shape[0]:
        return factors
    small = np.linalg.qr(rows.T, mode="r").T
    return (small,) if len(factors) == 1 else (small[: len(factors[0])], small[len(factors[0]) :])
