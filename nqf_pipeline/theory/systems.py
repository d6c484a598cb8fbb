"""One cell as a set of modes with closed dynamics: dz/dt = z (r - a sum_j a_j z_j), members j of one group sharing a sample.

A group is a mode of K G* (feedforward layers and isotropic samples, one member), an entry of a commuting problem (one member; two factors:
its symmetric and antisymmetric parts), the entries that share a sample (Theorems 4 and 5), or a projector (Theorem 16). In every case

    loss = rest + sum over groups of (sum_j a_j z_j - y)^2 / 8,   y = r / a,

with a^2 = C the saturation, so that V = r^2 / (8 C) is the share of an unlearnt mode (theory: sections 3 and 5).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.dynamics import closed, lotka_volterra
from nqf_pipeline.dynamics.closed_groups import shared_samples
from nqf_pipeline.dynamics.closed_matrix import Projectors
from nqf_pipeline.forms.modes import SingularBasis
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem
from nqf_pipeline.theory.commuting import Entries, entries_of, groups_of
from nqf_pipeline.theory.growth import mean_curvature
from nqf_pipeline.theory.seeds import effective_seeds

Array = Any
NEGLIGIBLE = 1e-12
"""Readers of off-diagonal elements below this are rounding."""


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
    slaved: Float[Array, "watched modes modes"] | None = None
    """Strength per sqrt(z_i z_j) of different modes, groups and members in one row (Proposition 7); None where modes are watched singly."""

    @property
    def saturation(self) -> Float[Array, "groups members"]:
        return self.coupling**2

    @cached_property
    def target(self) -> Float[Array, "groups"]:
        """y, the value that sum_j a_j z_j learns."""
        strongest = np.abs(self.coupling).argmax(-1)[:, None]
        coupling = np.take_along_axis(self.coupling, strongest, -1)
        return np.divide(np.take_along_axis(self.rate, strongest, -1), coupling, out=np.zeros_like(coupling), where=coupling != 0)[:, 0]

    @cached_property
    def leader(self) -> Array:
        """The fastest member of each group: the one that ignites."""
        return self.rate.argmax(-1)

    def led(self, array: Float[Array, "groups members"]) -> Float[Array, "groups"]:
        """An array at the leaders."""
        return array[np.arange(len(array)), self.leader]

    def strength(self, z: Float[Array, "records groups members"]) -> Float[Array, "records watched"]:
        single = np.tensordot(z, self.mix, axes=((1, 2), (1, 2)))
        if self.slaved is None:
            return single
        amplitude = np.sqrt(z).reshape(len(z), -1)
        return single + np.einsum("ri,wij,rj->rw", amplitude, self.slaved, amplitude, optimize=True)

    def loss(self, z: Float[Array, "records groups members"]) -> Float[Array, "records"]:
        gap = (self.coupling * z).sum(-1) - self.target
        with np.errstate(over="ignore"):  # steps that diverge have an infinite loss
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

    @cached_property
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


def symmetric_system(problem: Problem, factor: Float[Array, "rows degrees"], curvature: float) -> System:
    """Isotropic samples: eigenmodes of K G*, with rate 8 and saturation 8 c, from effective seeds (Theorem 7 for small seeds)."""
    moments, watched = problem.moments, problem.modes
    assert isinstance(watched, SingularBasis)
    values, axes = np.linalg.eigh((moments.linear + moments.linear.T) / 2)
    values, axes = values[::-1], axes[:, ::-1]
    rotation, seed = effective_seeds(axes.T @ factor, 8 * values, values / curvature)
    axes = axes @ rotation
    mix = (watched.left.T @ axes) * (watched.right.T @ axes) / watched.target[:, None]
    total = float(np.sum(moments.linear * moments.optimum))
    rest = max(total - float(np.sum(values**2)) / curvature, 0.0) + float(moments.floor)
    coupling = np.full((len(values), 1), np.sqrt(8 * curvature))
    return System(8 * values[:, None], coupling, seed[:, None], mix[..., None], rest)


def projector_system(problem: Problem, found: Projectors) -> System:
    """The projectors of Theorem 16, one group for each of their dimensions."""
    moments, watched = problem.moments, problem.modes
    assert isinstance(watched, SingularBasis)
    weight = np.rint(np.einsum("aii->a", found.projector)).astype(int)
    rate, saturation, seed = (np.repeat(values, weight)[:, None] for values in (found.rate, np.maximum(found.saturation, 0), found.seed))
    mix = np.einsum("iw,aij,jw->wa", watched.left, found.projector, watched.right) / weight / watched.target[:, None]
    safe = np.where(saturation > 0, saturation, np.inf)
    rest = float(moments.floor) + float(np.sum(moments.linear * moments.optimum)) - float(np.sum(rate**2 / safe)) / 8
    return System(rate, np.sqrt(saturation), seed, np.repeat(mix, weight, axis=1)[..., None], max(rest, 0.0))


def entry_system(architecture: Architecture, problem: Problem, weights: Array) -> System:
    """Entries of a commuting problem with a diagonal K: independent logistic modes, in pairs when there are two factors (Theorem 6)."""
    entries = _entries(architecture, problem)
    own = entries.own
    count = np.arange(len(own))
    linear, root = entries.linear, np.sqrt(np.maximum(own, 0))
    if architecture.positive:
        rate, coupling = 8 * linear[:, None], np.sqrt(8) * root[:, None]
    else:
        rate, coupling = (np.stack([side, -side], -1) for side in (4 * linear, np.sqrt(2) * root))
    members = count[:, None] if architecture.positive else np.stack([count, count], -1)
    rest = max(entries.rest, 0.0)
    return _assembled(architecture, problem, weights, entries, _Layout(members, rate, coupling, rest, paired=not architecture.positive))


def group_system(architecture: Architecture, problem: Problem, weights: Array) -> System:
    """Entries that share a sample as members of one group, one scalar equation each (Theorems 4 and 5); two factors: twice the members."""
    entries = _entries(architecture, problem)
    groups = groups_of(entries)
    lists = [np.flatnonzero(groups.label == group) for group in range(groups.count)]
    # What no sample sees keeps its weights, and shows where modes are watched in another basis.
    lists += [np.array([unseen]) for unseen in np.flatnonzero(groups.label < 0)]
    size = max(len(members) for members in lists)
    # Groups smaller than the largest are filled up with empty members.
    entry = np.array([np.pad(members, (0, size - len(members)), constant_values=-1) for members in lists])
    share = np.where(entry >= 0, groups.coupling[entry], 0.0)
    per_pair, per_drive = (8.0, 8.0) if architecture.positive else (2.0, 4.0)
    drive = (share * entries.linear[entry]).sum(-1, keepdims=True)
    square = (share**2).sum(-1, keepdims=True)
    coupling = np.sqrt(per_pair) * share
    rate = per_drive * share * drive / np.where(square > 0, square, 1.0)
    rest = max(float(entries.rest), 0.0)
    if not architecture.positive:
        entry, rate, coupling = (np.concatenate([side, sign * side], -1) for side, sign in ((entry, 1), (rate, -1), (coupling, -1)))
    return _assembled(architecture, problem, weights, entries, _Layout(entry, rate, coupling, rest))


def coupled_system(architecture: Architecture, problem: Problem, weights: Array) -> CoupledSystem:
    """Entries of a commuting problem that interact: Lotka-Volterra, one group a mode; two factors: symmetric parts, then antisymmetric."""
    entries = _entries(architecture, problem)
    count = np.arange(len(entries.linear))
    if architecture.positive:
        member, rate, interaction = count, 8 * entries.linear, 8 * entries.operator
    else:
        sign = np.repeat([1.0, -1.0], len(count))
        member, rate = np.tile(count, 2), 4 * sign * np.tile(entries.linear, 2)
        interaction = 2 * np.outer(sign, sign) * np.tile(entries.operator, (2, 2))
    layout = _Layout(member[:, None], rate[:, None], np.sqrt(np.maximum(np.diag(interaction), 0))[:, None], max(entries.rest, 0.0))
    plain = _assembled(architecture, problem, weights, entries, layout)
    return CoupledSystem(plain.rate, plain.coupling, plain.seed, plain.mix, plain.rest, slaved=plain.slaved, interaction=interaction)


@dataclass(frozen=True)
class CoupledSystem(System):
    """Modes that all act on each other, dz_k/dt = z_k (r_k - sum_j C_kj z_j)."""

    interaction: Float[Array, "groups groups"] = field(default_factory=lambda: np.zeros((0, 0)))
    """C."""

    def loss(self, z: Float[Array, "records groups members"]) -> Float[Array, "records"]:
        gap = z[..., 0] - np.linalg.lstsq(self.interaction, self.rate[:, 0], rcond=1e-12)[0]
        return self.rest + np.einsum("ri,ij,rj->r", gap, self.interaction, gap, optimize=True) / 8

    def flow(self, time: Float[Array, "records"], weight_decay: float = 0.0) -> Float[Array, "records groups members"]:
        return lotka_volterra.flow(time, self.rate[:, 0] - 2 * weight_decay, self.interaction, self.seed[:, 0])[..., None]


def _entries(architecture: Architecture, problem: Problem) -> Entries:
    found = entries_of(architecture, problem)
    assert found is not None  # the regime found them
    return found


class _Layout(NamedTuple):
    """Which entry each member is, -1 for none, and the law it follows."""

    entry: Int[Array, "groups members"]
    rate: Float[Array, "groups members"]
    coupling: Float[Array, "groups members"]
    rest: float
    paired: bool = False


def _assembled(architecture: Architecture, problem: Problem, weights: Array, entries: Entries, layout: _Layout) -> System:
    """Seeds and readers of the members: z of an entry's row, or of the two parts of its pair of rows."""
    rows = entries.rows(architecture, weights)
    entry, real = layout.entry, layout.entry >= 0
    if architecture.positive:
        sign, vectors = np.ones(entry.shape), np.where(real[..., None], rows[0][entry], 0.0)
        scale = 1.0
    else:
        sign = _signs(entry)
        vectors = np.where(real[..., None], rows[0][entry] + sign[..., None] * rows[1][entry], 0.0) / np.sqrt(2)
        scale = 0.5
    left, right = entries.watched(problem)
    mix = np.where(real, scale * sign * (left[:, entry] * right[:, entry]), 0.0)
    seed = (vectors**2).sum(-1)
    slaved = (
        None if entries.axes is None else _slaved(left[:, entry.ravel()], right[:, entry.ravel()] * (scale * sign.ravel()), vectors, entry)
    )
    return System(layout.rate, layout.coupling, seed, mix, layout.rest, layout.paired, slaved)


def _signs(entry: Int[Array, "groups members"]) -> Float[Array, "groups members"]:
    """+1 where an entry appears first (symmetric part), -1 where it appears again."""
    flat = entry.ravel(order="F")
    first = np.zeros(len(flat), bool)
    first[np.unique(flat, return_index=True)[1]] = True
    return np.where(first | (flat < 0), 1.0, -1.0).reshape(entry.shape, order="F")


def _slaved(left: Array, right: Array, vectors: Array, entry: Array) -> Float[Array, "watched modes modes"] | None:
    """Readers of products of different entries; None where the watched modes are the common basis itself.

    Amplitudes keep their sign in gradient flow; a step so long that one crosses zero (momentum, dying modes) is not followed here.
    """
    flat = vectors.reshape(-1, vectors.shape[-1])
    size = np.linalg.norm(flat, axis=-1, keepdims=True)
    unit = flat / np.where(size > 0, size, 1.0)
    apart = entry.ravel()[:, None] != entry.ravel()
    readers = np.einsum("wi,wj,ij->wij", left, right, np.where(apart, unit @ unit.T, 0.0), optimize=True)
    return readers if np.abs(readers).max(initial=0.0) > NEGLIGIBLE else None
