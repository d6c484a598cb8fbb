"""Full-batch squared error as a quadratic function of the reduced order parameter.

Loss convention of this project: mean over samples of the sum over outputs. With K the second moment of
the structure and G* the least-squares optimum,

    L(G) = <G - G*, K (G - G*)> + floor,

which needs no sample and loses no digits near the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

Array = Any
Kind = Literal["left", "dense", "diagonal"]


@dataclass(frozen=True)
class Moments:
    """K acts on G as K @ G ("left"), as a matrix on vec(G) in C order ("dense") or entrywise ("diagonal").

    A dense K smaller than vec(G) acts on each of its consecutive blocks (outputs that share one operator).
    """

    kind: Kind
    operator: Float[Array, "..."]
    optimum: Float[Array, "..."]
    floor: Float[Array, ""]

    @classmethod
    def from_normal_equations(cls, kind: Kind, operator: Array, linear: Array, square: float) -> Moments:
        """Solve K G* = linear by the pseudo-inverse; floor = square - <linear, G*>, clipped at 0."""
        if kind == "diagonal":
            scale = np.abs(operator).max(initial=0.0)
            safe = np.where(np.abs(operator) > 1e-14 * scale, operator, np.inf)
            optimum = linear / safe
        else:
            inverse = np.linalg.pinv(operator, rcond=1e-12, hermitian=True)
            optimum = inverse @ linear if kind == "left" else (linear.reshape(-1, len(inverse)) @ inverse).reshape(linear.shape)
        floor = np.asarray(max(square - float(np.sum(linear * optimum)), 0.0))
        return cls(kind, operator, optimum, floor)

    @classmethod
    def absent(cls) -> Moments:
        """Of outputs that are not linear in an order parameter: nothing is known, not even a floor."""
        nothing = np.zeros(0)
        return cls("diagonal", nothing, nothing, np.asarray(np.nan))

    def act(self, order: Array) -> Array:
        """K G."""
        if self.kind == "left":
            return self.operator @ order
        if self.kind == "dense":
            return (order.reshape(-1, len(self.operator)) @ self.operator).reshape(order.shape)
        return self.operator * order

    def gradient(self, order: Array) -> Array:
        """dL/dG = 2 K (G - G*)."""
        return 2 * self.act(order - self.optimum)

    def excess(self, order: Array) -> Array:
        """L(G) - floor."""
        gap = order - self.optimum
        return (gap * self.act(gap)).sum()

    def loss(self, order: Array) -> Array:
        """L(G)."""
        return self.excess(order) + self.floor

    @property
    def linear(self) -> Array:
        """K G*, the input-output correlation that drives the first steps."""
        return self.act(self.optimum)
