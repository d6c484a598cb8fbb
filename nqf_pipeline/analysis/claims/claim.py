"""A claim and what was found about it. The verdict follows from numbers by one rule; nobody writes it down.

A claim accepts a range of values around (or on one side of) its prediction. It *holds* where the whole interval of the measurement lies in
that range, *fails* where the whole interval lies outside, and is *not resolved* otherwise: an interval that reaches across the edge, or no
number at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nqf_pipeline.analysis.claims.estimate import Estimate, exactly
from nqf_pipeline.analysis.claims.evidence import Evidence

Verdict = Literal["holds", "fails", "not resolved"]


@dataclass(frozen=True)
class Finding:
    """Prediction and measurement of one claim, in the units of its statement."""

    predicted: float
    measured: float
    low: float
    high: float
    """Interval of the measurement; both ends equal `measured` where it has no spread."""
    accept_low: float
    accept_high: float
    """Range of measurements that agree with the prediction."""
    note: str
    """How it was measured, or why it is not resolved."""

    @classmethod
    def equals(cls, predicted: float, measured: Estimate | float, within: float, note: str, absolute: bool = False) -> Finding:
        """The measurement agrees up to `within`: a share of the prediction, or in its own units where `absolute`."""
        margin = within if absolute else within * abs(predicted)
        return cls._of(predicted, measured, predicted - margin, predicted + margin, note)

    @classmethod
    def at_most(cls, bound: float, measured: Estimate | float, note: str) -> Finding:
        """The measurement does not exceed a bound."""
        return cls._of(bound, measured, -math.inf, bound, note)

    @classmethod
    def at_least(cls, bound: float, measured: Estimate | float, note: str) -> Finding:
        """The measurement reaches a bound."""
        return cls._of(bound, measured, bound, math.inf, note)

    @classmethod
    def unresolved(cls, reason: str) -> Finding:
        """No number, and why."""
        return cls(*(math.nan,) * 6, note=reason)

    @classmethod
    def _of(cls, predicted: float, measured: Estimate | float, low: float, high: float, note: str) -> Finding:
        found = measured if isinstance(measured, Estimate) else exactly(measured)
        return cls(float(predicted), found.value, found.low, found.high, float(low), float(high), note)

    @property
    def verdict(self) -> Verdict:
        """Interval against accepted range."""
        if any(math.isnan(value) for value in (self.measured, self.low, self.high, self.accept_low, self.accept_high)):
            return "not resolved"
        if self.accept_low <= self.low and self.high <= self.accept_high:
            return "holds"
        return "fails" if self.high < self.accept_low or self.low > self.accept_high else "not resolved"


@dataclass(frozen=True)
class Claim:
    """One statement of the paper (or of its limits), and how a study in config/ measures it."""

    id: str
    """Unique, for people: `figure3.plateau_heights`."""
    statement: str
    """What is said, in words, with units and conventions."""
    source: str
    """Theorem, equation, figure or section."""
    study: str
    """`name` of the study in config/ that measures it."""
    measure: Callable[[Evidence], Finding]
    """Raises Unresolved (or finds cells missing through Evidence, which does) where the study cannot tell."""
