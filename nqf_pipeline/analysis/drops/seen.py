"""Drops and the plateaus before them on loss curves in log time: the detector of `nqf fit`, all curves on one grid of steps in one call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.analysis.curves.describe import fine_many
from nqf_pipeline.analysis.curves.noise import noise_many
from nqf_pipeline.analysis.curves.steps import Drop, Plateau, steps_many
from nqf_pipeline.analysis.ignition import valid_records

LEARNT = 1e-4
"""Share of the loss at the start that is added to every loss: below it a loss that decays for ever counts as one level."""
NORMAL = 1.96
"""Deviations of a 95 % interval."""
LEFT = 0.25
"""Share of the loss of a mode that is left at half strength."""
Losses = Float[np.ndarray, "cells records"]


@dataclass(frozen=True)
class Seen:
    """A drop with the plateau that it ends; times in steps."""

    time: float
    """Three quarters of the fall are made: half strength of a mode that is learnt by itself."""
    low: float
    high: float
    """95 % interval; `high` is inf where the records end in a fall that may go on for long."""
    plateau_start: float
    plateau_end: float
    plateau_loss: float


@dataclass(frozen=True)
class Curve:
    """What was seen of one loss."""

    drops: tuple[Seen, ...]
    last_step: float
    """Last step before the loss stops being finite, or blows up; NaN: never was."""


def lifted(loss: Float[np.ndarray, "*cells records"]) -> Float[np.ndarray, "*cells records"]:
    """Losses with the level added below which everything is learnt."""
    return np.asarray(loss + LEARNT * loss[..., :1])


def look(step_number: Int[np.ndarray, "cells records"], loss: Losses) -> list[Curve]:
    """The drops of each loss. Record 0, the start, has no place in log time and is left out."""
    count = valid_records(loss).sum(1)
    found = [Curve((), float(steps[n - 1]) if n else float("nan")) for steps, n in zip(step_number, count, strict=True)]
    _, grid = np.unique(step_number, axis=0, return_inverse=True)
    for number, records in sorted({*zip(grid.ravel().tolist(), count.tolist(), strict=True)}):
        cells = np.flatnonzero((grid.ravel() == number) & (count == records) & (loss[:, 0] > 0))
        if not len(cells):
            continue
        inside = np.flatnonzero((step_number[cells[0]] > 0) & (np.arange(loss.shape[1]) < records))
        if len(inside) < 2:
            continue
        time, values = step_number[cells[0], inside].astype(float), lifted(loss[cells])[:, inside]
        log_loss = np.log(values)
        events = steps_many(fine_many(time, log_loss, noise_many(log_loss)))
        for cell, curve, (plateaus, drops) in zip(cells, values, events, strict=True):
            seen = tuple(_seen(time, curve, drop, plateaus, LEARNT * loss[cell, 0]) for drop in drops)
            found[cell] = Curve(seen, found[cell].last_step)
    return found


def _seen(time: np.ndarray, loss: np.ndarray, drop: Drop, plateaus: list[Plateau], added: float) -> Seen:
    before = max((plateau for plateau in plateaus if plateau.start < drop.start * (1 + 1e-9)), key=lambda plateau: plateau.start)
    high = drop.time + NORMAL * drop.uncertainty
    if drop.kind == "unfinished":
        high = max(high, _latest(time, loss, before))
    low = max(drop.time - NORMAL * drop.uncertainty, 0.0)
    return Seen(drop.time, low, high, before.start, before.end, float(before.loss - added))


def _latest(time: np.ndarray, loss: np.ndarray, before: Plateau) -> float:
    """Three quarters of the fall were the loss to end at zero; inf: the records end before."""
    made = (time > before.end) & (loss <= LEFT * before.loss)
    return float(time[made.argmax()]) if made.any() else float("inf")
