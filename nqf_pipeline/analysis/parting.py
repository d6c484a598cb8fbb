"""When the training losses of a network and of its twin part, and how far apart they end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

THRESHOLD = 0.1
"""Relative difference of the losses, |network / twin - 1|, from which on the two have parted."""


@dataclass(frozen=True)
class Parting:
    """Where two curves part. All nan but `end_ratio` where they never do."""

    step: float
    """First recorded step at which the losses differ by more than the threshold."""
    loss: float
    """The network's loss there."""
    learnt: float
    """Share of everything the twin ever learns (the whole drop of its loss) that it has learnt by then."""
    end_ratio: float
    """Final loss of the network over that of the twin."""


def parting(
    network: Float[np.ndarray, "records"],
    twin: Float[np.ndarray, "records"],
    steps: Int[np.ndarray, "records"],
    threshold: float = THRESHOLD,
) -> Parting:
    """The first parting of two recorded curves."""
    apart = np.abs(network / twin - 1) > threshold
    end_ratio = float(network[-1] / twin[-1])
    if not apart.any():
        return Parting(np.nan, np.nan, np.nan, end_ratio)
    first = int(apart.argmax())
    drop = float(twin[0] - twin.min())
    learnt = float(twin[0] - twin[: first + 1].min()) / drop if drop > 0 else np.nan
    return Parting(float(steps[first]), float(network[first]), learnt, end_ratio)
