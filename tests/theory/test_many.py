"""Clocks of many cells are those of each cell by itself."""

from __future__ import annotations

import numpy as np
import pytest

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP
from nqf_pipeline.tasks import Teacher
from nqf_pipeline.theory.many import clock_steps_of, shared_unit_seeds
from nqf_pipeline.theory.predict import clock_steps, system
from nqf_pipeline.theory.regime import regime
from nqf_pipeline.theory.seeds import effective_seeds
from tests.theory.weights import cell

RATE = np.array([4.0, 1.9, 2.1, 0.5, -1.0])


@pytest.mark.parametrize("degrees", [2, 5, 30])
def test_shared_seeds_are_those_of_one_cell(degrees: int, rng: np.random.Generator) -> None:
    vectors = 10 ** rng.uniform(-5, -1, (12, 5, 1)) * rng.standard_normal((12, 5, degrees))
    rate = np.tile(RATE, (12, 1))
    found = shared_unit_seeds(vectors, rate, np.abs(rate) / 2)
    for one, seeds in zip(vectors, found, strict=True):
        np.testing.assert_allclose(seeds, effective_seeds(one, RATE, np.abs(RATE) / 2)[1], rtol=1e-6, atol=1e-30)
    assert np.all((found > 0).sum(1) == min(degrees, 4))


@pytest.mark.parametrize(
    "optimizer",
    [Optimizer(), Optimizer(kind="momentum", learning_rate=0.002), Optimizer(weight_decay=0.05)],
    ids=["gd", "momentum", "decay"],
)
def test_clocks_are_those_of_a_cells_own_prediction(optimizer: Optimizer) -> None:
    layer, task = MLP(width=16, inputs=8, outputs=5), Teacher(inputs="white", samples=60, strengths=(1.0, 0.5, 0.25))
    inputs = cell(layer, task, optimizer, 1e-3, 500)
    modes = system(inputs, regime(layer, inputs.problem, optimizer))
    kept = modes.owner
    own = clock_steps(inputs, modes, modes.led(modes.seed)[kept])
    rate, saturation, seed = (modes.led(array)[kept][None] for array in (modes.rate, modes.saturation, modes.seed))
    found = clock_steps_of(
        rate, saturation, seed, np.array([optimizer.learning_rate]), np.array([optimizer.momentum]), np.array([optimizer.weight_decay])
    )
    # A cell's half is that of its target, here the mode's own plateau.
    np.testing.assert_allclose(found[0], own, rtol=1e-6)


def test_modes_that_never_ignite_have_no_step() -> None:
    steps = clock_steps_of(RATE[None], np.ones((1, 5)), np.array([[1e-6, 0.0, 1e-6, 1e-6, 1e-6]]), np.array([0.01]), 0.0, 0.2)
    assert np.isfinite(steps[0]).tolist() == [True, False, True, False, False]
