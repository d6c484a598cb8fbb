"""Losses as functions of outputs and targets, both (outputs, samples): the mean over samples of the sum over outputs.

`axis` is that of the outputs: 1 where both are (samples, outputs), the layout in which training differentiates a network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Float

from nqf_pipeline.forms.losses import Labels, LossName

Array = Any


def squared_error(outputs: Float[Array, "outputs samples"], targets: Float[Array, "outputs samples"], axis: int = 0) -> Float[Array, ""]:
    """Mean over samples of |f - y|^2."""
    return ((outputs - targets) ** 2).sum() / outputs.shape[1 - axis]


def logistic(outputs: Float[Array, "outputs samples"], targets: Float[Array, "outputs samples"], axis: int = 0) -> Float[Array, ""]:
    """ln(1 + exp(-y f)) for labels y = 1 or -1, summed over outputs."""
    return jax.nn.softplus(-targets * outputs).sum() / outputs.shape[1 - axis]


def softmax_cross_entropy(
    outputs: Float[Array, "classes samples"], targets: Float[Array, "classes samples"], axis: int = 0
) -> Float[Array, ""]:
    """-sum_k y_k ln softmax(f)_k; targets are one-hot columns or probabilities."""
    return jnp.mean(optax.softmax_cross_entropy(outputs, targets, axis=axis))


LOSSES: dict[LossName, Callable[..., Array]] = {
    "squared_error": squared_error,
    "logistic": logistic,
    "softmax_cross_entropy": softmax_cross_entropy,
}


def accuracy(labels: Labels, outputs: Float[Array, "outputs samples"], targets: Float[Array, "outputs samples"]) -> Float[Array, ""]:
    """Share of labels that the outputs name: by their sign, or by the largest of a sample."""
    right = outputs * targets > 0 if labels == "signs" else outputs.argmax(0) == targets.argmax(0)
    return right.astype(outputs.dtype).mean()
