"""The twin's written-out gradient, its blocks of columns, and lanes in turns, against plain differentiation and `jax.vmap`."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nqf_pipeline.dynamics.compiling import one_after_another
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.dynamics.turns import LARGEST_SIDE
from nqf_pipeline.dynamics.twins import Twin
from nqf_pipeline.models import MLP, Diagonal, PhaseRetrieval
from nqf_pipeline.stages.cores import _CPU_FLAGS, _add_flags
from nqf_pipeline.stages.train import assemble, program_of
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.tasks import Teacher

WIDE = 2 * LARGEST_SIDE + 3
ARCHITECTURES = [
    MLP(inputs=3, width=5, outputs=2),
    MLP(inputs=3, width=WIDE, outputs=2),
    PhaseRetrieval(inputs=3, width=5),
    PhaseRetrieval(inputs=3, width=WIDE),
    Diagonal(inputs=4, width=3),
]
TWINS = [Twin(one) for one in ARCHITECTURES] + [Twin(one, compressed=True) for one in ARCHITECTURES if one.compressed_width < one.degrees]


@pytest.mark.parametrize(
    "twin", TWINS, ids=lambda twin: f"{twin.architecture.name}{twin.architecture.width}{'_compressed' * twin.compressed}"
)
def test_gradient_is_that_of_the_order_parameter(twin: Twin) -> None:
    architecture = twin.architecture
    rng = np.random.default_rng(0)
    weights = jnp.asarray(twin.start(architecture.initial(rng)))
    held = twin.held(weights)
    order = twin.order(held)
    pull = jnp.asarray(rng.standard_normal(order.shape))
    expected = jax.grad(lambda at: (pull * twin.order(at)).sum())(held)
    jax.tree.map(lambda found, right: np.testing.assert_allclose(found, right, rtol=1e-12), twin.pull_back(held, pull), expected)
    np.testing.assert_allclose(order, twin.ratio * architecture.combine(twin.factors(weights)), rtol=1e-11, atol=1e-13)


def test_blocks_are_the_factors() -> None:
    architecture = ARCHITECTURES[1]
    twin, weights = Twin(architecture), jnp.asarray(architecture.initial(np.random.default_rng(1)))
    held = twin.held(weights)
    assert [[block.shape[1] for block in blocks] for blocks in held] == [[87, 86, 86]] * 2
    jax.tree.map(np.testing.assert_array_equal, twin.factors(held), architecture.factors(weights))


def test_lanes_in_turns_are_lanes_at_once() -> None:
    def one_lane(shared, own, nothing, pair):
        return {"sum": shared @ own + pair["shift"], "own": own}

    shared, own, pair = jnp.arange(6.0).reshape(2, 3), jnp.arange(12.0).reshape(4, 3), {"shift": jnp.arange(4.0)}
    axes = (None, 0, 0, 0)
    found, expected = (lanes(shared, own, None, pair) for lanes in (one_after_another(one_lane, axes), jax.vmap(one_lane, in_axes=axes)))
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize(
    ("train", "lanes", "apart"),
    [("network_and_twin", 1, True), ("network_and_twin", 4, False), ("twin", 4, True)],
)
def test_a_path_that_would_fill_the_memory_is_not_kept(train: str, lanes: int, apart: bool) -> None:
    """8,192 numbers of 8 bytes at 500 steps are 33 MB a lane; of a twin alone nothing is kept."""
    cell = Cell(
        architecture=MLP(inputs=64, width=64, outputs=64),
        task=Teacher(strengths=(1.0, 0.5), samples=8, test_samples=8),
        optimizer=Optimizer(),
        sigma=0.01,
        seed=0,
        steps=1000,
        records=500,
        precision="float64",
        train=train,
    )
    group, _ = assemble([cell], lanes)
    assert program_of(cell)._small_twin(group) == apart


def test_flags_of_the_user_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=0")
    _add_flags(_CPU_FLAGS)
    assert os.environ["XLA_FLAGS"].count("byte_threshold") == 1
