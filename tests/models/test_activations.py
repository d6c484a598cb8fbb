"""Slopes at zero, on which every closed-form structure rests."""

from __future__ import annotations

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nqf_pipeline.models.activations import Activation, activate, is_smooth, slope

SMOOTH = [name for name in get_args(Activation) if is_smooth(name)]


@pytest.mark.parametrize("name", get_args(Activation))
def test_vanishes_at_zero(name: Activation) -> None:
    assert activate(name, jnp.zeros(1))[0] == 0


@pytest.mark.parametrize("name", SMOOTH)
def test_slope_is_the_derivative(name: Activation) -> None:
    assert jax.grad(lambda v: activate(name, v))(0.0) == pytest.approx(slope(name), rel=1e-15)


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_ones_have_one_second_derivative_at_zero(name: Activation) -> None:
    second = jax.grad(jax.grad(lambda v: activate(name, v)))
    assert second(-1e-9) == pytest.approx(float(second(1e-9)), abs=1e-7)


@pytest.mark.parametrize("name", ["softsign", "relu"])
def test_others_do_not(name: Activation) -> None:
    """(phi(h) - slope h) / h^2 tends to one number for a smooth phi; here it jumps at 0 or diverges."""
    below, above = ((activate(name, jnp.float64(h)) - slope(name) * h) / h**2 for h in (-1e-4, 1e-4))
    assert abs(below - above) > 1 or abs(above) > 1e3


def test_single_precision_tanh_is_accurate() -> None:
    values = np.linspace(-12, 12, 200_001)
    np.testing.assert_allclose(activate("tanh", jnp.asarray(values, dtype=jnp.float32)), np.tanh(values), atol=4e-7, rtol=4e-7)
