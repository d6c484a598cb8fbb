"""Learnt modes of a feedforward layer between events: the order parameter as a balanced product of few unit directions.

While nothing else is large, G = A B^T has as many unit directions as residents, with A^T A = B^T B from small weights on, and

    dG/dt = 2 E B B^T + 2 A A^T E - 2 lambda G,    E = K (G* - G),  lambda the weight decay.

With A A^T and B B^T frozen, but for what their change takes back of the decay, this is linear: along each right singular vector of G
the whitened residual K^(1/2) (G* - G) relaxes by the exponential of one symmetric matrix. So a plateau is followed in a few exponential
steps however ill-conditioned K is, and its end (the best G of that rank without decay, soft-thresholded singular values for white inputs
with it) needs no formula of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.forms.moments import Moments

Array = Any
EMPTY = 1e-9
"""Singular values below this share of the largest are rounding, not residents."""
NULL = 1e-12
"""Eigenvalues of K below this share of the largest are directions that no sample shows."""


@dataclass(frozen=True)
class Landscape:
    """K, G* and weight decay, in the eigenbasis of K where it is positive."""

    moments: Moments
    weight_decay: float

    @cached_property
    def eigen(self) -> tuple[Float[Array, "seen"], Float[Array, "rows seen"]]:
        values, axes = np.linalg.eigh(self.moments.operator)
        seen = values > NULL * values[-1]
        return values[seen], axes[:, seen]

    @cached_property
    def goal(self) -> Float[Array, "seen columns"]:
        """K^(1/2) G*."""
        return self.whiten(self.moments.optimum)

    def whiten(self, order: Float[Array, "rows columns"]) -> Float[Array, "seen columns"]:
        values, axes = self.eigen
        return np.sqrt(values)[:, None] * (axes.T @ order)

    def residual(self, order: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
        """E."""
        return self.moments.act(self.moments.optimum - order)


@dataclass(frozen=True)
class Stretch:
    """Flow from `order` on with A A^T and B B^T as they are there."""

    landscape: Landscape
    order: Float[Array, "rows columns"]
    residents: int

    @cached_property
    def _factors(self) -> tuple[Array, Array, Array]:
        left, size, right = np.linalg.svd(self.order, full_matrices=False)
        kept = min(self.residents, int(np.sum(size > EMPTY * max(size[0], 1e-300))))
        return left[:, :kept], size[:kept], right[:kept]

    @cached_property
    def _relaxation(self) -> tuple[Array, Array, Array, Array]:
        """(rates, axes, what decays in those axes, what stays) of the whitened residual along each resident and along all other columns."""
        values, axes = self.landscape.eigen
        left, size, right = self._factors
        own = np.sqrt(values)[:, None] * (axes.T @ left) * np.sqrt(size)
        eased = self._eased(own)
        rates, basis = np.linalg.eigh(own @ own.T + np.append(size, 0.0)[:, None, None] * np.diag(values) + eased)
        whitened = self.landscape.whiten(self.order)
        gap = self.landscape.goal - whitened
        along = np.concatenate([right[:, :, None] * right[:, None, :], (np.eye(right.shape[1]) - right.T @ right)[None]])
        pull = self.landscape.weight_decay * (whitened @ along) + eased @ (gap @ along)
        rests = basis.transpose(0, 2, 1) @ pull / np.maximum(rates, 1e-300)[..., None]
        return rates, basis, basis.transpose(0, 2, 1) @ (gap @ along) - rests, rests

    def _eased(self, own: Float[Array, "seen residents"]) -> Float[Array, "blocks seen seen"]:
        """What is left of the decay of a deviation once A and B are seen to follow it, along each resident and all other columns.

        To first order a change of strength s u v^T meets 2 lambda - 4 e with e = u^T E v, a rotation 2 lambda - 2 e: 0 and lambda at rest,
        where e = lambda / 2. Halved here, as all rates are; with lambda in both, the end of a long stretch would miss the resting point.
        """
        decay = self.landscape.weight_decay
        left, _, right = self._factors
        drive = np.einsum("ak,ab,kb->k", left, self.landscape.residual(self.order), right)
        turns, swells = (np.clip(decay - share * drive, 0, decay)[:, None, None] for share in (1, 2))
        unit = own / np.linalg.norm(own, axis=0)
        itself = np.einsum("ak,bk->kab", unit, unit)
        identity = np.eye(len(own))
        return np.concatenate([turns * identity + (swells - turns) * itself, decay / 2 * identity[None]])

    def after(self, time: Float[Array, "times"]) -> Float[Array, "times rows columns"]:
        """G after these flow times."""
        time = np.asarray(time, float)
        if not len(self._factors[1]):
            return np.broadcast_to(self.order, (len(time), *self.order.shape))
        values, axes = self.landscape.eigen
        rates, basis, fading, rests = self._relaxation
        left = np.exp(-2 * np.maximum(rates, 0) * time[:, None, None])[..., None] * fading + rests
        residual = (basis @ left).sum(1)
        return np.asarray((axes / np.sqrt(values)) @ (self.landscape.goal - residual))

    def end(self, time: float) -> Float[Array, "rows columns"]:
        """G after this time, brought back to the residents' rank."""
        left, size, right = np.linalg.svd(self.after(np.array([time]))[0], full_matrices=False)
        kept = self.residents
        return np.asarray((left[:, :kept] * size[:kept]) @ right[:kept])
