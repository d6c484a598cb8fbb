"""Mode bases: the directions in which the order parameter is watched.

The strength of mode k is its recovered share of the target, u_k^T G v_k / s_k (1 when learnt). Its order
parameter is z_k = |p_k|^2 with p_k the mode's vector in unit space: Z^T v_k for symmetric structures,
(Z1^T u_k + Z2^T v_k) / sqrt(2) for feedforward ones, where z_k -> 2 s_k (theory: section 3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.forms.structure import Structure, namespace

Array = Any


@dataclass(frozen=True)
class SingularBasis:
    """Singular directions of a matrix G. For symmetric G both sides are the eigenvectors."""

    left: Float[Array, "rows modes"]
    right: Float[Array, "columns modes"]
    target: Float[Array, "modes"]

    @classmethod
    def of(cls, optimum: Float[Array, "rows columns"], modes: int) -> SingularBasis:
        """The leading singular triplets of a matrix, largest first."""
        left, values, right = np.linalg.svd(optimum, full_matrices=False)
        return cls(left[:, :modes], right[:modes].T, values[:modes])

    @property
    def number(self) -> Int[Array, "modes"]:
        return np.arange(1, len(self.target) + 1)

    def strength(self, order: Array) -> Float[Array, "modes"]:
        return (self.left * (order @ self.right)).sum(0) / self.target

    def vectors(self, factors: tuple[Array, ...]) -> Float[Array, "modes degrees"]:
        if len(factors) == 1:
            return self.left.T @ factors[0]
        return (self.left.T @ factors[0] + self.right.T @ factors[1]) / np.sqrt(2.0).astype(factors[0].dtype)


@dataclass(frozen=True)
class VisibleBasis(SingularBasis):
    """Directions q_k of a symmetric G that data see in part: the strength is read through D_k, the visible part of q_k q_k^T.

    Then a mode is learnt (strength 1) when the outputs are right, whatever G holds where no output depends on it.
    """

    readers: Float[Array, "modes rows rows"]

    def strength(self, order: Array) -> Float[Array, "modes"]:
        return (self.readers * order[None]).sum((1, 2)) / self.target

    def take(self, keep: Int[Array, "kept"]) -> VisibleBasis:
        """Some of the modes."""
        return VisibleBasis(self.left[:, keep], self.right[:, keep], self.target[keep], self.readers[keep])

    def aimed_at(self, optimum: Array) -> VisibleBasis:
        """The same modes with strength 1 at another optimum."""
        return replace(self, target=(self.readers * optimum[None]).sum((1, 2)))


@dataclass(frozen=True)
class CoordinateBasis:
    """Entries of a vector G: `index` names the watched entries (a selection when there are many)."""

    index: Int[Array, "modes"]
    target: Float[Array, "modes"]

    @property
    def number(self) -> Int[Array, "modes"]:
        return self.index + 1

    def strength(self, order: Array) -> Float[Array, "modes"]:
        return order[self.index] / self.target

    def vectors(self, factors: tuple[Array, ...]) -> Float[Array, "modes degrees"]:
        rows = [factor[self.index] for factor in factors]
        if len(rows) == 1:
            return rows[0]
        # A negative entry grows where both factors have opposite signs.
        sign = namespace(self.target).sign(self.target)[:, None].astype(rows[0].dtype)
        return (rows[0] + sign * rows[1]) / np.sqrt(2.0).astype(rows[0].dtype)


@dataclass(frozen=True)
class SampleBasis(CoordinateBasis):
    """Samples as modes, where each reads entries of a vector G of its own: strength f_mu / y_mu. `index` is the entry that leads."""

    readers: Float[Array, "modes entries"]

    @property
    def number(self) -> Int[Array, "modes"]:
        return np.arange(1, len(self.target) + 1)

    def strength(self, order: Array) -> Float[Array, "modes"]:
        return self.readers @ order / self.target


@dataclass(frozen=True)
class TargetBasis:
    """The target itself as the only mode, where outputs are not linear in an order parameter (several layers).

    Its strength is the share of the target in the outputs of the quadratic forms, <f - f(0), y - f(0)> / |y - f(0)|^2, 1 when learnt.
    """

    structure: Structure
    goal: Float[Array, "outputs samples"]

    @property
    def number(self) -> Int[Array, "1"]:
        return np.ones(1, int)

    @property
    def target(self) -> Float[Array, "1"]:
        """Root mean square of the target."""
        return np.sqrt(np.sum(self.goal**2) / self.goal.shape[-1])[None]

    def strength(self, order: Array) -> Float[Array, "1"]:
        return ((self.structure.apply(order) * self.goal).sum() / (self.goal**2).sum())[None]

    def vectors(self, factors: tuple[Array, ...]) -> NoReturn:
        raise TypeError("no vector in unit space carries the target of several layers")


ModeBasis = SingularBasis | CoordinateBasis | TargetBasis
MODE_BASES = (SingularBasis, VisibleBasis, CoordinateBasis, SampleBasis, TargetBasis)
