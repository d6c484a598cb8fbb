"""One cell as a set of modes with closed dynamics: dz/dt = z (r - a sum_j a_j z_j), members j of one group sharing a sample.

A group is a singular mode of K G* (feedforward layers, one member), an entry of a vector G (one member; two factors: its symmetric
and antisymmetric parts) or an orthogonal sample with its features as members (Theorem 5). In every case

    loss = rest + sum over groups of (sum_j a_j z_j - y)^2 / 8,   y = r / a,

with a^2 = C the saturation, so that V = r^2 / (8 C) is the share of an unlearnt mode (theory: sections 3 and 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.dynamics import closed
from nqf_pipeline.dynamics.closed_groups import shared_samples
from nqf_pipeline.forms.modes import CoordinateBasis, SingularBasis
from nqf_pipeline.forms.structure import DiagonalStructure
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem
from nqf_pipeline.theory.growth import mean_curvature
from nqf_pipeline.theory.seeds import effective_seeds

Array = Any


@dataclass(frozen=True)
class System:
    """Rates, couplings and seeds of the groups, and how watched strengths and the loss are read from z."""

    rate: Float[Array, "groups members"]
    coupling: Float[Array, "groups members"]
    seed: Float[Array, "groups members"]
    mix: Float[Array, "watched groups members"]
    """Recovered strength of each watched mode per unit of z."""
    rest: float
    """Loss that no group accounts for: the floor, and what lies outside the modes."""
    paired: bool = False
    """Members are the symmetric and antisymmetric parts of a product of two factors."""

    @property
    def saturation(self) -> Float[Array, "groups members"]:
        return self.coupling**2

    @property
    def target(self) -> Float[Array, "groups"]:
        """y, the value that sum_j a_j z_j learns."""
        strongest = np.abs(self.coupling).argmax(-1)[:, None]
        coupling = np.take_along_axis(self.coupling, strongest, -1)
        return np.divide(np.take_along_axis(self.rate, strongest, -1), coupling, out=np.zeros_like(coupling), where=coupling != 0)[:, 0]

    @property
    def leader(self) -> Array:
        """The fastest member of each group: the one that ignites."""
        return self.rate.argmax(-1)

    def led(self, array: Float[Array, "groups members"]) -> Float[Array, "groups"]:
        """An array at the leaders."""
        return np.take_along_axis(array, self.leader[:, None], -1)[:, 0]

    def strength(self, z: Float[Array, "records groups members"]) -> Float[Array, "records watched"]:
        return np.tensordot(z, self.mix, axes=((1, 2), (1, 2)))

    def loss(self, z: Float[Array, "records groups members"]) -> Float[Array, "records"]:
        gap = (self.coupling * z).sum(-1) - self.target
        return self.rest + (gap**2).sum(-1) / 8

    def flow(self, time: Float[Array, "records"], weight_decay: float = 0.0) -> Float[Array, "records groups members"]:
        """z of gradient flow, in closed form (one quadrature a group where members share a sample, or decay breaks a pair's symmetry)."""
        if self.rate.shape[1] == 1:
            return closed.logistic(time[:, None, None], self.rate - 2 * weight_decay, self.saturation, self.seed)
        if self.paired and weight_decay == 0:
            return self._pairs(time)
        return shared_samples(time, self.target, self.coupling, self.seed, weight_decay)

    def _pairs(self, time: Float[Array, "records"]) -> Float[Array, "records groups 2"]:
        rows, first = np.arange(len(self.rate)), self.leader
        z = np.empty((len(time), *self.rate.shape))
        rate, saturation, seed = (array[rows, first] for array in (self.rate, self.saturation, self.seed))
        z[:, rows, first], z[:, rows, 1 - first] = closed.pair(time[:, None], rate, saturation, seed, self.seed[rows, 1 - first])
        return z

    @property
    def owner(self) -> Array:
        """The group that each watched mode mostly consists of."""
        return np.abs(self.mix).max(-1).argmax(-1)


def feedforward_system(architecture: Architecture, problem: Problem, weights: Array) -> System:
    """Singular modes of K G*, each with its own curvature u^T K u; exact modes when K is a multiple of the identity.

    Order parameters outside these modes, of the size of the squared initial weights, are left out.
    """
    moments, watched = problem.moments, problem.modes
    assert isinstance(watched, SingularBasis)
    left, values, right = np.linalg.svd(moments.linear, full_matrices=False)
    right = right.T
    vectors = SingularBasis(left, right, values).vectors(architecture.factors(weights))
    rotation, seed = effective_seeds(vectors, 4 * values, 2 * values / mean_curvature(moments))
    left, right = left @ rotation, right @ rotation
    curvature = _curvature(problem, left, right)
    rate, saturation = 4 * values, 2 * curvature
    total = float(np.sum(moments.linear * moments.optimum))
    rest = max(total - float(np.sum(values**2 / curvature)), 0.0) + float(moments.floor)
    mix = (watched.left.T @ left) * (watched.right.T @ right) / (2 * watched.target[:, None])
    return System(rate[:, None], np.sqrt(saturation)[:, None], seed[:, None], mix[..., None], rest)


def _curvature(problem: Problem, left: Array, right: Array) -> Float[Array, "modes"]:
    """<u v^T, K u v^T> of each mode."""
    if problem.moments.kind == "left":
        return np.einsum("ak,ak->k", left, problem.moments.operator @ left)
    return np.array([np.sum(np.outer(u, v) * problem.moments.act(np.outer(u, v))) for u, v in zip(left.T, right.T, strict=True)])


def entry_system(architecture: Architecture, problem: Problem, weights: Array) -> System:
    """Entries of a vector G with a diagonal K: independent logistic modes, in pairs when there are two factors."""
    moments = problem.moments
    factors = architecture.factors(weights)
    own = moments.operator if moments.kind == "diagonal" else np.diag(moments.operator)
    every = CoordinateBasis(np.arange(len(own)), np.ones(len(own)))
    linear = moments.linear
    read = _watched_entries(problem)
    seed = (every.vectors(factors) ** 2).sum(-1)
    rest = float(moments.floor) + float(np.sum(np.where(own > 0, 0.0, linear * moments.optimum)))
    if architecture.positive:
        return System(8 * linear[:, None], np.sqrt(8 * own)[:, None], seed[:, None], read[..., None], rest)
    other = (every.vectors((factors[0], -factors[1])) ** 2).sum(-1)
    sign = np.array([1.0, -1.0])
    rate, coupling = 4 * linear[:, None] * sign, np.sqrt(2 * own)[:, None] * sign
    return System(rate, coupling, np.stack([seed, other], -1), read[..., None] * sign / 2, rest, paired=True)


def _watched_entries(problem: Problem) -> Float[Array, "watched entries"]:
    """One row per watched entry: strength per unit of G."""
    assert isinstance(problem.modes, CoordinateBasis)
    index, target = problem.modes.index, problem.modes.target
    read = np.zeros((len(index), len(problem.moments.optimum)))
    read[np.arange(len(index)), index] = 1 / target
    return read


def sample_system(architecture: Architecture, problem: Problem, weights: Array) -> System:
    """Orthogonal samples: every entry of G belongs to one sample, samples are the groups (one factor only)."""
    structure = problem.structure
    assert isinstance(structure, DiagonalStructure)
    coefficients, goal = structure.coefficients, (problem.targets - structure.offset)[0]
    samples = coefficients.shape[1]
    members = [np.flatnonzero(column) for column in coefficients.T]
    size = max(len(entries) for entries in members)
    # Samples with fewer features than the largest are filled up with empty ones.
    entry = np.array([np.pad(entries, (0, size - len(entries)), constant_values=-1) for entries in members])
    real = entry >= 0
    coupling = np.where(real, np.take_along_axis(coefficients.T, np.where(real, entry, 0), 1), 0) * np.sqrt(8 / samples)
    rate = coupling * (goal * np.sqrt(8 / samples))[:, None]
    seed = np.where(real, (architecture.factors(weights)[0] ** 2).sum(-1)[entry], 0)
    mix = np.where(real, _watched_entries(problem)[:, entry], 0)
    empty = ~real.any(1)
    return System(rate, coupling, seed, mix, float(np.sum(goal[empty] ** 2) / samples))


def is_orthogonal_samples(problem: Problem) -> bool:
    """Whether no entry of G is read by two samples (A_mu A_nu = 0)."""
    structure = problem.structure
    return isinstance(structure, DiagonalStructure) and bool(np.all((structure.coefficients != 0).sum(1) <= 1))
