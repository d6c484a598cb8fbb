"""Learning-rate schedules: the same shares as optax, and in training, closure and theory a change of time."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nqf_pipeline.dynamics.closure import Closure
from nqf_pipeline.dynamics.losses import squared_error
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.dynamics.schedules import SHAPES, Schedule
from nqf_pipeline.forms.quadratic import StructureForm
from nqf_pipeline.models import MLP, Diagonal
from nqf_pipeline.stages.train import Stopwatch, run_cells
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.tasks import FeaturePowerLaw, Teacher
from nqf_pipeline.theory.predict import predict
from tests.theory.weights import cell, integrate

Array = Any
SCHEDULED = {
    "linear": {"schedule": "linear", "decay_steps": 300, "final_share": 0.2},
    "cosine": {"schedule": "cosine", "decay_steps": 400, "final_share": 0.3, "warmup_steps": 40},
    "exponential": {"schedule": "exponential", "decay_steps": 500, "final_share": 0.2},
    "step": {"schedule": "step", "decay_steps": 150, "final_share": 0.4},
    "warmup": {"warmup_steps": 120},
}


def test_shares_are_those_of_optax() -> None:
    step = np.arange(60)
    peers = {
        "linear": optax.linear_schedule(1.0, 0.25, 40),
        "cosine": optax.cosine_decay_schedule(1.0, 40, alpha=0.25),
        "exponential": optax.exponential_decay(1.0, 40, 0.25, end_value=0.25),
        "step": optax.piecewise_constant_schedule(1.0, {40: 0.25}),
    }
    for shape, peer in peers.items():
        expected = np.array([float(peer(int(n))) for n in step])
        np.testing.assert_allclose(Schedule(shape, 0, 40, 0.25).share(step), expected, rtol=1e-6, err_msg=shape)
        np.testing.assert_allclose(Schedule(shape, 0, 40, 0.25).share(jnp.asarray(step)), expected, rtol=1e-6)
    np.testing.assert_allclose(Schedule("constant", 4, 0, 0.0).share(step[:6]), [0.25, 0.5, 0.75, 1, 1, 1])


@given(
    shape=st.sampled_from(SHAPES),
    warmup=st.integers(0, 30),
    decay=st.integers(1, 50),
    final=st.floats(0.01, 1),
    steps=st.lists(st.integers(0, 200), min_size=1, max_size=5),
)
def test_elapsed_steps_add_up_and_turn_back(shape: Any, warmup: int, decay: int, final: float, steps: list[int]) -> None:
    schedule = Schedule(shape, warmup, 0 if shape == "constant" else decay, final)
    shares = schedule.share(np.arange(201))
    np.testing.assert_allclose(schedule.elapsed(np.array(steps)), [shares[:n].sum() for n in steps], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(schedule.steps_to(schedule.elapsed(np.array(steps))), steps, rtol=1e-9, atol=1e-9)


def test_what_a_schedule_never_reaches_takes_forever() -> None:
    gone = Schedule("linear", 0, 10, 0.0)
    assert gone.steps_to(np.array([100.0]))[0] == np.inf
    assert np.isnan(gone.elapsed(np.array([np.nan]))[0])
    np.testing.assert_allclose(gone.elapsed(np.array([np.inf, 10.0])), 5.5)


@pytest.mark.parametrize(
    "fields",
    [{"decay_steps": 5}, {"final_share": 0.5}, {"schedule": "linear"}, {"schedule": "exponential", "decay_steps": 5}],
)
def test_half_a_schedule_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="schedule"):
        Optimizer(**fields)


@pytest.mark.parametrize(("name", "kind"), [("cosine", "momentum"), ("exponential", "gd"), ("step", "gd")])
def test_training_and_closure_take_the_scheduled_steps(name: str, kind: Any) -> None:
    """A linear network is its own twin: weights trained in JAX, (M, mu) closed, and weights stepped here in plain NumPy agree."""
    optimizer = Optimizer(kind=kind, learning_rate=0.05 if kind == "gd" else 0.005, **SCHEDULED[name])
    inputs = cell(MLP(width=5, inputs=4, outputs=2, activation="linear"), Teacher(strengths=(1.0, 0.5), samples=60), optimizer, 0.05, 400)
    truth = integrate(inputs).loss[inputs.step_number]
    form, units = StructureForm.of(inputs.problem.structure, inputs.architecture.factors(inputs.weights), rowwise=False)
    closure = Closure.single(form, inputs.problem.targets, squared_error, units)
    np.testing.assert_allclose(closure.train(optimizer, inputs.step_number)[0].loss, truth, rtol=1e-8)
    run = Cell(
        architecture=inputs.architecture,
        task=Teacher(strengths=(1.0, 0.5), samples=60),
        optimizer=optimizer,
        sigma=0.05,
        steps=400,
        records=100,
        precision="float64",
    )
    plain = run.model_copy(update={"optimizer": Optimizer(kind=kind, learning_rate=optimizer.learning_rate)})
    assert run.bucket != plain.bucket
    dataset = run_cells([run], 1, Stopwatch())
    np.testing.assert_allclose(dataset["time"].to_numpy()[0], optimizer.flow_time(run.step_grid()))
    again = integrate_cell(run)
    np.testing.assert_allclose(dataset["network_loss"].to_numpy()[0], again, rtol=1e-8)


def integrate_cell(run: Cell) -> Array:
    """Losses of a cell at its records, by the plain steps of the tests."""
    from nqf_pipeline.study.draws import initial_weights, problem_of
    from nqf_pipeline.theory.predict import CellInputs

    inputs = CellInputs(run.architecture, problem_of(run), run.optimizer, initial_weights(run), run.step_grid(), run.sigma)
    return integrate(inputs).loss[inputs.step_number]


@pytest.mark.parametrize("name", SCHEDULED)
def test_the_discrete_tier_takes_the_scheduled_steps_exactly(name: str) -> None:
    optimizer = Optimizer(kind="momentum", learning_rate=0.02, **SCHEDULED[name])
    inputs = cell(Diagonal(inputs=6, width=3, start="gaussian"), FeaturePowerLaw(modes=6), optimizer, 1e-2, 900)
    tiers = predict([inputs])[0].tiers
    np.testing.assert_allclose(tiers["discrete"].loss, integrate(inputs).loss[inputs.step_number], rtol=1e-9, atol=1e-20)


def test_clocks_change_their_time_and_nothing_else() -> None:
    """Small steps: flow, discrete and event clocks of a scheduled run are those of the plain one, read at the time that has passed."""
    plain, changed = (Optimizer(learning_rate=0.01, **fields) for fields in ({}, SCHEDULED["cosine"]))
    for task in (Teacher(inputs="white", samples=200), Teacher(inputs="correlated", condition=3, samples=200)):
        one, other = (cell(MLP(width=16, inputs=8, outputs=5), task, optimizer, 1e-3, 6000) for optimizer in (plain, changed))
        before, after = predict([one])[0].tiers, predict([other])[0].tiers
        assert set(before) == set(after)
        for tier in after:
            said = np.isfinite(after[tier].ignition)
            assert np.all(before[tier].ignition[~said] > 0.99 * changed.full_steps(6000)), "silent only where the schedule ends too early"
            np.testing.assert_allclose(changed.full_steps(after[tier].ignition[said]), before[tier].ignition[said], rtol=3e-3)
        finest = after["discrete" if "discrete" in after else "event"].ignition
        last = int(1.2 * np.nanmax(finest))
        np.testing.assert_allclose(finest[np.isfinite(finest)], integrate(other, last).ignition[np.isfinite(finest)], rtol=0.03)
