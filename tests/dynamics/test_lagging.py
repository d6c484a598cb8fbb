"""Networks whose gradient is computed at some steps only, against networks that compute it at every step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqf_pipeline.dynamics.lagging import LONGEST, SAFETY, Lag
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import CNN, MLP, DeepMLP, MultiHead, PhaseRetrieval, QueryKey
from nqf_pipeline.stages.train import Stopwatch, program_of, run_cells
from nqf_pipeline.store.schema import normalise, validate
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.tasks import Teacher, TeacherNetwork

ALLOWED = 1e-3
SMALL = {
    "mlp": (MLP(inputs=5, width=12, outputs=3), 0.05),
    "relu": (MLP(inputs=5, width=12, outputs=3, activation="relu"), 0.05),
    "cnn": (CNN(image=(3, 4), kernel=(2, 2), width=10, outputs=2), 0.01),
    "multi_head": (MultiHead(dimension=4, key_size=2, value_size=3, tokens=3, outputs=2, width=3), 0.2),
    "query_key": (QueryKey(dimension=4, key_size=2, tokens=3, outputs=2, width=4), 0.1),
}


def cells_of(
    kind, optimizer, *, sigmas=(1e-1, 1e-2, 1e-3, 1e-4), inputs=None, allowed=ALLOWED, steps=500, precision="float64", rate=None, **more
):
    architecture, usual = SMALL[kind]
    inputs = inputs or ("correlated" if optimizer == "gd" else "white")
    rate = rate or {"gd": usual, "momentum": 0.1 * usual, "adam": 1e-3}[optimizer]
    return [
        Cell(
            architecture=architecture,
            task=Teacher(strengths=(1.0, 0.5), samples=60, test_samples=20, inputs=inputs),
            optimizer=Optimizer(kind=optimizer, learning_rate=rate, gradient_error=allowed, **more),
            sigma=sigma,
            steps=steps,
            records=24,
            precision=precision,
        )
        for sigma in sigmas
    ]


LANES, PROGRAMS = 4, {}


def trained(cells):
    return run_cells(cells, LANES, Stopwatch(), programs=PROGRAMS)


def deviation(lagging, exact):
    """Largest difference of the recorded losses, as a share of the first, and of mode strengths, which are 1 when learnt."""
    loss, mode = ([run[name].to_numpy() for run in (lagging, exact)] for name in ("network_loss", "network_mode"))
    return float((np.abs(loss[0] - loss[1]) / loss[1][:, :1]).max()), float(np.abs(mode[0] - mode[1]).max())


CASES = [
    ("mlp", "gd", "correlated"),
    ("mlp", "momentum", "white"),
    ("mlp", "adam", "white"),
    ("relu", "gd", "gaussian"),
    ("cnn", "gd", "gaussian"),
    ("multi_head", "gd", "white"),
    ("query_key", "momentum", "gaussian"),
]


@pytest.mark.parametrize(("kind", "optimizer", "inputs"), CASES)
def test_lagging_networks_stay_within_the_allowed_error_of_full_training(kind, optimizer, inputs):
    cells = cells_of(kind, optimizer, inputs=inputs)
    lagging, exact = (trained(given) for given in (cells, cells_of(kind, optimizer, inputs=inputs, allowed=0.0)))
    loss, strength = deviation(lagging, exact)
    assert 0 < loss < ALLOWED
    assert 0 < strength < 3 * ALLOWED
    np.testing.assert_array_equal(lagging["twin_loss"], exact["twin_loss"])
    computed = lagging["network_gradients"].to_numpy()
    assert (computed[:, 0] == 0).all()
    assert (np.diff(computed) >= 0).all()
    assert (computed[:, -1] < cells[0].steps * (1.0 if kind == "relu" else 0.8)).all()
    gap = lagging["gradient_gap"].to_numpy()
    assert (np.diff(gap) >= 0).all()
    assert kind == "relu" or (gap[:, -1] < 10 * ALLOWED).all(), "where units switch, nothing foresees it"


def test_a_smaller_error_is_bought_with_more_gradients():
    exact = trained(cells_of("mlp", "gd", sigmas=(1e-3,), allowed=0.0))
    found = [trained(cells_of("mlp", "gd", sigmas=(1e-3,), allowed=allowed)) for allowed in (1e-2, 1e-3, 1e-4)]
    losses, computed = zip(*((deviation(run, exact)[0], int(run["network_gradients"][0, -1])) for run in found), strict=True)
    assert losses[0] > 2 * losses[1] > 4 * losses[2] > 0
    assert computed[0] < computed[1] < computed[2]


def test_an_error_that_nothing_meets_is_full_training():
    """Every step then computes the network's gradient, and nothing else moves it."""
    lagging, exact = (trained(cells_of("mlp", "momentum", allowed=allowed)) for allowed in (1e-300, 0.0))
    assert (lagging["network_gradients"][:, -1] == 500).all()
    assert (lagging["gradient_gap"] == 0).all()
    np.testing.assert_allclose(lagging["network_loss"], exact["network_loss"], rtol=1e-12)


def test_no_lane_feels_its_neighbours():
    cells = cells_of("mlp", "gd")
    together, alone = trained(cells), trained(cells[1:2])
    for name in alone.data_vars:
        np.testing.assert_array_equal(alone[name][0], together[name][1], err_msg=name)


def test_float32_keeps_to_float64():
    single, double = (trained(cells_of("mlp", "gd", precision=precision)) for precision in ("float32", "float64"))
    assert max(deviation(single, double)) < ALLOWED
    assert (single["network_gradients"][:, -1] < 400).all()


def test_float32_saves_as_much_as_float64_after_convergence():
    """There the gradient is rounding noise, which nothing foresees."""
    single, double = (trained(cells_of("mlp", "gd", inputs="white", precision=p, steps=20_000)) for p in ("float32", "float64"))
    computed, same = (run["network_gradients"].to_numpy()[:, -1] for run in (single, double))
    assert (computed < 0.1 * 20_000).all()
    np.testing.assert_allclose(computed, same, rtol=0.02)
    assert max(deviation(single, double)) < 0.1 * ALLOWED


def test_weight_decay_and_a_schedule_act_between_gradients_too():
    numbers = {"weight_decay": 1e-3, "schedule": "cosine", "decay_steps": 400, "final_share": 0.1, "warmup_steps": 20, "momentum": 0.5}
    lagging, exact = (trained(cells_of("mlp", "momentum", allowed=allowed, rate=0.02, **numbers)) for allowed in (ALLOWED, 0.0))
    assert 0 < deviation(lagging, exact)[0] < ALLOWED
    assert deviation(lagging, exact)[1] < 3 * ALLOWED
    assert (lagging["network_gradients"][:, -1] < 400).all()


def test_a_lane_that_diverges_leaves_its_neighbour_alone():
    healthy, wild = (cells_of("mlp", "gd", sigmas=(1e-2,), rate=rate)[0] for rate in (0.05, 30.0))
    together, alone = trained([healthy, wild]), trained([healthy])
    assert not np.isfinite(together["network_loss"][1, -1])
    assert np.isfinite(together["network_loss"][0]).all()
    for name in alone.data_vars:
        np.testing.assert_array_equal(alone[name][0], together[name][0], err_msg=name)


def test_what_was_computed_is_stored():
    shard = normalise(trained(cells_of("mlp", "gd", sigmas=(1e-2,))))
    validate(shard, "training", "here")
    assert {"network_gradients", "gradient_gap"} <= set(shard.data_vars)
    assert "network_gradients" not in trained(cells_of("mlp", "gd", sigmas=(1e-2,), allowed=0.0))


RENEWED = jax.jit(Lag.renewed)
RATES = st.floats(-1.0, 1.0).filter(lambda value: abs(value) > 1e-3)


@settings(max_examples=40, deadline=None)
@given(bend=RATES, tilt=RATES, allowed=st.sampled_from([1e-2, 1e-3, 1e-4]))
def test_intervals_keep_a_cubic_within_the_error_planned_for(bend, tilt, allowed):
    """R(t) = tilt t + bend t^3 / 1e5 beside a gradient of length 10: what a parabola misses is known before."""

    def rest(step):
        return jnp.full((2, 2), tilt * step + bend * step**3 / 1e5)

    gradient, lag, step, lengths = jnp.full((2, 2), 5.0), Lag.of(jnp.zeros((2, 2))), 0, []
    while step < 200:
        lag = RENEWED(lag, jnp.asarray(step, jnp.int32), gradient, rest(step), jnp.asarray(allowed))
        length = int(lag.due) - step
        miss = float(jnp.linalg.norm(rest(step + length) - lag.carried(jnp.asarray(step + length, jnp.int32)))) / 10
        assert length == 1 or miss <= SAFETY * allowed * (1 + 1e-6)
        assert length <= LONGEST
        assert length & (length - 1) == 0
        lengths.append(length)
        step = int(lag.due)
    assert int(lag.computed) == len(lengths)


def test_where_nothing_bends_intervals_grow_to_the_longest():
    lag, step = Lag.of(jnp.zeros(3)), 0
    while step < 64:
        lag = RENEWED(lag, jnp.asarray(step, jnp.int32), jnp.ones(3), jnp.full(3, 2.0 + step + 0.01 * step**2), jnp.asarray(1e-6))
        step = int(lag.due)
    assert int(lag.due) - int(lag.at) == LONGEST
    assert float(lag.gap) < 1e-12


def test_who_lags():
    cell = cells_of("mlp", "gd")[0]
    assert cell.lags
    assert cell.bucket != cells_of("mlp", "gd", allowed=0.0)[0].bucket
    assert cell.id != cells_of("mlp", "gd", allowed=0.0)[0].id
    assert cell.bucket == cells_of("mlp", "gd", allowed=1e-2)[0].bucket
    quadratic = cell.model_copy(update={"architecture": PhaseRetrieval(inputs=5)})
    assert not quadratic.lags
    assert not cell.model_copy(update={"train": "twin"}).lags
    with pytest.raises(ValueError, match="every minibatch has another"):
        Optimizer(kind="sgd", batch_size=8, gradient_error=1e-3)


@pytest.mark.parametrize("architecture", [SMALL["mlp"][0], PhaseRetrieval(inputs=5), DeepMLP(inputs=5)], ids=lambda kind: kind.name)
@pytest.mark.parametrize("batch", [{}, {"kind": "sgd", "batch_size": 8}], ids=["full", "batch"])
def test_plans_and_programs_agree_where_moments_tell_the_gradient(architecture, batch):
    task = TeacherNetwork(samples=20, test_samples=5)
    cell = Cell(architecture=architecture, task=task, optimizer=Optimizer(**batch), sigma=0.1, steps=30, records=8)
    assert cell.reads_moments == program_of(cell).reads_moments == (not batch and architecture.name != "deep_mlp")


@pytest.mark.parametrize(
    "changed",
    [{"train": "twin"}, {"train": "nothing"}, {"architecture": PhaseRetrieval(inputs=5)}, {"architecture": DeepMLP(inputs=5)}],
    ids=["twin", "nothing", "own twin", "layered"],
)
def test_cells_that_it_cannot_touch_keep_their_identity(changed):
    with_error, without = (Cell(**{**dict(cells_of("mlp", "gd", allowed=allowed)[0]), **changed}) for allowed in (ALLOWED, 0.0))
    assert with_error.optimizer == without.optimizer
    assert with_error.id == without.id
    assert with_error.bucket == without.bucket
