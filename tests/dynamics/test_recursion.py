"""The exact recursion of modes against a plain loop, gradient flow and the measured laws of step size and momentum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nqf_pipeline.dynamics import recursion as module
from nqf_pipeline.dynamics.closed import logistic
from nqf_pipeline.dynamics.recursion import recursion

Array = Any


def plain(rate: Array, coupling: Array, seed: Array, eta: float, beta: float, decay: float, steps: Array) -> Array:
    """One cell, step by step in NumPy: arrays (groups, members)."""
    w, m = np.sqrt(seed), np.zeros_like(seed)
    found = []
    for step in range(int(steps[-1]) + 1):
        if step in steps:
            found.append(w**2)
        m = beta * m - decay * w + w * (rate - coupling * (coupling * w**2).sum(-1, keepdims=True)) / 2
        w = w + eta * m
    return np.array(found)


def ensemble(rng: np.random.Generator, cells: int, groups: int, members: int) -> tuple[Array, Array, Array]:
    coupling = rng.uniform(0.5, 1.5, (cells, groups, members)) * rng.choice([-1.0, 1.0], (cells, groups, members))
    rate = coupling * rng.uniform(-1, 1, (cells, groups, 1))
    return rate, coupling, 10.0 ** rng.uniform(-8, -1, (cells, groups, members))


@pytest.mark.parametrize("members", [1, 2])
def test_recursion_is_the_plain_loop(rng: np.random.Generator, members: int) -> None:
    """Cells with different optimizers and step grids run together without touching each other."""
    rate, coupling, seed = ensemble(rng, 5, 3, members)
    eta, beta, decay = np.array([0.3, 0.1, 0.05, 0.2, 0.01]), np.array([0.0, 0.9, 0.5, 0.0, 0.99]), np.array([0.0, 0.0, 0.02, 0.05, 0.0])
    steps = np.array([[0, 1, 5, 30], [0, 2, 3, 200], [0, 10, 11, 12], [1, 2, 90, 91], [0, 100, 101, 170]])
    found = recursion(rate, coupling, seed, eta, beta, decay, steps)
    for cell in range(5):
        expected = plain(rate[cell], coupling[cell], seed[cell], eta[cell], beta[cell], decay[cell], steps[cell])
        np.testing.assert_allclose(found[cell], expected, rtol=1e-11)


def test_chunks_leave_no_cell_out(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    rate, coupling, seed = ensemble(rng, 7, 4, 1)
    steps = np.array([[0, 3 + cell, 20 - cell] for cell in range(7)])
    arguments = (np.full(7, 0.2), np.zeros(7), np.zeros(7), steps)
    together = recursion(rate, coupling, seed, *arguments)
    monkeypatch.setattr(module, "CHUNK", 8)
    np.testing.assert_allclose(recursion(rate, coupling, seed, *arguments), together, rtol=1e-13)


def one_mode(rate: float, eta: float, beta: float, steps: int, seed: float = 1e-6) -> Array:
    """z at every step of one mode with capacity 1."""
    return recursion(
        np.full((1, 1, 1), rate), np.full((1, 1, 1), rate**0.5), np.full((1, 1, 1), seed),
        np.array([eta]), np.array([beta]), np.zeros(1), np.arange(steps + 1)[None],
    )[0, :, 0, 0]  # fmt: skip


def half_time(z: Array) -> float:
    after = int(np.argmax(z >= 0.5))
    logit = np.log(z[after - 1 : after + 1]) - np.log1p(-z[after - 1 : after + 1])
    return after - 1 + (0 - logit[0]) / (logit[1] - logit[0])


def test_small_steps_approach_gradient_flow_at_first_order() -> None:
    def error(eta: float) -> float:
        z = one_mode(1.0, eta, 0.0, int(16 / eta))
        return float(np.abs(z - logistic(eta * np.arange(len(z)), np.array(1.0), np.array(1.0), np.array(1e-6))).max())

    assert error(0.01) / error(0.005) == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("step", [0.02, 0.1, 0.5])
def test_gradient_descent_is_late_by_a_quarter_of_its_step(step: float) -> None:
    """Half-time over the flow's is 1 + eta r / 4, to second order in eta r (with a seed so small that growth takes most of the time)."""
    seed = 1e-60
    flow = np.log(1 / seed - 1)
    late = half_time(one_mode(1.0, step, 0.0, int(1.2 * flow / step), seed)) * step / flow
    assert late == pytest.approx(1 + step / 4, abs=step**2 / 20 + 1e-4)


@pytest.mark.parametrize(("rate", "speed_up"), [(1.0, 7.4), (0.01, 9.95)])
def test_momentum_speeds_modes_by_the_root_of_its_recursion(rate: float, speed_up: float) -> None:
    """Momentum 0.9 at eta = 0.01: growth of ln z per step over that of plain descent, measured while the mode is small."""
    eta = 0.01
    slow, fast = (one_mode(rate, eta, beta, 1200, seed=1e-30) for beta in (0.0, 0.9))
    growth = [np.log(z[1000] / z[300]) / 700 if rate < 1 else np.log(z[400] / z[100]) / 300 for z in (slow, fast)]
    assert growth[1] / growth[0] == pytest.approx(speed_up, rel=0.005)


def test_the_result_is_double_precision_whatever_the_caller_uses(rng: np.random.Generator) -> None:
    import jax

    arrays = ensemble(rng, 2, 3, 1)
    rest = (np.full(2, 0.1), np.zeros(2), np.zeros(2), np.array([[0, 50], [0, 40]]))
    with jax.enable_x64(False):
        single = recursion(*arrays, *rest)
    assert single.dtype == np.float64
    np.testing.assert_array_equal(single, recursion(*arrays, *rest))
