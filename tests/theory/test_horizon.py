"""The horizon: long enough for the modes asked for, not much longer, quick, and free of JAX."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import CNN, MLP, Diagonal, FourierMLP, MixtureOfExperts, MultiHead, PhaseRetrieval, QueryKey
from nqf_pipeline.tasks import Digits, FeaturePowerLaw, Fourier, Teacher
from nqf_pipeline.theory.checks import largest_curvature
from nqf_pipeline.theory.errors import TheoryError
from nqf_pipeline.theory.horizon import horizon
from tests.theory.weights import cell, integrate

MATRICES = [
    (MLP(inputs=12, outputs=6), Teacher(inputs="white", samples=200)),
    (MLP(inputs=12, outputs=6), Teacher(samples=200)),
    (MLP(inputs=12, outputs=6, width=3), Teacher(samples=200, strengths=(1.0, 0.5, 0.3))),
    (CNN(), Teacher(samples=300)),
    (MultiHead(width=2, value_size=8), Teacher(samples=300)),
    (QueryKey(dimension=10), Teacher(samples=300)),
    (MixtureOfExperts(inputs=8), Teacher(samples=300, strengths=(1.0, 0.5, 0.25))),
    (PhaseRetrieval(inputs=8), Teacher(samples=300, strengths=(1.0, 0.5, 0.25))),
    (MLP(width=16, inputs=64, outputs=1), Digits()),
]


def settings(architecture: Any, task: Any, share: float, **optimizer: Any) -> tuple[Any, Optimizer]:
    problem = task.problem(architecture, np.random.default_rng(0))
    return problem, Optimizer(learning_rate=share / largest_curvature(architecture, problem.moments), **optimizer)


@pytest.mark.parametrize("kind", ["gd", "momentum"])
@pytest.mark.parametrize(("architecture", "task"), MATRICES, ids=lambda v: getattr(v, "name", None))
def test_every_watched_mode_ignites_within_the_horizon_and_none_idles_long(architecture: Any, task: Any, kind: str) -> None:
    problem, optimizer = settings(architecture, task, 0.3 if kind == "gd" else 0.1, kind=kind)
    steps = horizon(architecture, problem, optimizer, 1e-2)
    truth = integrate(cell(architecture, task, optimizer, 1e-2, 2), steps).ignition
    assert np.all(np.isfinite(truth))
    assert steps < 4 * truth.max()


@pytest.mark.parametrize("width", [16, 128])
def test_adam_ignites_all_modes_within_its_horizon(width: int) -> None:
    architecture, task = MLP(inputs=12, outputs=6, width=width), Teacher(samples=200)
    optimizer = Optimizer(kind="adam", learning_rate=2e-3)
    inputs = cell(architecture, task, optimizer, 1e-3, 2)
    steps = horizon(architecture, inputs.problem, optimizer, 1e-3)
    truth = integrate(inputs, steps).ignition
    assert np.all(np.isfinite(truth))
    assert steps < 8 * truth.max()


@pytest.mark.parametrize(("architecture", "task"), [(Diagonal(inputs=100), FeaturePowerLaw(modes=100)), (FourierMLP(), Fourier())])
def test_ensembles_wait_for_the_first_share_of_their_modes(architecture: Any, task: Any) -> None:
    problem, optimizer = settings(architecture, task, 0.5)
    steps = horizon(architecture, problem, optimizer, 1e-3, margin=1.0)
    inputs = cell(architecture, task, optimizer, 1e-3, 2)
    ignited = np.isfinite(integrate(inputs, min(steps, 20_000)).ignition)
    early = problem.modes.number <= 0.25 * len(problem.moments.optimum)
    late = problem.modes.number > 0.5 * len(problem.moments.optimum)
    assert ignited[early].mean() > 0.85
    assert ignited[late].mean() < 0.3
    assert horizon(architecture, problem, optimizer, 1e-3, mode=3) < steps * 1.5


def test_interacting_entries_wait_for_the_watched_ones_alone() -> None:
    """Pixels of the digits seen by a diagonal network: 64 entries that interact, of which the leading ones are watched."""
    architecture, task = Diagonal(inputs=64, start="gaussian"), Digits()
    problem, optimizer = settings(architecture, task, 0.3)
    steps = horizon(architecture, problem, optimizer, 1e-3)
    truth = integrate(cell(architecture, task, optimizer, 1e-3, 2), steps).ignition
    assert np.all(np.isfinite(truth))
    assert steps < 4 * truth.max()


def test_a_horizon_for_one_mode_is_that_of_the_modes_up_to_it() -> None:
    problem, optimizer = settings(MLP(), Teacher(), 0.1)
    steps = [horizon(MLP(), problem, optimizer, 1e-3, mode=k) for k in (1, 2, 3, 4)]
    assert steps == sorted(steps)
    assert steps[-1] == horizon(MLP(), problem, optimizer, 1e-3)


def test_smaller_seeds_steps_and_rates_take_longer() -> None:
    problem, optimizer = settings(MLP(), Teacher(), 0.1)
    base = horizon(MLP(), problem, optimizer, 1e-2)
    assert horizon(MLP(), problem, optimizer, 1e-4) > 1.3 * base
    assert horizon(MLP(), problem, optimizer.model_copy(update={"learning_rate": optimizer.learning_rate / 2}), 1e-2) > 1.9 * base
    assert horizon(MLP(), problem, optimizer.model_copy(update={"weight_decay": 0.02}), 1e-2) > base


def test_modes_that_never_ignite_are_not_waited_for() -> None:
    negative = Teacher(strengths=(1.0, 0.5, -0.4), samples=400)
    problem, optimizer = settings(PhaseRetrieval(inputs=8), negative, 0.1)
    assert horizon(PhaseRetrieval(inputs=8), problem, optimizer, 1e-2) < 10_000


def test_no_mode_at_all_is_an_error_with_a_way_out() -> None:
    problem, optimizer = settings(Diagonal(inputs=20), FeaturePowerLaw(modes=20), 0.1, weight_decay=10.0)
    with pytest.raises(TheoryError, match="weight_decay"):
        horizon(Diagonal(inputs=20), problem, optimizer, 1e-2)


def test_a_horizon_takes_tens_of_milliseconds() -> None:
    for architecture, task in ((MLP(), Teacher()), (CNN(), Teacher()), (QueryKey(), Teacher()), (Diagonal(), FeaturePowerLaw())):
        problem, optimizer = settings(architecture, task, 0.1)
        horizon(architecture, problem, optimizer, 1e-3)
        begun = time.process_time()
        for _ in range(5):
            horizon(architecture, problem, optimizer, 1e-3)
        assert (time.process_time() - begun) / 5 < 0.1


def test_planning_never_loads_jax() -> None:
    code = """
import sys
import numpy as np
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP
from nqf_pipeline.tasks import Teacher
from nqf_pipeline.theory.checks import stability
from nqf_pipeline.theory.horizon import horizon
problem = Teacher().problem(MLP(), np.random.default_rng(0))
horizon(MLP(), problem, Optimizer(), 0.01), stability(MLP(), problem, Optimizer())
assert "jaxlib" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
