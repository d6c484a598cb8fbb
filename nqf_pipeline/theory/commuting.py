"""Structures that commute: a basis in which G stays diagonal, and the problem as if G were a vector (Assumption 1).

If all A(x) share an eigenbasis P, every row of P^T W is only ever rescaled: z_k = (P^T M P)_kk obeys a closed equation whatever the
start, and off-diagonal elements are slaved to it, M_kl = M_kl(0) sqrt(z_k z_l / (z_k(0) z_l(0))) (Proposition 7). The range of
K = mean A* A is the span of the A(x), so it knows the basis: what it returns for a random matrix is a random combination of all A(x),
whose eigenvectors (two factors: singular vectors) are the common ones. Where all A(x) are degenerate any basis serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components

from nqf_pipeline.forms.modes import CoordinateBasis, SampleBasis, TargetBasis
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem

Array = Any
SQUARED_ROUNDING = 1e-6
"""Differences of squares resolve no less; the off-diagonal share of a random combination does."""
HOPELESS = 0.5
"""Off-diagonal share of one random combination beyond which the whole of K is not looked at."""
LINKS = (1e-9, 1e-3, 0.03, 0.3)
"""Cosines above which two entries count as reading the same sample; the partition with the smallest defect is taken."""
DEAD = 1e-12
"""Entries whose K_kk is below this share of the largest are seen by no sample."""


@dataclass(frozen=True, eq=False)
class Entries:
    """A commuting problem as a vector G of entries g_k: the diagonal in the common basis, or G itself where it is a vector."""

    operator: Float[Array, "entries entries"] | Float[Array, "entries"]
    """<b_k, K b_j> for the basis matrices b_k = u_k v_k^T; a diagonal one as a vector."""
    linear: Float[Array, "entries"]
    """<b_k, K G*>."""
    rest: float
    """Loss that no entry can change."""
    axes: tuple[Float[Array, "rows entries"], Float[Array, "columns entries"]] | None
    """Left and right basis; None where G is a vector."""
    defect: float
    """Off-diagonal share of K (Frobenius): 0 where all A(x) commute."""

    def rows(self, architecture: Architecture, weights: Array) -> tuple[Float[Array, "entries degrees"], ...]:
        """The factors in the common basis, one row an entry."""
        factors = architecture.factors(weights)
        if self.axes is None:
            return factors
        return tuple(axes.T @ factor for axes, factor in zip(self.axes, factors, strict=False))

    def watched(self, problem: Problem) -> tuple[Float[Array, "watched entries"], Float[Array, "watched entries"]]:
        """Shares a, b with strength_w = sum_kl a_wk b_wl G_kl, G in the common basis."""
        basis = problem.modes
        if self.axes is None:
            assert isinstance(basis, CoordinateBasis)
            if isinstance(basis, SampleBasis):
                return basis.readers / basis.target[:, None], (basis.readers != 0).astype(float)
            read = np.zeros((len(basis.index), len(self.linear)))
            read[np.arange(len(read)), basis.index] = 1.0
            return read / basis.target[:, None], read
        assert not isinstance(basis, CoordinateBasis | TargetBasis)
        return basis.left.T @ self.axes[0] / basis.target[:, None], basis.right.T @ self.axes[1]

    @property
    def own(self) -> Float[Array, "entries"]:
        """K_kk."""
        return self.operator if self.operator.ndim == 1 else np.diag(self.operator)

    @property
    def coupled_share(self) -> float:
        """Frobenius norm of the operator off its diagonal, relative to all of it: 0 where features are orthogonal (Theorem 6)."""
        if self.operator.ndim == 1:
            return 0.0
        return float(np.linalg.norm(self.operator - np.diag(self.own)) / np.linalg.norm(self.operator))


def entries_of(architecture: Architecture, problem: Problem) -> Entries | None:
    """The problem in its common basis; None where no basis is looked for (outputs that share an operator, hopeless cases)."""
    moments = problem.moments
    if architecture.pairing == "rowwise":
        return Entries(moments.operator, moments.linear, float(moments.floor), None, 0.0)
    if moments.kind != "dense" or len(moments.operator) != moments.optimum.size or not architecture.sees_all:
        return None
    return _joint(_Key(problem), architecture.positive)


class _Key:
    """Problems are compared by identity: their arrays are never copied in place."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def __hash__(self) -> int:
        return id(self.problem)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.problem is other.problem


@lru_cache(maxsize=8)
def _joint(key: _Key, symmetric: bool) -> Entries | None:
    moments = key.problem.moments
    left, right, share = common_basis(moments.act, moments.optimum.shape, symmetric)
    if share > HOPELESS:
        return None
    size = left.shape[1]
    tensor = moments.operator.reshape(*moments.optimum.shape, *moments.optimum.shape)
    images = np.einsum("ak,bk,abcd->kcd", left, right, tensor, optimize=True)
    operator = np.einsum("kcd,cj,dj->kj", images, left, right, optimize=True)
    linear = np.einsum("ak,ab,bk->k", left, moments.linear, right)
    whole = np.linalg.norm(moments.operator)
    seen = np.linalg.norm(np.einsum("abcd,ck,dk->abk", tensor, left, right, optimize=True))
    defect, leak = (np.sqrt(np.maximum(gap, 0.0)) / whole for gap in (whole**2 - seen**2, np.sum(images**2) - np.sum(operator**2)))
    lost = float(max(defect, leak))
    exact = share if lost < SQUARED_ROUNDING else lost
    return Entries((operator + operator.T) / 2, linear, _unchanged(moments, operator, linear), (left, right), exact) if size else None


def common_basis(act: Any, shape: tuple[int, int], symmetric: bool) -> tuple[Array, Array, float]:
    """(left, right, off-diagonal share of another random combination): eigenvectors, or singular vectors, of one random combination."""
    rng = np.random.default_rng(0)
    first, second = (act(_random(shape, symmetric, rng)) for _ in range(2))
    if symmetric:
        left = right = np.linalg.eigh((first + first.T) / 2)[1]
    else:
        left, _, right = np.linalg.svd(first, full_matrices=False)
        right = right.T
    inside = np.einsum("ak,ab,bk->k", left, second, right)
    rest = second - (left * inside) @ right.T
    return left, right, float(np.linalg.norm(rest) / max(np.linalg.norm(second), np.finfo(float).tiny))


def _random(shape: tuple[int, int], symmetric: bool, rng: np.random.Generator) -> Array:
    draw = rng.standard_normal(shape)
    return draw + draw.T if symmetric else draw


def _unchanged(moments: Any, operator: Array, linear: Array) -> float:
    """Floor, and what lies outside the entries: L = floor + <G*, K G*> - 2 g.linear + g.operator g."""
    explained = float(linear @ np.linalg.lstsq(operator, linear, rcond=1e-12)[0])
    return float(moments.floor) + max(float(np.sum(moments.linear * moments.optimum)) - explained, 0.0)


@dataclass(frozen=True)
class Groups:
    """Entries that read the same sample (Theorems 4 and 5): K in blocks of rank one, K_kj = a_k a_j within a block."""

    label: Int[Array, "entries"]
    """Number of each entry's group; -1 for entries that no sample sees."""
    coupling: Float[Array, "entries"]
    """a_k."""
    defect: float
    """Frobenius share of K that the blocks leave out."""

    @property
    def count(self) -> int:
        return int(self.label.max(initial=-1)) + 1

    @property
    def largest(self) -> int:
        """Entries of the largest group."""
        return int(np.bincount(self.label[self.label >= 0]).max(initial=0))


def groups_of(entries: Entries) -> Groups:
    """The partition into blocks of rank one that leaves least of K out."""
    found = [_partition(entries.operator, link) for link in LINKS]
    return min(found, key=lambda groups: groups.defect)


def _partition(operator: Float[Array, "entries entries"], link: float) -> Groups:
    own = np.diag(operator)
    live = own > DEAD * own.max(initial=0.0)
    size = np.sqrt(np.where(live, own, np.inf))
    cosine = np.abs(operator) / size / size[:, None]
    label = np.full(len(own), -1)
    label[live] = connected_components(cosine[np.ix_(live, live)] > link, directed=False)[1]
    coupling, kept = np.zeros(len(own)), np.zeros_like(operator)
    for group in range(label.max(initial=-1) + 1):
        members = np.flatnonzero(label == group)
        values, vectors = np.linalg.eigh(operator[np.ix_(members, members)])
        coupling[members] = np.sqrt(max(values[-1], 0.0)) * vectors[:, -1]
        kept[np.ix_(members, members)] = np.outer(coupling[members], coupling[members])
    return Groups(label, coupling, float(np.linalg.norm(operator - kept) / np.linalg.norm(operator)))
