"""When a run has left the regime of finite learning."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

EXPLODED = 1e4
"""A loss this many times its start is on its way out of the floating-point range; saturating networks stop short of it."""


def diverged_step(
    network_loss: Float[np.ndarray, "*cells records"],
    twin_loss: Float[np.ndarray, "*cells records"],
    step_number: Int[np.ndarray, "records"],
) -> Int[np.ndarray, "*cells"]:
    """First recorded step at which the loss of network or twin is not finite or has exploded; -1 where it never does."""
    with np.errstate(invalid="ignore", over="ignore"):
        out = np.zeros(network_loss.shape, dtype=bool)
        for loss in (network_loss, twin_loss):
            out |= ~np.isfinite(loss) | (loss > EXPLODED * loss[..., :1])
    return np.where(out.any(-1), step_number[out.argmax(-1)], -1)
