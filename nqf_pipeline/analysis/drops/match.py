"""Which drop belongs to which prediction: one global assignment, in which either may stay alone.

The cost of a pair is |ln(t_seen / t_predicted)|. Pairs further apart than `GATE` are none; what stays alone costs half the gate, so that
an assignment never gains by leaving out a pair within it. Of several readings of the modes the cheapest is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from nqf_pipeline.analysis.curves.steps import DROP, FALL
from nqf_pipeline.analysis.drops.expected import Expected
from nqf_pipeline.analysis.drops.seen import Curve, Seen

GATE = float(np.log(1.5))
"""Largest distance of a pair in ln time: a factor of 1.5."""
STEEP = 0.75 * DROP
"""Longest predicted fall, in ln time, that must be seen as a drop: to the detector one of a decade, feet and tails included, is a slope."""
Status = Literal["matched", "unmatched_plateau", "unmatched_mode", "censored"]


@dataclass(frozen=True)
class Match:
    """One row: a drop, a prediction, or both."""

    seen: Seen | None
    expected: Expected | None
    status: Status

    @property
    def time(self) -> float:
        """Step by which rows are ordered."""
        return self.seen.time if self.seen else self.expected.time if self.expected else float("nan")


def match(curve: Curve, readings: Iterable[Sequence[Expected]]) -> list[Match]:
    """The rows of one curve and tier, in order of time."""
    best = min((_assigned(curve, expected) for expected in readings), key=lambda found: found[0])
    return sorted(best[1], key=lambda row: row.time)


def due(expected: Expected, last_step: float) -> bool:
    """Whether the curve must show a drop: a fall over within the records, and large and steep enough for what counts as a drop."""
    steep = 0 < expected.over <= expected.start * np.exp(STEEP)
    return bool(steep and expected.over <= last_step and not expected.fall < FALL)


def _assigned(curve: Curve, expected: Sequence[Expected]) -> tuple[float, list[Match]]:
    """(cost, rows)."""
    distance = np.abs(np.subtract.outer(np.log([s.time for s in curve.drops]), np.log([e.time for e in expected])))
    pairs = [(i, j) for i, j in zip(*linear_sum_assignment(np.minimum(distance, GATE)), strict=True) if distance[i, j] < GATE]
    rows = [Match(curve.drops[i], expected[j], "matched" if np.isfinite(curve.drops[i].high) else "censored") for i, j in pairs]
    alone = sorted({*range(len(curve.drops))} - {i for i, _ in pairs})
    rows += [Match(curve.drops[i], None, "unmatched_plateau") for i in alone]
    for j in sorted({*range(len(expected))} - {j for _, j in pairs}):
        rows.append(Match(None, expected[j], "unmatched_mode" if due(expected[j], curve.last_step) else "censored"))
    lonely = sum(row.status.startswith("unmatched") for row in rows)
    return float(sum(distance[pair] for pair in pairs)) + GATE / 2 * lonely, rows
