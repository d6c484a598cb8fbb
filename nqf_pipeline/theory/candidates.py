"""Candidates for a regime: each condition measured as a defect, in the order in which regimes are preferred.

A defect is a relative size that vanishes exactly where the theorem holds. `timing_error` turns it into the relative error of ignition times
to expect; the factors are measured (`python -m benchmarks.defects`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from nqf_pipeline.dynamics.closed_matrix import Projectors, projectors
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem
from nqf_pipeline.theory.commuting import SQUARED_ROUNDING, Entries, entries_of, groups_of

Array = Any
Name = Literal[
    "orthogonal_features",
    "proportional_samples",
    "orthogonal_samples",
    "whitened_feedforward",
    "isotropic",
    "general",
    "lotka_volterra",
    "moments",
    "weights",
]
ROUNDING = 1e-9
"""Defects up to this are rounding of second moments summed over samples: the closed form is the solution."""
NEARLY_WHITE = 0.35
"""Spread (standard deviation over mean) of K's eigenvalues up to which the closed clock is still given, as conditional: MLP twins
(20 inputs, width 64, sigma 1e-3) ignite within 0.4 % of it (median; worst 3 %) at 0.31, 1.7 % (9 %) at 0.45; at 0.7 modes are missed."""
NEARLY_DIAGONAL = 0.05
"""Off-diagonal share of K (Frobenius) up to which entries are still treated as independent, as conditional."""
NEARLY_GROUPED, NEARLY_ISOTROPIC, NEARLY_COMMUTING, NEARLY_PROJECTED = 0.1, 0.07, 0.02, 0.07
"""Defects up to which 9 of 10 ignition times stay within 5 % (disturbed sensing ensembles, targets 1 to 1/8, sigma 1e-3, 5 seeds)."""
GROWTH: dict[str, float] = {
    "orthogonal_features": 0.55,
    "proportional_samples": 0.13,
    "orthogonal_samples": 0.1,
    "whitened_feedforward": 0.012,
    "isotropic": 0.17,
    "general": 0.1,
    "lotka_volterra": 0.4,
}
"""Relative error of ignition times per unit of defect and of target spread that 9 of 10 keep below there (medians are 0.002 to 0.07)."""
LEVELS = (1e-9, 1e-3, 1e-2, 0.05)
"""Shares of the largest eigenvalue within which eigenvalues of Y, and of M(0), count as equal."""
MOST_PROJECTED, MOST_GROUPED = 40, 2000
"""Rows of M, and entries, up to which projectors and shared samples are looked for."""


@dataclass(frozen=True)
class Candidate:
    """One condition, measured."""

    name: Name
    defect: float
    nearly: float
    """Defect up to which the prediction is given, as conditional."""
    says: str
    """What follows where it holds."""
    measured: str
    """The defect in words."""
    closed_form: bool = True
    spread: float = 1.0
    """Strongest over weakest watched target: what disturbs a mode is as large as the strongest, and a slow mode shows it more."""

    @property
    def exact(self) -> bool:
        return self.defect <= ROUNDING

    @property
    def timing_error(self) -> float:
        return 0.0 if self.exact else GROWTH[self.name] * self.defect * self.spread


def candidates(architecture: Architecture, problem: Problem, weights: Array | None = None) -> list[Candidate]:
    """All conditions that make sense for this structure, in order of preference."""
    entries = entries_of(architecture, problem)
    found = [] if entries is None else list(_commuting(architecture, entries))
    closed, flows = [c for c in found if c.closed_form], [c for c in found if not c.closed_form]
    if architecture.pairing == "outer":
        closed += _matrix(architecture, problem, weights)
    target = np.abs(problem.modes.target)
    spread = float(target.max() / target.min()) if len(target) else 1.0
    return [replace(candidate, spread=spread) for candidate in closed + flows]


def _commuting(architecture: Architecture, entries: Entries) -> Iterator[Candidate]:
    pairs = "" if architecture.positive else ", each with its decaying antisymmetric partner"
    where = "entry" if entries.axes is None else "entry in the common eigenbasis"
    off = float(np.hypot(entries.coupled_share, entries.defect))
    says = f"K is diagonal: every {where} is logistic by itself{pairs} (Theorem 6)"
    yield Candidate("orthogonal_features", off, NEARLY_DIAGONAL, says, f"off-diagonal share of K {off:.2g}")
    if off > ROUNDING and len(entries.linear) <= MOST_GROUPED:
        groups = groups_of(entries)
        lack = float(np.hypot(groups.defect, entries.defect))
        if groups.largest > 1 and groups.count == 1:
            says = "all samples are multiples of one: one scalar equation (Theorem 4)"
            yield Candidate("proportional_samples", lack, NEARLY_GROUPED, says, f"{lack:.2g} of K is not of rank one")
        elif groups.largest > 1:
            says = f"no two of {groups.count} samples read the same {where}: one scalar equation a sample (Theorem 5)"
            yield Candidate("orthogonal_samples", lack, NEARLY_GROUPED, says, f"{lack:.2g} of K is shared between samples")
    says = f"every {where} grows at a rate that the others change: Lotka-Volterra, off-diagonal elements slaved (Proposition 7)"
    measured = f"{entries.defect:.2g} of K leaves the common basis"
    yield Candidate("lotka_volterra", entries.defect, NEARLY_COMMUTING, says, measured, closed_form=False)


def _matrix(architecture: Architecture, problem: Problem, weights: Array | None) -> Iterator[Candidate]:
    moments = problem.moments
    if not architecture.positive:
        spread = whiteness_defect(moments)
        says = "K is a multiple of the identity: singular modes of K G* are logistic, with effective seeds"
        yield Candidate("whitened_feedforward", spread, NEARLY_WHITE, says, f"K spreads by {spread:.2g} of its mean")
    elif moments.kind == "dense" and architecture.sees_all:
        spread = isotropy_defect(moments)
        says = "K is a multiple of the identity on symmetric matrices: M has a closed form, modes are logistic (Theorem 7)"
        yield Candidate("isotropic", spread, NEARLY_ISOTROPIC, says, f"K spreads by {spread:.2g} of its mean on symmetric matrices")
        if weights is not None and len(moments.optimum) <= MOST_PROJECTED and spread > ROUNDING:
            factor = architecture.factors(weights)[0]
            lack = problem_projectors(moments, factor).defect
            says = "M starts and stays in the span of projectors: their strengths are logistic (Theorem 16)"
            yield Candidate("general", lack, NEARLY_PROJECTED, says, f"the start or K leaves the projectors by {lack:.2g}")


def problem_projectors(moments: Moments, factor: Float[Array, "rows degrees"]) -> Projectors:
    """Theorem 16's projectors for a problem and its start, with nearly equal eigenvalues taken together where that leaves out less."""
    drive, start = 2 * (moments.linear + moments.linear.T), factor @ factor.T
    found = (projectors(drive, lambda order: 4 * moments.act(order), start, level) for level in LEVELS)
    return min(found, key=lambda candidate: candidate.defect)


def spread_of(architecture: Architecture, moments: Moments) -> float:
    """How far K is from a multiple of the identity on what G can be: symmetric matrices where there is one factor."""
    symmetric = architecture.positive and moments.kind == "dense" and len(moments.operator) == moments.optimum.size
    return isotropy_defect(moments) if symmetric else whiteness_defect(moments)


def isotropy_defect(moments: Moments) -> float:
    """The same as `whiteness_defect` on symmetric matrices: K annihilates the others where all A(x) are symmetric."""
    rows = len(moments.optimum)
    size = rows * (rows + 1) / 2
    mean = float(np.trace(moments.operator)) / size
    spread = float(np.sqrt(max(np.sum(moments.operator**2) / (mean**2 * size) - 1, 0.0)))
    if spread > SQUARED_ROUNDING:
        return spread
    probe = np.random.default_rng(0).standard_normal((rows, rows))
    probe = probe + probe.T
    return float(np.linalg.norm(moments.act(probe) - mean * probe) / (abs(mean) * np.linalg.norm(probe)))


def whiteness_defect(moments: Moments) -> float:
    """Standard deviation of the eigenvalues of K over their mean: 0 when K is a multiple of the identity."""
    operator = moments.operator
    if moments.kind == "diagonal":
        return float(np.std(operator) / np.mean(operator))
    mean = np.trace(operator) / len(operator)
    return float(np.linalg.norm(operator - mean * np.eye(len(operator))) / (mean * np.sqrt(len(operator))))
