"""How fast a mode grows while it is small: rates of the flow, and steps of a linear-span optimizer.

A mode z = |w|^2 with rate r and saturation C follows dz/dt = z (r - C z) (theory: sections 3 and 4). Close
to zero its amplitude w obeys the optimizer's own linear recursion, whose largest root x gives the
exact growth 2 ln x of ln z per step: ln z gains r * learning_rate / (1 - momentum) only to leading order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.theory.errors import TheoryError

Array = Any


@dataclass(frozen=True)
class ModeLaw:
    """dz/dt = z (rate - saturation z) for each mode; `full` is the z at which its target is recovered."""

    rate: Float[Array, "modes"]
    saturation: Float[Array, "modes"]
    full: Float[Array, "modes"]


def flow_rate(architecture: Architecture) -> float:
    """Growth rate of z per unit of K G*: 8 where G is quadratic in one factor, 4 where it is a product of two."""
    return 8.0 if architecture.positive else 4.0


def mode_law(architecture: Architecture, moments: Moments) -> ModeLaw:
    """The logistic law of every mode, with K replaced by its own value on that mode (its mean when feedforward).

    Rates of a feedforward or two-factor structure are positive: a negative target is learnt by the
    antisymmetric pair of factors. A single factor cannot learn a negative one, its rate is negative.
    """
    pair = not architecture.positive
    if architecture.pairing == "rowwise":
        own = moments.operator if moments.kind == "diagonal" else np.diag(moments.operator)
        drive = np.abs(moments.linear) if pair else moments.linear
    elif pair:
        drive = np.linalg.svd(moments.linear, compute_uv=False)
        own = np.full_like(drive, mean_curvature(moments))
    else:
        drive = np.linalg.eigvalsh(moments.linear)[::-1]
        own = np.full_like(drive, mean_curvature(moments))
    safe = np.where(own > 0, own, np.inf)
    return ModeLaw(flow_rate(architecture) * drive, (2.0 if pair else 8.0) * own, (2.0 if pair else 1.0) * drive / safe)


def mean_curvature(moments: Moments) -> float:
    """Mean eigenvalue of K."""
    operator = moments.operator
    return float(np.mean(operator) if moments.kind == "diagonal" else np.trace(operator) / len(operator))


def log_growth(rate: Float[Array, "..."], optimizer: Optimizer) -> Float[Array, "..."]:
    """Gain of ln z per step of a small mode of this rate, under a linear-span optimizer (exact)."""
    if not optimizer.in_linear_span:
        raise TheoryError(
            f"optimizer {optimizer.kind}: its steps do not follow the growth rates of the modes, so no clock exists for it. "
            "Give `steps` explicitly, or use gd, sgd or momentum."
        )
    return growth_per_step(rate, optimizer.learning_rate, optimizer.momentum, optimizer.weight_decay)


def growth_per_step(rate: Float[Array, "..."], learning_rate: Any, momentum: Any, weight_decay: Any) -> Float[Array, "..."]:
    """`log_growth` for plain numbers or arrays of them."""
    drive = learning_rate * (np.asarray(rate) / 2 - weight_decay)
    trace = 1 + momentum + drive
    root = (trace + np.emath.sqrt(trace**2 - 4 * momentum)) / 2
    with np.errstate(divide="ignore"):
        return np.asarray(2 * np.log(np.abs(root)))
