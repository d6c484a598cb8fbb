"""The layout in which training differentiates a network changes neither the network nor its gradient."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nqf_pipeline.dynamics.compiling import compiler_options
from nqf_pipeline.dynamics.losses import LOSSES
from nqf_pipeline.forms.losses import LossName
from nqf_pipeline.models import ARCHITECTURES, Architecture
from nqf_pipeline.models.layout import Both, response

SAMPLES = 7


def test_by_row_is_the_network(architecture: Architecture, rng: np.random.Generator) -> None:
    weights, encoded = _case(architecture, rng)
    outputs = architecture.network(weights, encoded)
    for samples in (encoded, architecture.lay_out(encoded)):
        np.testing.assert_allclose(architecture.by_row(weights, samples), outputs.T, rtol=1e-12, atol=1e-12 * abs(outputs).max())


def test_gradient_by_row_is_that_of_the_network(architecture: Architecture, rng: np.random.Generator) -> None:
    weights, encoded = _case(architecture, rng)
    targets = jnp.asarray(rng.standard_normal(architecture.network(weights, encoded).shape))
    squared = LOSSES["squared_error"]
    laid_out = architecture.lay_out(encoded)
    plain = jax.grad(lambda at: squared(architecture.network(at, encoded), targets))(weights)
    by_row = jax.grad(lambda at: squared(architecture.by_row(at, laid_out), targets.T, axis=1))(weights)
    np.testing.assert_allclose(by_row, plain, rtol=1e-11, atol=1e-12 * abs(plain).max())


def test_samples_in_both_layouts_are_data(rng: np.random.Generator) -> None:
    """Their own gradient is zero by definition, and under vmap too."""
    samples, weights = (jnp.asarray(rng.standard_normal(shape)) for shape in ((3, 4, 5), (3, 4, 2)))
    lanes = jax.vmap(lambda x, w: response(Both.of(x), w))(samples, weights)
    np.testing.assert_allclose(lanes, jnp.swapaxes(samples, 1, 2) @ weights, rtol=1e-12)
    pull = jax.grad(lambda x: response(Both.of(x), weights[0]).sum())(samples[0])
    assert not pull.any()


@pytest.mark.parametrize("name", LOSSES)
def test_losses_agree_along_either_axis(name: LossName, rng: np.random.Generator) -> None:
    outputs, targets = jnp.asarray(rng.standard_normal((3, 5))), jnp.asarray(rng.dirichlet(np.ones(3), 5).T)
    assert LOSSES[name](outputs.T, targets.T, axis=1) == pytest.approx(float(LOSSES[name](outputs, targets)), rel=1e-14)


@pytest.mark.parametrize("small_products", [False, True])
def test_compiler_knows_its_options(small_products: bool) -> None:
    """Otherwise programs run at a fraction of their speed and nothing says so."""
    assert compiler_options(small_products)


def test_attention_multiplies_small_matrices() -> None:
    """XLA's library takes 1.7 times as long for the heads of query-key attention."""
    small = {kind for kind, architecture in ARCHITECTURES.items() if architecture.small_products}
    assert {"multi_head", "query_key", "single_head"} <= small
    assert not {"mlp", "cnn", "mixture_of_experts"} & small


def _case(architecture: Architecture, rng: np.random.Generator) -> tuple[jax.Array, jax.Array]:
    weights = jnp.asarray(0.3 * architecture.initial(rng))
    return weights, jnp.asarray(architecture.encode(architecture.draw_inputs(rng, SAMPLES)))
