"""Spectra of any cell, from structure and targets alone: the growth rates r_k and loss shares V_k that scaling laws are made of.

The paper assumes that both are power laws; here they are read off the data. In every convention `share` sums to what the loss can lose,
sum_k V_k = L(0) - floor as far as the modes account for it, and modes stand in the order of their rates.

- `entries` (Theorem 6): entries of a vector G with their own curvature C_kk; r = 8 |drive| or 4 |drive|, V = r^2 / (8 C).
- `samples` (Theorem 5): zeta_mu = 8/m max_k lambda_{mu,k} y_mu and V_mu = y_mu^2 / m.
- `singular`: singular modes of K G* of a layer with a matrix G. What ignites first, second, ... when inputs are white; r = 4 s.
- `principal`: eigenvectors of K, where inputs are not white: independent features of the linear problem, each with r = 4 |drive| (8 for
  one factor), were its units its own. The order of learning of a real layer is not theirs once a mode has ignited: from then on they relax
  at rates proportional to their curvature C_k, which is why that spectrum is given beside the other two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem
from nqf_pipeline.theory.candidates import MOST_GROUPED, NEARLY_DIAGONAL, NEARLY_GROUPED, ROUNDING, spread_of
from nqf_pipeline.theory.commuting import Entries, Groups, entries_of, groups_of
from nqf_pipeline.theory.growth import flow_rate

Array = Any
Convention = Literal["entries", "samples", "singular", "principal"]
NEGLIGIBLE = 1e-12
"""Rates and curvatures below this share of the largest are rounding: there is no such mode."""


@dataclass(frozen=True)
class Spectrum:
    """Modes of one cell, fastest first."""

    convention: Convention
    rate: Float[np.ndarray, "modes"]
    """r_k or zeta_mu, growth rate of ln z at the start (gradient-flow time)."""
    share: Float[np.ndarray, "modes"]
    """V_k: loss that goes when the mode is learnt."""
    curvature: Float[np.ndarray, "modes"]
    """C_kk, saturation of the mode."""
    defect: float
    """How far the modes are from independent ones (0: exactly); what it measures depends on the convention."""

    @property
    def number(self) -> Float[np.ndarray, "modes"]:
        return np.arange(1.0, len(self.rate) + 1)


def spectra(architecture: Architecture, problem: Problem) -> list[Spectrum]:
    """Every convention that applies, the one of the cell's own regime first; none for several layers, whose modes move as others learn."""
    return list(_spectra(architecture, problem))


def _spectra(architecture: Architecture, problem: Problem) -> Iterator[Spectrum]:
    if architecture.layered:
        return
    entries = entries_of(architecture, problem)
    commuting = _commuting(architecture, entries) if entries is not None else None
    if commuting is not None:
        yield commuting
    if architecture.pairing == "outer":
        moments = problem.moments
        yield _singular(architecture, moments, np.atleast_2d(moments.linear))
        if spread_of(architecture, moments) > ROUNDING:
            yield _principal(architecture, moments)


def _commuting(architecture: Architecture, entries: Entries) -> Spectrum | None:
    """Entries in the common basis where they do not interact; samples where entries share them; None for a matrix that does neither."""
    defect = float(np.hypot(entries.coupled_share, entries.defect))
    if defect > NEARLY_DIAGONAL and len(entries.linear) <= MOST_GROUPED:
        groups = groups_of(entries)
        lack = float(np.hypot(groups.defect, entries.defect))
        if groups.largest > 1 and lack <= NEARLY_GROUPED:
            return _samples(architecture, entries, groups, lack)
    if defect > NEARLY_DIAGONAL and entries.axes is not None:
        return None
    drive = np.clip(entries.linear, 0, None) if architecture.positive else np.abs(entries.linear)
    return _ordered("entries", architecture, drive, entries.own, defect)


def _samples(architecture: Architecture, entries: Entries, groups: Groups, defect: float) -> Spectrum:
    """Each sample (of outputs a_k g_k, target y) learns through its fastest entry, whose curvature counts."""
    rates, shares, curvatures = [], [], []
    for group in range(groups.count):
        members = groups.label == group
        coupling = groups.coupling[members]
        goal = float(coupling @ entries.linear[members]) / float(coupling @ coupling)
        lead = float(np.max(coupling * np.sign(goal)) if architecture.positive else np.abs(coupling).max())
        rates.append(flow_rate(architecture) * max(lead, 0.0) * abs(goal))
        shares.append(goal**2)
        curvatures.append((8.0 if architecture.positive else 2.0) * lead**2)
    return _kept("samples", np.array(rates), np.array(shares), np.array(curvatures), defect)


def _singular(architecture: Architecture, moments: Moments, matrix: Array) -> Spectrum:
    """The drive along each singular pair of K G*, with the curvature of that pair; a symmetric G has eigenpairs that grow."""
    if architecture.positive:
        values, axes = np.linalg.eigh((matrix + matrix.T) / 2)
        order = np.argsort(-values)
        left, drive, right = axes[:, order], np.clip(values[order], 0, None), axes[:, order]
    else:
        left, drive, rows = np.linalg.svd(matrix, full_matrices=False)
        right = rows.T
    pairs = (np.outer(u, v) for u, v in zip(left.T, right.T, strict=True))
    own = np.array([float(np.sum(pair * moments.act(pair))) for pair in pairs])
    return _ordered("singular", architecture, drive, own, spread_of(architecture, moments))


def _principal(architecture: Architecture, moments: Moments) -> Spectrum:
    """Eigenvectors of K; one that several columns (or blocks) of G share carries the drive of all."""
    own, axes = np.linalg.eigh(moments.operator)
    flat = moments.linear if moments.kind == "left" else moments.linear.reshape(-1, len(own)).T
    drive = np.linalg.norm(axes.T @ flat.reshape(len(own), -1), axis=1)
    return _ordered("principal", architecture, drive, own, spread_of(architecture, moments))


def _ordered(convention: Convention, architecture: Architecture, drive: Array, own: Array, defect: float) -> Spectrum:
    """V = drive^2 / K, r and C in the convention of the flow (theory: section 3)."""
    seen = own > NEGLIGIBLE * np.max(own, initial=0.0)
    share = np.divide(drive**2, own, out=np.zeros_like(drive), where=seen)
    return _kept(convention, flow_rate(architecture) * drive, share, (8.0 if architecture.positive else 2.0) * own, defect)


def _kept(convention: Convention, rate: Array, share: Array, curvature: Array, defect: float) -> Spectrum:
    """Fastest first, without modes that are rounding (no rate, no curvature, no loss)."""
    real = (rate > NEGLIGIBLE * np.max(rate, initial=0.0)) & (share > NEGLIGIBLE * np.max(share, initial=0.0))
    order = np.flatnonzero(real)[np.argsort(-rate[real], kind="stable")]
    return Spectrum(convention, rate[order], share[order], curvature[order], defect)
