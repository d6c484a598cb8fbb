"""Minibatch noise of a white layer: predicted delay, spread and floor against many twins on batches of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP, Diagonal
from nqf_pipeline.tasks import FeaturePowerLaw, Teacher
from nqf_pipeline.theory.ignition import crossing
from nqf_pipeline.theory.noise import batch_noise
from nqf_pipeline.theory.predict import CellInputs
from tests.theory.weights import cell, integrate

Array = Any
STEPS, SETTLED, RUNS = 1400, 1100, 40


def twins_on_batches(inputs: CellInputs) -> tuple[Array, Array]:
    """(ignition steps, mean loss once settled) of runs that differ in their batches only."""
    features, goal = inputs.problem.structure.features, inputs.problem.targets - inputs.problem.structure.offset
    first, second = (np.repeat(factor[None], RUNS, 0) for factor in inputs.architecture.factors(inputs.weights))
    rng, rate, strengths, losses = np.random.default_rng(1), inputs.optimizer.learning_rate, [], []
    for step in range(STEPS + 1):
        order = first @ second.transpose(0, 2, 1)
        strengths.append([inputs.problem.modes.strength(each) for each in order])
        if step > SETTLED:
            losses.append(np.mean([inputs.problem.moments.loss(each) for each in order]))
        index = rng.integers(0, goal.shape[1], (RUNS, inputs.optimizer.batch_size))
        seen, wanted = features[:, index].transpose(1, 0, 2), goal[:, index].transpose(1, 0, 2)
        pull = 2 * seen @ (order.transpose(0, 2, 1) @ seen - wanted).transpose(0, 2, 1) / index.shape[1]
        first, second = first - rate * pull @ second, second - rate * pull.transpose(0, 2, 1) @ first
    strength = np.array(strengths)
    return np.array([crossing(np.arange(STEPS + 1), strength[:, run]) for run in range(RUNS)]), np.mean(losses)


@pytest.mark.parametrize("batch", [2, 8])
def test_delay_spread_and_floor_of_twins_on_batches(batch: int) -> None:
    task = Teacher(inputs="white", strengths=(1.0, 0.5), samples=80, label_noise=0.3)
    optimizer = Optimizer(kind="sgd", learning_rate=0.02, batch_size=batch)
    inputs = cell(MLP(width=8, inputs=6, outputs=3), task, optimizer, 1e-3, STEPS)
    whole = integrate(replace(inputs, optimizer=Optimizer(learning_rate=0.02)), STEPS)
    full = whole.ignition[:2]
    effect = batch_noise(inputs.problem, optimizer, full)
    assert effect is not None
    steps, loss = twins_on_batches(inputs)
    delay, error = steps.mean(0) / full - 1, steps.std(0) / np.sqrt(RUNS) / full
    assert np.all(np.abs(delay - effect.shift) < 3 * error)
    np.testing.assert_allclose(effect.spread, steps.std(0) / full, rtol=0.3)
    np.testing.assert_allclose(effect.floor, loss - whole.loss[SETTLED:].mean(), rtol=0.1)


def test_noise_scales_with_learning_rate_over_batch_size() -> None:
    task, ignition = Teacher(inputs="white", strengths=(1.0, 0.5), samples=80, label_noise=0.3), np.array([100.0, 300.0])
    problem = task.problem(MLP(width=8, inputs=6, outputs=3), np.random.default_rng(0))

    def effect(rate: float, batch: int) -> Any:
        return batch_noise(problem, Optimizer(kind="sgd", learning_rate=rate, batch_size=batch), ignition * 0.01 / rate)

    one, same, half = effect(0.01, 4), effect(0.02, 8), effect(0.01, 8)
    np.testing.assert_allclose(one.shift, same.shift)
    np.testing.assert_allclose(one.shift, 2 * half.shift)
    np.testing.assert_allclose(one.spread, np.sqrt(2) * half.spread)
    np.testing.assert_allclose(one.floor, 2 * half.floor)


def test_nothing_is_said_without_batches_or_features() -> None:
    rng = np.random.default_rng(0)
    layer = Teacher(inputs="white", samples=80).problem(MLP(width=8, inputs=6, outputs=4), rng)
    entries = FeaturePowerLaw(modes=6).problem(Diagonal(inputs=6), rng)
    assert batch_noise(layer, Optimizer(learning_rate=0.02), np.ones(4)) is None
    assert batch_noise(entries, Optimizer(kind="sgd", batch_size=4), np.ones(6)) is None
