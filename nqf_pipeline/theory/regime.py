"""Which solution a cell admits, computed from measured defects of its data, structure and optimizer; never typed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem
from nqf_pipeline.theory.candidates import ROUNDING, Candidate, Name, candidates, whiteness_defect
from nqf_pipeline.theory.order_parameters import refusal

Array = Any
Standing = Literal["exact", "local", "conditional", "outside"]


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
        return self.standing != "outside" and self.name not in ("lotka_volterra", "moments", "weights")

    @property
    def coupled(self) -> bool:
        """Whether the equations of interacting modes are given."""
        return self.standing != "outside" and self.name == "lotka_volterra"

    @property
    def stepped(self) -> bool:
        """Whether the discrete tier is the closure in M: the twin's own steps, without weights."""
        return self.standing != "outside" and self.name == "moments"

    @property
    def predicted(self) -> bool:
        """Whether any tier is given."""
        return self.closed or self.coupled or self.stepped or self.evented

    @property
    def timing_error(self) -> float:
        """Relative error of ignition times that the measured defect lets expect: 0 where the condition holds, nan without a regime."""
        return self.checks["timing_error"]

    @property
    def evented(self) -> bool:
        """Whether the event clock of correlated feedforward layers is given; white ones need none."""
        return self.standing != "outside" and self.checks["event_clock"] == 1


def measure(architecture: Architecture, problem: Problem, optimizer: Optimizer) -> dict[str, float]:
    """Defects (0: the condition holds exactly) and yes/no conditions (1: holds)."""
    moments = problem.moments
    return {
        "event_clock": float(problem.loss == "squared_error" and _has_event_clock(architecture, moments)),
        "squared_error": float(problem.loss == "squared_error"),
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


def regime(architecture: Architecture, problem: Problem, optimizer: Optimizer, weights: Array | None = None, steps: int = 0) -> Regime:
    """The regime of one cell with its standing.

    `weights` are the initial ones: Theorem 16 asks for a start along its projectors. `steps` is how far the cell is to be predicted: the
    closure in M has a price, clocks have none.
    """
    if architecture.layered:
        reason = f"{architecture.name} has a quadratic form in every layer, whose inputs move as the layers below learn; integrate the twin"
        return Regime("weights", "outside", reason, {"defect": np.nan, "timing_error": np.nan, "event_clock": 0.0})
    checks = measure(architecture, problem, optimizer)
    outside = _outside(architecture, optimizer)
    found = candidates(architecture, problem, weights) if checks["squared_error"] else []
    chosen, refused = _choose(found, optimizer)
    name: Name
    if chosen is None:
        name, reason = _integrated(refusal(architecture, problem, optimizer, steps), checks)
        lacking = "no closed regime" if checks["squared_error"] else "closed regimes are those of squared error"
        reason, defect, error = f"{_listed(refused, lacking)}; {reason}", np.nan, np.nan
    else:
        name, defect, error = chosen.name, chosen.defect, chosen.timing_error
        reason = chosen.says if chosen.exact else f"{chosen.says}, nearly: {chosen.measured}, given up to {chosen.nearly:g}"
        reason += f", about {error:.1g} of the ignition times" if not chosen.exact else ""
        reason = _listed(refused, reason)
    checks |= {f"{candidate.name}_defect": candidate.defect for candidate in found} | {"defect": defect, "timing_error": error}
    if outside:
        return Regime(name, "outside", outside, checks)
    if name == "moments":
        return Regime(name, "exact" if architecture.exactly_quadratic else "local", reason, checks)
    reason += _batches(optimizer) if chosen is not None or checks["event_clock"] else ""
    if chosen is None or not chosen.exact or optimizer.batch_size is not None:
        return Regime(name, "conditional", reason, checks)
    if name == "whitened_feedforward" or not architecture.exactly_quadratic:
        return Regime(name, "local", f"{reason}; the network follows its quadratic form near zero weights only", checks)
    return Regime(name, "exact", reason, checks)


def _batches(optimizer: Optimizer) -> str:
    """What a clock does not know of minibatches."""
    if optimizer.batch_size is None:
        return ""
    noise = "; minibatches add noise that the full-batch solution leaves out (delay, spread and floor: batch_noise)"
    return noise + (", and second moments are those of the held-out samples, not of what batches are drawn from" if optimizer.fresh else "")


def _integrated(refused: str, checks: dict[str, float]) -> tuple[Name, str]:
    """(regime, why) without a clock: the closure in M where it is affordable, else the twin's weights."""
    if not refused:
        return "moments", "the exact steps of M = W W^T are taken instead"
    remedy = "the event clock is given" if checks["event_clock"] else "integrate the twin"
    return "weights", f"{refused}: {remedy}"


def _choose(found: Sequence[Candidate], optimizer: Optimizer) -> tuple[Candidate | None, list[Candidate]]:
    """(the first that holds, else the one nearest to holding, those refused before it). Only clocks make do without the batches."""
    for position, candidate in enumerate(found):
        if candidate.exact and candidate.closed_form:
            return candidate, list(found[:position])
    near = [candidate for candidate in found if candidate.defect <= candidate.nearly and candidate.closed_form]
    flows = [candidate for candidate in found if candidate.defect <= candidate.nearly and not candidate.closed_form]
    flows = flows if optimizer.batch_size is None else []
    best = min(near, key=lambda candidate: candidate.timing_error, default=flows[0] if flows else None)
    return best, [candidate for candidate in found if candidate is not best and (candidate.closed_form or best is None)]


def _listed(refused: Sequence[Candidate], reason: str) -> str:
    """The reason, with what was refused in words."""
    words = "; ".join(f"not {candidate.name.replace('_', ' ')}: {candidate.measured}" for candidate in refused)
    return f"{reason} ({words})" if words else reason


def _outside(architecture: Architecture, optimizer: Optimizer) -> str:
    if not optimizer.in_linear_span:
        return f"{optimizer.kind} leaves the linear span of gradients, so neither modes nor clocks describe its steps"
    if not architecture.smooth:
        return f"{architecture.name} is not smooth at zero weights, so it has no quadratic form there"
    return ""
