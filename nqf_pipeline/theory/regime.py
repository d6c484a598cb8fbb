"""Which solution a cell admits, computed from measured defects of its data, structure and optimizer; never typed by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem
from nqf_pipeline.theory.systems import is_orthogonal_samples

Array = Any
Name = Literal["orthogonal_features", "orthogonal_samples", "whitened_feedforward", "lotka_volterra", "weights"]
Standing = Literal["exact", "local", "conditional", "outside"]
CLOSED: tuple[Name, ...] = ("orthogonal_features", "orthogonal_samples", "whitened_feedforward")
"""Regimes with a closed form."""

ROUNDING = 1e-9
"""Defects up to this are rounding of second moments summed over samples: the closed form is the solution."""
NEARLY_WHITE = 0.35
"""Spread (standard deviation over mean) of K's eigenvalues up to which the closed clock is still given, as conditional: MLP twins
(20 inputs, width 64, sigma 1e-3) ignite within 0.4 % of it (median; worst 3 %) at 0.31, 1.7 % (9 %) at 0.45; at 0.7 modes are missed."""
NEARLY_DIAGONAL = 0.05
"""Off-diagonal share of K (Frobenius) up to which entries are still treated as independent, as conditional."""


@dataclass(frozen=True)
class Regime:
    """The regime, how far its prediction reaches, and the measured defects it rests on."""

    name: Name
    standing: Standing
    reason: str
    checks: dict[str, float]

    @property
    def closed(self) -> bool:
        """Whether closed-form tiers are given (`outside` cells get none)."""
        return self.standing != "outside" and self.name in CLOSED

    @property
    def evented(self) -> bool:
        """Whether the event clock of correlated feedforward layers is given; white ones need none."""
        return self.standing != "outside" and self.checks["event_clock"] == 1


def measure(architecture: Architecture, problem: Problem, optimizer: Optimizer) -> dict[str, float]:
    """Defects (0: the condition holds exactly) and yes/no conditions (1: holds)."""
    moments = problem.moments
    return {
        "whiteness_defect": whiteness_defect(moments),
        "off_diagonal_share": off_diagonal_share(moments),
        "event_clock": float(_has_event_clock(architecture, moments)),
        "orthogonal_samples": float(is_orthogonal_samples(problem)),
        "positive_targets": float(np.mean(problem.modes.target > 0)),
        "smooth": float(architecture.smooth),
        "linear_span": float(optimizer.in_linear_span),
        "full_batch": float(optimizer.batch_size is None),
        "exactly_quadratic": float(architecture.exactly_quadratic),
        "exchangeable": float(architecture.exchangeable),
    }


def _has_event_clock(architecture: Architecture, moments: Moments) -> bool:
    """Correlated feedforward layers."""
    return moments.kind == "left" and not architecture.positive and whiteness_defect(moments) > ROUNDING


def whiteness_defect(moments: Moments) -> float:
    """Standard deviation of the eigenvalues of K over their mean: 0 when K is a multiple of the identity."""
    operator = moments.operator
    if moments.kind == "diagonal":
        return float(np.std(operator) / np.mean(operator))
    mean = np.trace(operator) / len(operator)
    return float(np.linalg.norm(operator - mean * np.eye(len(operator))) / (mean * np.sqrt(len(operator))))


def off_diagonal_share(moments: Moments) -> float:
    """Frobenius norm of K off its diagonal, relative to all of K."""
    if moments.kind == "diagonal":
        return 0.0
    diagonal = np.diag(np.diag(moments.operator))
    return float(np.linalg.norm(moments.operator - diagonal) / np.linalg.norm(moments.operator))


def regime(architecture: Architecture, problem: Problem, optimizer: Optimizer) -> Regime:
    """The regime of one cell with its standing."""
    checks = measure(architecture, problem, optimizer)
    name, defect, reason = _solution(architecture, problem.moments, checks)
    outside = _outside(architecture, optimizer)
    if outside:
        return Regime(name, "outside", outside, checks)
    if name not in CLOSED:
        remedy = "the event clock is given" if checks["event_clock"] else "integrate the twin"
        return Regime(name, "conditional", f"{reason}; no closed form: {remedy}", checks)
    if defect > ROUNDING:
        return Regime(name, "conditional", reason, checks)
    if optimizer.batch_size is not None:
        return Regime(name, "conditional", f"{reason}; minibatches add noise that the full-batch solution leaves out", checks)
    if name == "whitened_feedforward" or not architecture.exactly_quadratic:
        return Regime(name, "local", f"{reason}; the network follows its quadratic form near zero weights only", checks)
    return Regime(name, "exact", reason, checks)


def _outside(architecture: Architecture, optimizer: Optimizer) -> str:
    if not optimizer.in_linear_span:
        return f"{optimizer.kind} leaves the linear span of gradients, so neither modes nor clocks describe its steps"
    if not architecture.smooth:
        return f"{architecture.name} is not smooth at zero weights, so it has no quadratic form there"
    return ""


def _solution(architecture: Architecture, moments: Moments, checks: dict[str, float]) -> tuple[Name, float, str]:
    """(regime, its defect, why)."""
    if architecture.pairing == "rowwise":
        return _entrywise(architecture, checks)
    defect = checks["whiteness_defect"]
    if architecture.positive or defect > NEARLY_WHITE:
        if architecture.positive:
            return "weights", defect, "one factor couples all pairs of its modes"
        return "weights", defect, f"features are not white (K spreads by {defect:.2g} of its mean)"
    if defect <= ROUNDING:
        return "whitened_feedforward", defect, "K is a multiple of the identity: singular modes of K G* are logistic, with effective seeds"
    return "whitened_feedforward", defect, f"features are nearly white (K spreads by {defect:.2g} of its mean, given up to {NEARLY_WHITE})"


def _entrywise(architecture: Architecture, checks: dict[str, float]) -> tuple[Name, float, str]:
    defect = checks["off_diagonal_share"]
    pairs = "" if architecture.positive else ", each with its decaying antisymmetric partner"
    if defect <= ROUNDING:
        return "orthogonal_features", defect, f"K is diagonal: every entry is logistic by itself{pairs} (Theorem 6)"
    if checks["orthogonal_samples"] and architecture.positive:
        return "orthogonal_samples", 0.0, "no two samples read the same entry: one scalar equation a sample (Theorem 5)"
    if defect <= NEARLY_DIAGONAL:
        near = f"K is nearly diagonal (off-diagonal share {defect:.2g}, given up to {NEARLY_DIAGONAL})"
        return "orthogonal_features", defect, near + pairs
    return "lotka_volterra", defect, f"entries interact (off-diagonal share {defect:.2g} of K)"
