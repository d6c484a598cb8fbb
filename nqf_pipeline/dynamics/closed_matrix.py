"""Closed flow of whole matrices: isotropic samples (Theorem 7), two-layer linear networks from a balanced start, and the projector form.

Where the second moment of the structure is a multiple of the identity, dM/dt = Y M + M Y - 8 c M^2, Y = 4/m sum y A (Theorem 7).
e^{Yt} overflows long before M does, so the solution is written in decaying exponentials of the *factor*, M = F F^T: rows of W0 in the
eigenbasis of Y, fastest first, D = diag e^{gamma t}. The first independent rows span the others (X, a fixed matrix), and

    M = Z (E^T E + Z^T S Z)^-1 Z^T,   Z = [1; D_rest X D_top^-1],
    E^T E = D_top^-1 (W_top W_top^T)^-1 D_top^-1,   S = 8 c (1 - D^-2) / 2 gamma

hold no growing exponential but those of modes that die out. Singular Y and singular M0 need no case of their own. NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from nqf_pipeline.dynamics.closed import logistic

Array = Any
DEPENDENT = 1e-10
"""A row of W0 whose part outside the faster rows is below this share of its own norm adds no direction."""
PRECISE = 1e-6
"""The same in single precision."""


def isotropic_samples(
    time: Float[Array, "times"], drive: Float[Array, "size size"], curvature: float, weights: Float[Array, "size width"]
) -> Float[Array, "times size rank"]:
    """Factors F with M(t) = F F^T, for dM/dt = Y M + M Y - 8 c M^2 and M(0) = W0 W0^T (Theorem 7). Flow time >= 0, curvature c > 0.

    Weight decay is Y - weight_decay I. Kept in the type of `weights`; any W0 (zero and rank-deficient included) and any symmetric Y.
    """
    kind = np.result_type(weights, np.float32)
    time, drive, weights = (np.asarray(array, kind) for array in (time, drive, weights))
    rate, axes = np.linalg.eigh(drive)
    rate, axes = rate[::-1], axes[:, ::-1]
    rows = axes.T @ weights
    top = independent_rows(rows)
    if not top.any():
        return np.zeros((len(time), len(rate), 1), kind)
    return axes @ _factors(time, rate, kind.type(curvature), rows, top)


def _factors(time: Array, rate: Array, curvature: Any, rows: Array, top: Bool[Array, "size"]) -> Float[Array, "times size rank"]:
    frame = np.linalg.qr(rows[top].T)[0]
    inverse = np.linalg.inv(rows[top] @ frame)
    others = rows[~top] @ frame @ inverse
    most = np.log(np.finfo(rows.dtype).max) / 4
    exponent = np.clip(rate * time[:, None], -most, None)
    span = np.zeros((len(time), len(rate), len(inverse)), rows.dtype)
    span[:, top] = np.eye(len(inverse), dtype=rows.dtype)
    span[:, ~top] = others * np.exp(exponent[:, ~top, None] - exponent[:, None, top])
    shrunk = np.exp(-exponent)
    crowding = 8 * curvature * _relative_time(time[:, None], rate, exponent)
    stacked = np.concatenate([inverse * shrunk[:, None, top], np.sqrt(crowding)[..., None] * span], axis=1)
    # Columns differ by e^{rt}: brought to one size, every later step is well conditioned.
    size = np.linalg.norm(stacked, axis=1)
    triangle = np.linalg.qr(stacked / size[:, None], mode="r")
    return np.swapaxes(np.linalg.solve(np.swapaxes(triangle, 1, 2), np.swapaxes(span / size[:, None], 1, 2)), 1, 2)


def _relative_time(time: Array, rate: Array, exponent: Array) -> Array:
    """(1 - exp(-2 gamma t)) / (2 gamma), which is t for gamma = 0."""
    small = np.abs(exponent) < np.finfo(exponent.dtype).tiny ** 0.5
    return np.where(small, time, -np.expm1(-2 * exponent) / np.where(small, 1, 2 * np.broadcast_to(rate, exponent.shape)))


def independent_rows(rows: Float[Array, "size width"]) -> Bool[Array, "size"]:
    """The rows that add a direction to those before them."""
    tolerance = DEPENDENT if rows.dtype == np.float64 else PRECISE
    kept, frame = np.zeros(len(rows), bool), np.zeros((0, rows.shape[1]), rows.dtype)
    for k, row in enumerate(rows):
        rest = row - (frame @ row) @ frame
        rest = rest - (frame @ rest) @ frame
        size = np.linalg.norm(rest)
        if size > tolerance * np.linalg.norm(row) and len(frame) < rows.shape[1]:
            kept[k] = True
            frame = np.concatenate([frame, rest[None] / size])
    return kept


def balanced_product(
    time: Float[Array, "times"],
    correlation: Float[Array, "rows columns"],
    curvature: float,
    factors: tuple[Float[Array, "rows degrees"], Float[Array, "columns degrees"]],
) -> tuple[Float[Array, "times rows rank"], Float[Array, "times columns rank"]]:
    """A two-layer linear network G = Z1 Z2^T on white inputs from a balanced start, Z1^T Z1 = Z2^T Z2 (Fukumizu, Saxe et al.).

    L = curvature |G|^2 - 2 <correlation, G>. Balance is conserved and turns the flow of W = [Z1; Z2] into Theorem 7's, with
    Y = 2 [[0, correlation], [correlation^T, 0]] and 8 c = 2 curvature. What a start out of balance costs is `imbalance`.
    """
    rows, columns = correlation.shape
    drive = np.zeros((rows + columns, rows + columns), correlation.dtype)
    drive[:rows, rows:], drive[rows:, :rows] = 2 * correlation, 2 * correlation.T
    found = isotropic_samples(time, drive, curvature / 4, np.concatenate(factors))
    return found[:, :rows], found[:, rows:]


def imbalance(factors: tuple[Array, Array]) -> float:
    """|Z1^T Z1 - Z2^T Z2| over |Z1^T Z1 + Z2^T Z2|, conserved by gradient flow; 0 where `balanced_product` is exact."""
    left, right = (factor.T @ factor for factor in factors)
    return float(np.linalg.norm(left - right) / np.linalg.norm(left + right))


@dataclass(frozen=True)
class Projectors:
    """The closure of Theorem 16: orthogonal projectors in whose span M starts and stays, M = sum_a m_a Pi_a, each m_a logistic."""

    projector: Float[Array, "parts size size"]
    rate: Float[Array, "parts"]
    """2 gamma_a."""
    saturation: Float[Array, "parts"]
    """2 kappa_a."""
    seed: Float[Array, "parts"]
    defect: float
    """Largest violation of the conditions: relative sizes of what Y Pi + Pi Y, K(Pi_b) Pi_a + Pi_a K(Pi_b) and M0 are short of."""

    def flow(self, time: Float[Array, "times"], weight_decay: float = 0.0) -> Float[Array, "times parts"]:
        """m_a(t), exactly where the defect vanishes."""
        return logistic(np.asarray(time)[:, None], self.rate - 2 * weight_decay, self.saturation, self.seed)

    def order(self, strength: Float[Array, "times parts"]) -> Float[Array, "times size size"]:
        """M of given m_a."""
        return np.tensordot(strength, self.projector, axes=1)


def projectors(drive: Float[Array, "size size"], act: Any, start: Float[Array, "size size"], tolerance: float = 1e-9) -> Projectors:
    """The projectors of Theorem 16 for dM/dt = (Y - K(M)) M + M (Y - K(M)), if there are any: see the `defect`.

    `act` is M -> K(M) = 4/m sum <A, M> A. Candidates are the joint eigenspaces of Y and M0, which are all there can be: M0 lies in the span
    of the projectors and Y acts on each as a number.
    """
    axes, group = _joint_eigenspaces(drive, start, tolerance)
    parts = np.unique(group)
    frames = [axes[:, group == part] for part in parts]
    projector = np.array([frame @ frame.T for frame in frames])
    weight = np.array([frame.shape[1] for frame in frames])
    rate = 2 * np.einsum("aij,ij->a", projector, drive) / weight
    images = np.array([act(pi) for pi in projector])
    anti = np.einsum("bij,ajk->baik", images, projector)
    anti = anti + np.swapaxes(anti, 2, 3)
    saturation = np.einsum("aaii->a", anti) / weight
    seed = np.einsum("aij,ij->a", projector, start) / weight
    wanted = np.einsum("a,ab,aij->abij", saturation, np.eye(len(parts)), projector)
    held = drive @ projector + projector @ drive - rate[:, None, None] * projector
    lacks = [(held, drive), (start - np.tensordot(seed, projector, axes=1), start), (anti - wanted, anti)]
    defect = max(float(np.linalg.norm(lack) / max(np.linalg.norm(whole), np.finfo(float).tiny)) for lack, whole in lacks)
    return Projectors(projector, rate, saturation, seed, defect)


def _joint_eigenspaces(drive: Array, start: Array, tolerance: float) -> tuple[Float[Array, "size size"], Int[Array, "size"]]:
    """Axes that diagonalise Y within the eigenspaces of M0, and the number of the joint eigenspace of each."""
    values, axes = np.linalg.eigh(start)
    level = _levels(values, tolerance)
    for part in np.unique(level):
        own = axes[:, level == part]
        axes[:, level == part] = own @ np.linalg.eigh(own.T @ drive @ own)[1]
    rates = np.einsum("ik,ij,jk->k", axes, drive, axes)
    order = np.argsort(rates)
    named = np.empty_like(level)
    named[order] = _levels(rates[order], tolerance)
    return axes, np.unique(np.stack([level, named]), axis=1, return_inverse=True)[1]


def _levels(ascending: Float[Array, "size"], tolerance: float) -> Int[Array, "size"]:
    """Numbers of the sets of equal values."""
    scale = max(float(np.abs(ascending).max(initial=0.0)), np.finfo(float).tiny)
    return np.concatenate([[0], np.cumsum(np.diff(ascending) > tolerance * scale)])
