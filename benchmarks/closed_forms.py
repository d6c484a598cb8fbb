"""Every closed form against the flow of the weights themselves and against gradient descent, over random cases: the worst errors.

`python -m benchmarks.closed_forms [--draws 100]` prints one JSON document: for each theorem the worst relative error of an order parameter
against an ODE solver in W (DOP853 at 1e-13; `flow`), against gradient descent in W extrapolated to step size zero (`descent`, limited by
the extrapolation), and of the exact recursion against gradient descent in W (`discrete`), where a scalar recursion exists.

Conventions: L = 1/m sum (Tr[W W^T A] - y)^2, flow time, eigenvalues and targets of either sign, M0 of any rank, seeds below and above
capacity. W is taken in the common eigenbasis where there is one, so that decaying modes keep their digits in the references, too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from nqf_pipeline.dynamics.closed import logistic
from nqf_pipeline.dynamics.closed_groups import deep_linear_mode, proportional_samples, shared_samples
from nqf_pipeline.dynamics.closed_matrix import balanced_product, isotropic_samples, projectors
from nqf_pipeline.dynamics.recursion import recursion

Array = Any
TIMES = 7
STEPS = 2000
"""Gradient descent steps of the coarsest of three runs over the whole time."""


@dataclass(frozen=True)
class Case:
    """One random problem with its closed solution."""

    pull: Callable[[Array], Array]
    """W to dW/dt."""
    weights: Array
    time: Array
    read: Callable[[Array], Array]
    """W to the order parameters that the solution gives."""
    solution: Callable[[Array], Array]
    """Times to order parameters, times first."""
    scalar: tuple[Array, Array] | None = None
    """(rate, coupling) of groups and members for the exact recursion, in the order of `read`."""


def haar(size: int, rng: np.random.Generator) -> Array:
    """A random rotation."""
    return np.linalg.qr(rng.standard_normal((size, size)))[0]


def sensing(matrices: Array, targets: Array) -> Callable[[Array], Array]:
    """W to -dL/dW for A (samples, size, size)."""
    flat = matrices.reshape(len(matrices), -1)

    def pull(weights: Array) -> Array:
        residual = flat @ (weights @ weights.T).ravel() - targets
        return -4 / len(targets) * np.tensordot(residual, matrices, 1) @ weights

    return pull


def start(size: int, rng: np.random.Generator) -> Array:
    """Gaussian weights: sigma from 1e-6 to 2, any rank."""
    return 10 ** rng.uniform(-6, 0.3) * rng.standard_normal((size, rng.integers(1, size + 3)))


def times(fastest: float, weights: Array, rng: np.random.Generator) -> Array:
    """Long enough for the fastest mode to saturate."""
    seed = min(float(np.mean(weights**2)), 0.5)
    return np.linspace(0, rng.uniform(1, 2) * (5 - np.log(seed)) / max(fastest, 1e-2), TIMES)


def diagonal(basis: Array) -> Callable[[Array], Array]:
    """W to z_k = (P^T M P)_kk."""
    return lambda weights: ((basis.T @ weights) ** 2).sum(-1)


def proportional(rng: np.random.Generator) -> Case:
    """Theorem 4: A_mu = c_mu A."""
    size, samples = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    basis, eigenvalue = np.eye(size), rng.uniform(-1, 1, size)
    scale, targets = rng.uniform(-1, 1, samples), rng.uniform(-1, 1, samples)
    weights = start(size, rng)
    alpha, beta = 4 * float(np.mean(scale**2)), 4 * float(np.mean(scale * targets))
    pull = sensing(scale[:, None, None] * ((basis * eigenvalue) @ basis.T), targets)
    seed = diagonal(basis)(weights)
    time = times(2 * abs(beta) * np.abs(eigenvalue).max(), weights, rng)
    root = np.sqrt(2 * alpha)
    scalar = (2 * beta * eigenvalue[None], root * eigenvalue[None])
    return Case(pull, weights, time, diagonal(basis), lambda t: proportional_samples(t, alpha, beta, eigenvalue, seed), scalar)


def orthogonal_samples(rng: np.random.Generator) -> Case:
    """Theorem 5: A_mu A_nu = 0."""
    samples, members = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    size = samples * members
    basis, eigenvalue, targets = np.eye(size), rng.uniform(-1, 1, (samples, members)), rng.uniform(-1, 1, samples)
    axes = basis.reshape(size, samples, members)
    pull = sensing(np.einsum("ask,sk,bsk->sab", axes, eigenvalue, axes), targets)
    weights = start(size, rng)
    root = np.sqrt(8 / samples)
    coupling, goal = root * eigenvalue, root * targets
    seed = diagonal(basis)(weights).reshape(samples, members)
    time = times(np.abs(goal[:, None] * coupling).max(), weights, rng)
    solution = lambda t: shared_samples(t, goal, coupling, seed).reshape(len(t), -1)  # noqa: E731
    return Case(pull, weights, time, diagonal(basis), solution, (goal[:, None] * coupling, coupling))


def orthogonal_features(rng: np.random.Generator) -> Case:
    """Theorem 6: C_kj = 0 for k != j, several samples a feature."""
    size = int(rng.integers(1, 6))
    basis, directions, scale = np.eye(size), haar(size, rng), rng.uniform(0.2, 1, size)
    eigenvalue, targets = directions * scale, rng.uniform(-1, 1, size)
    pull = sensing(np.einsum("ak,mk,bk->mab", basis, eigenvalue, basis), targets)
    weights = start(size, rng)
    rate, saturation = 8 / size * eigenvalue.T @ targets, 8 / size * scale**2
    seed = diagonal(basis)(weights)
    solution = lambda t: logistic(t[:, None], rate, saturation, seed)  # noqa: E731
    return Case(
        pull, weights, times(np.abs(rate).max(), weights, rng), diagonal(basis), solution, (rate[:, None], np.sqrt(saturation)[:, None])
    )


def isotropic(rng: np.random.Generator) -> Case:
    """Theorem 7: an orthonormal basis of symmetric matrices as samples; Y and M0 singular in half of the cases."""
    size = int(rng.integers(1, 6))
    matrices = symmetric_basis(size)
    drive = (axes := haar(size, rng)) @ np.diag(rng.uniform(-1, 1, size) * (rng.random(size) > 0.25)) @ axes.T
    samples = len(matrices)
    curvature = rng.uniform(0.1, 1)
    matrices = matrices * np.sqrt(curvature * samples)
    targets = np.tensordot(matrices, drive, 2) / (4 * curvature)
    weights = start(size, rng)
    factor = lambda t: isotropic_samples(t, drive, curvature, weights)  # noqa: E731
    solution = lambda t: (f := factor(t)) @ np.swapaxes(f, 1, 2)  # noqa: E731
    return Case(sensing(matrices, targets), weights, times(2 * np.abs(drive).max(), weights, rng), lambda w: w @ w.T, solution)


def general(rng: np.random.Generator) -> Case:
    """Theorem 16: off-diagonal features beside diagonal ones, of another weight, and a start along the projectors."""
    size = int(rng.integers(2, 6))
    axes, value = haar(size, rng), rng.uniform(-1, 1, size)
    basis = symmetric_basis(size)
    inside = np.abs(np.einsum("mii->mi", basis)).sum(1) > 0.5
    weight = np.where(inside, rng.uniform(0.5, 1), rng.uniform(0.1, 2))
    matrices = weight[:, None, None] * (axes @ basis @ axes.T) * np.sqrt(len(basis))
    targets = np.tensordot(matrices, axes @ np.diag(value) @ axes.T, 2)
    weights = 10 ** rng.uniform(-5, 0) * axes * np.where(rng.random(size) > 0.2, 1.0, 2.0)
    flat = matrices.reshape(len(matrices), -1)
    act = lambda m: 4 / len(flat) * (flat.T @ (flat @ m.ravel())).reshape(size, size)  # noqa: E731
    drive = 4 / len(flat) * (flat.T @ targets).reshape(size, size)
    found = projectors(drive, act, weights @ weights.T)
    assert found.defect < 1e-9
    return Case(
        sensing(matrices, targets),
        weights,
        times(np.abs(found.rate).max(), weights, rng),
        lambda w: w @ w.T,
        lambda t: found.order(found.flow(t)),
        None,
    )


def balanced(rng: np.random.Generator) -> Case:
    """Corollary 4 / Saxe et al.: two linear layers, white inputs, a balanced start that is not aligned."""
    rows, columns, degrees = (int(rng.integers(1, 5)) for _ in range(3))
    rank = min(rows, columns, degrees)
    inner = haar(degrees, rng)[:, :rank] * 10 ** rng.uniform(-3, 0, rank)
    first, second = haar(rows, rng)[:, :rank] @ inner.T, haar(columns, rng)[:, :rank] @ inner.T
    correlation, curvature = rng.uniform(-1, 1, (rows, columns)), rng.uniform(0.3, 1)

    def pull(weights: Array) -> Array:
        left, right = weights[:rows], weights[rows:]
        force = 2 * (correlation - curvature * left @ right.T)
        return np.concatenate([force @ right, force.T @ left])

    def solution(t: Array) -> Array:
        left, right = balanced_product(t, correlation, curvature, (first, second))
        return left @ np.swapaxes(right, 1, 2)

    weights = np.concatenate([first, second])
    fastest = 4 * float(np.linalg.norm(correlation, 2))
    return Case(pull, weights, times(fastest, weights, rng), lambda w: w[:rows] @ w[rows:].T, solution)


def deep_linear(rng: np.random.Generator) -> Case:
    """Saxe et al. at depth 2 to 5: one weight a layer, all equal at the start."""
    depth, drive, curvature = int(rng.integers(2, 6)), rng.uniform(0.2, 1), rng.uniform(0.3, 1)
    seed = 10 ** rng.uniform(-4, 0.5)
    weights = np.full((depth, 1), seed ** (1 / depth))

    def pull(w: Array) -> Array:
        return 2 * (drive - curvature * np.prod(w)) * np.prod(w) / w

    time = np.linspace(0, rng.uniform(0.5, 3) * seed ** (2 / depth - 1) / drive, TIMES)
    solution = lambda t: deep_linear_mode(t, np.array([drive]), np.array([curvature]), np.array([seed]), depth)  # noqa: E731
    return Case(pull, weights, time, lambda w: np.prod(w, keepdims=True)[0], solution)


def symmetric_basis(size: int) -> Array:
    """An orthonormal basis of the symmetric matrices, (size (size + 1) / 2, size, size)."""
    i, j = np.triu_indices(size)
    basis = np.zeros((len(i), size, size))
    basis[np.arange(len(i)), i, j] = basis[np.arange(len(i)), j, i] = np.where(i == j, 1.0, np.sqrt(0.5))
    return basis


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "proportional samples (Theorem 4)": proportional,
    "orthogonal samples (Theorem 5)": orthogonal_samples,
    "orthogonal features (Theorem 6)": orthogonal_features,
    "isotropic samples (Theorem 7)": isotropic,
    "projector form (Theorem 16)": general,
    "balanced linear layers (Corollary 4)": balanced,
    "deep linear mode": deep_linear,
}


def flow_error(case: Case) -> float:
    """Worst relative error against the flow of W: of each z, or of a matrix in its norm. Its own error stays below 1e-11 at this step."""
    shape = case.weights.shape
    solved = solve_ivp(
        lambda _, w: case.pull(w.reshape(shape)).ravel(),
        (0, case.time[-1]),
        case.weights.ravel(),
        "DOP853",
        case.time,
        rtol=1e-13,
        atol=1e-300,
        max_step=float(case.time[-1]) / 800,
    )
    return deviation(case.solution(case.time), np.array([case.read(w.reshape(shape)) for w in solved.y.T]))


def descent_error(case: Case) -> float:
    """Against gradient descent in W at three step sizes, extrapolated to zero."""
    runs = [np.array([case.read(w) for w in descend(case, STEPS * k)]) for k in (1, 2, 4)]
    once = [2 * finer - coarse for coarse, finer in pairwise(runs)]
    return deviation(case.solution(case.time), (4 * once[1] - once[0]) / 3)


def discrete_error(case: Case) -> float | None:
    """The exact recursion against gradient descent in W, step for step."""
    if case.scalar is None:
        return None
    rate, coupling = case.scalar
    eta = 0.5 / max(np.abs(rate).max(), (coupling**2).max() * float(np.max(case.read(case.weights))), 1e-9)
    count = 200
    w = case.weights
    for _ in range(count):
        w = w + eta * case.pull(w)
    one = np.ones(1)
    seed = case.read(case.weights).reshape(rate.shape)
    found = recursion(rate[None], coupling[None], seed[None], eta * one, 0 * one, 0 * one, np.array([[0, count]]))
    return deviation(found[0, 1:].reshape(1, -1), case.read(w)[None])


def descend(case: Case, steps: int) -> list[Array]:
    """Weights at the case's (equidistant) times."""
    every = -(-steps // (TIMES - 1))
    eta = float(case.time[-1]) / (every * (TIMES - 1))
    w, found = case.weights, [case.weights]
    for step in range(1, every * (TIMES - 1) + 1):
        w = w + eta * case.pull(w)
        if step % every == 0:
            found.append(w)
    return found


def deviation(found: Array, truth: Array) -> float:
    """Largest relative error: entry by entry of a vector, in the norm for a matrix."""
    if truth.ndim == 2:
        return float(np.max(np.abs(found - truth) / np.maximum(np.abs(truth), 1e-280)))
    axes = tuple(range(1, truth.ndim))
    return float(np.max(np.linalg.norm(found - truth, axis=axes) / np.linalg.norm(truth, axis=axes)))


def table(draws: int) -> list[dict[str, Any]]:
    """One row a theorem: draws and worst errors."""
    rows = []
    for name, make in CASES.items():
        cases = [make(np.random.default_rng([draw, 7])) for draw in range(draws)]
        discrete = [e for case in cases if (e := discrete_error(case)) is not None]
        errors = {"flow": max(map(flow_error, cases)), "descent": max(map(descent_error, cases[: max(draws // 5, 1)]))}
        rows.append({"form": name, "draws": draws, **errors, "discrete": max(discrete) if discrete else None})
    return rows


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100, help="random cases of each form")
    print(json.dumps(table(parser.parse_args().draws), indent=1))


if __name__ == "__main__":
    main()
