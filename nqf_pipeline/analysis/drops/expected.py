"""Which drops a loss curve should show, from predicted ignitions and the widths of their steps.

Two modes make two drops where the curve is flat between them for long enough, one drop where it is not. The *separation* of
`theory.sudden` says which: the gap between half-saturations over the mean width (10 to 90 %) of the two steps. Below 1 the steps overlap:
one drop. From `APART` on, with a flat stretch of `FLAT` in ln time between them, the detector tells them apart whatever their sizes.
Between the two bounds it depends on sizes and records, and both readings are offered: the curve decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.analysis.drops.seen import LEFT
from nqf_pipeline.theory.sudden import THRESHOLD

APART = 2.5
"""Separation from which on two steps are two drops."""
FLAT = 0.4
"""Stretch between two steps, in ln time, that is always enough for the detector (seven of its bins)."""
OPEN = 6
"""Gaps of one cell that may be read both ways; the narrowest beyond are closed."""
Modes = Float[np.ndarray, "modes"]
Order = Int[np.ndarray, "steps"]


@dataclass(frozen=True)
class Prediction:
    """What one tier says of one cell; times in steps."""

    number: Int[np.ndarray, "modes"]
    time: Modes
    """Ignition; inf: never; NaN: no statement."""
    width: Modes
    """From 10 to 90 %; NaN: not known, taken as 0."""
    steps: Float[np.ndarray, "records"]
    loss: Float[np.ndarray, "records"]
    """Predicted loss at the records, lifted as the measured one; NaN: no statement."""


@dataclass(frozen=True)
class Expected:
    """A drop that one or several modes make."""

    modes: tuple[int, ...]
    """Numbers of the modes, in order of ignition."""
    time: float
    """Ignition of a single mode; of several, when three quarters of their common fall are made."""
    start: float
    """A width before the ignition of its first mode (which has 1 % then)."""
    over: float
    """A width after that of its last (99 %)."""
    fall: float
    """Of ln loss; NaN: not known."""

    @property
    def label(self) -> str:
        """'2', or '2-3'."""
        return "-".join(map(str, self.modes))


def readings(prediction: Prediction) -> Iterator[list[Expected]]:
    """Every way to read the modes that ignite as drops, in order of time; there is one way where all gaps are clear."""
    time, width = prediction.time, np.nan_to_num(prediction.width)
    finite = np.flatnonzero(np.isfinite(time) & (time > 0))
    order = finite[np.argsort(time[finite], kind="stable")]
    choices = [[True] if apart else [False, True] if unclear else [False] for apart, unclear in _gaps(time[order], width[order])]
    for cuts in product(*choices):
        yield _drops(prediction, width, np.split(order, np.flatnonzero(cuts) + 1)) if len(order) else []


def _gaps(time: Modes, width: Modes) -> list[tuple[bool, bool]]:
    """Of each gap between neighbours in time: whether they are two drops for certain, and whether they may be."""
    mean = (width[1:] + width[:-1]) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        separation = np.nan_to_num(np.diff(time) / mean, nan=0.0)
        flat = np.log(np.maximum(time[1:] - width[1:] / 2, 0.0) / (time[:-1] + width[:-1] / 2))
    apart = (separation >= APART) & (flat >= FLAT)
    unclear = ~apart & (separation >= THRESHOLD) & (flat > 0)
    closed = np.flatnonzero(unclear)[np.argsort(-flat[unclear], kind="stable")][OPEN:]
    unclear[closed] = False
    return list(zip(apart.tolist(), unclear.tolist(), strict=True))


def _drops(prediction: Prediction, width: Modes, groups: list[Order]) -> list[Expected]:
    heads = np.array([group[0] for group in groups])
    first = prediction.time[heads] - width[heads]
    over = np.array([(prediction.time[group] + width[group]).max() for group in groups])
    between = (over[:-1] + first[1:]) / 2
    ends = np.concatenate([prediction.steps[:1], between, prediction.steps[-1:]])
    losses = np.interp(ends, prediction.steps, prediction.loss)
    fall, spans = np.log(losses[:-1] / losses[1:]).tolist(), list(zip(first.tolist(), over.tolist(), strict=True))
    found = []
    for i, group in enumerate(groups):
        time = float(prediction.time[group[0]])
        if len(group) > 1:
            before, after = losses[i : i + 2]
            middle = float(prediction.time[group].mean())
            time = _three_quarters(prediction, (ends[i], ends[i + 1]), after + LEFT * (before - after), middle)
        found.append(Expected(tuple(prediction.number[group].tolist()), time, *spans[i], fall[i]))
    return found


def _three_quarters(prediction: Prediction, stretch: tuple[float, float], level: float, otherwise: float) -> float:
    """When the predicted loss comes down to a level within a stretch; the middle of the modes where it says nothing."""
    inside = (prediction.steps >= stretch[0]) & (prediction.steps <= stretch[1])
    steps, loss = prediction.steps[inside], prediction.loss[inside]
    if not len(loss) or not (np.isfinite(loss).all() and loss[0] > level >= loss[-1]):
        return otherwise
    after = int((loss <= level).argmax())
    share = (loss[after - 1] - level) / (loss[after - 1] - loss[after])
    return float(steps[after - 1] + share * (steps[after] - steps[after - 1]))
