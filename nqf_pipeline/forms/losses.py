"""Losses that a study may name: their words, and what theory reads of them at given outputs (NumPy; `dynamics.losses` trains them).

Every loss is the mean over samples of the sum over outputs.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from jaxtyping import Float

Array = Any
LossName = Literal["squared_error", "logistic", "softmax_cross_entropy"]
Labels = Literal["signs", "classes"]
"""What an output means where targets are labels: its sign, or the largest of all."""

CONVENTIONS: dict[str, str] = {
    "squared_error": "squared error: mean over samples of the sum over outputs",
    "logistic": "logistic: mean over samples of the sum over outputs of ln(1 + exp(-y f)), with labels y = 1 or -1",
    "softmax_cross_entropy": "softmax cross-entropy: mean over samples of -ln softmax(f) at the sample's class",
}


def convention(losses: set[str]) -> str:
    """What the loss curves of a study are, in words: all of its losses; squared error when none is named."""
    return "; ".join(text for name, text in CONVENTIONS.items() if name in (losses or {"squared_error"}))


def driving_targets(
    loss: LossName, outputs: Float[Array, "outputs samples"], targets: Float[Array, "outputs samples"]
) -> Float[Array, "outputs samples"]:
    """Targets with which squared error would have the same gradient at these outputs: f - (m/2) dL/df, m the number of samples.

    At f(0) they are what training sees first: modes and early growth under any loss are those of squared error on them.
    """
    if loss == "squared_error":
        return targets
    from scipy.special import expit, softmax  # takes long to import, and most studies never need it

    if loss == "logistic":
        return np.asarray(outputs + targets * expit(-targets * outputs) / 2)
    return np.asarray(outputs + (targets - softmax(outputs, axis=0) * targets.sum(0)) / 2)
