"""Fourier target: orthonormal basis on the grid, rates and capacities of theory section 5."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqf_pipeline.models import MLP, FourierMLP
from nqf_pipeline.tasks import Fourier, RawFourier, TaskError
from nqf_pipeline.tasks.fourier import fourier_basis


@given(grid=st.integers(3, 90), data=st.data())
def test_basis_is_orthonormal_on_the_grid(grid: int, data: st.DataObject) -> None:
    basis = fourier_basis(data.draw(st.integers(1, grid - 1)), grid)
    np.testing.assert_allclose(basis @ basis.T / grid, np.eye(len(basis)), atol=1e-12)
    np.testing.assert_allclose(basis.mean(1), 0, atol=1e-12)


@given(beta=st.floats(0.55, 3), theta=st.floats(0, 2))
def test_rates_and_capacities(beta: float, theta: float) -> None:
    network = FourierMLP(width=16)
    drawn = Fourier(beta=beta, theta=theta, grid=64).problem(network, np.random.default_rng(0))
    number = np.arange(1.0, 17)
    strength, coefficient = number**-theta, number**-beta
    assert drawn.moments.kind == "diagonal"
    np.testing.assert_allclose(4 * drawn.moments.linear, 4 * strength * coefficient / 4, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(2 * drawn.moments.operator, 2 * strength**2 / 16, rtol=1e-9)
    np.testing.assert_allclose(drawn.moments.optimum, coefficient * 4 / strength, rtol=1e-9)
    assert drawn.moments.floor == pytest.approx(0, abs=1e-13)
    assert drawn.moments.excess(0 * number) == pytest.approx((coefficient**2).sum())


def test_strengths_reach_one_and_data_are_shared() -> None:
    drawn = Fourier(watched=10).problem(FourierMLP(), np.random.default_rng(0))
    np.testing.assert_allclose(drawn.modes.strength(drawn.moments.optimum), np.ones(10))
    assert drawn.modes.number[-1] == 64
    assert drawn.inputs.shape == (64, 256)
    assert Fourier.shared_data


def test_misfits_are_refused() -> None:
    with pytest.raises(TaskError, match="needs architecture fourier_mlp, not mlp"):
        Fourier().check(MLP())
    with pytest.raises(TaskError, match="raise grid above 64 or lower width"):
        Fourier(grid=64).check(FourierMLP(width=64))
    Fourier(grid=65).check(FourierMLP(width=64))


def test_the_raw_input_has_the_same_target_and_one_linear_mode() -> None:
    raw = RawFourier(features=64).problem(MLP(inputs=1, outputs=1), np.random.default_rng(0))
    np.testing.assert_array_equal(raw.targets, Fourier(theta=0.0).problem(FourierMLP(), np.random.default_rng(0)).targets)
    np.testing.assert_allclose(raw.inputs[0], np.arange(256) / 256)
    assert len(raw.modes.target) == 1
    slope = (raw.inputs[0] @ raw.targets[0]) / (raw.inputs[0] @ raw.inputs[0])
    assert raw.moments.optimum.item() == pytest.approx(slope)
    with pytest.raises(TaskError, match="kind: mlp, inputs: 1, outputs: 1"):
        RawFourier().check(MLP())
    with pytest.raises(TaskError, match="raise grid"):
        RawFourier(grid=64).check(MLP(inputs=1, outputs=1))
