"""Student's quantile, for every interval that rests on few numbers. Without `scipy.stats`, which takes a second to import."""

from __future__ import annotations

from typing import Any

from scipy.special import stdtrit


def student(confidence: float, free: Any) -> Any:
    """How many standard errors a two-sided interval of this confidence reaches on either side, by degrees of freedom (NaN: none)."""
    return stdtrit(free, 0.5 + confidence / 2)
