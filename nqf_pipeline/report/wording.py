"""Numbers as a reader wants them: few digits, units attached."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

SMALLEST = 1e-5
"""Relative errors below are 'less than' this: nobody reads further digits."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(value: float) -> str:
    """Two significant digits: 0.0153 is '1.5 %'. From tenfold on a factor reads better: 70.5 is '71 ×'."""
    if not math.isfinite(value):
        return "n/a"
    if abs(value) >= 10.0:
        return f"{value:,.0f}\u00a0×"
    if 0.0 < abs(value) < SMALLEST:
        return f"<\u00a0{100 * SMALLEST:g}\u00a0%"
    share = 100.0 * value
    if share == 0.0:
        return "0\u00a0%"
    digits = max(0, 1 - math.floor(math.log10(abs(share)) + 1e-12))
    return f"{share:.{min(digits, 4)}f}\u00a0%"


def number(value: float) -> str:
    """Short: 0.001 stays, 1e-30 is written so, 12345 is '12,345'."""
    if not math.isfinite(value):
        return "n/a"
    if value == 0 or 1e-4 < abs(value) < 1e6:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def short(value: float) -> str:
    """A step number for narrow places: 1234 is '1.2k'."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}" if value >= 100 * unit else f"{value / unit:.2g}{name}"
    return f"{value:.0f}"


def plural(count: int, noun: str) -> str:
    """'1 network', '12 networks'."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(names: Sequence[str]) -> str:
    """'a, b and c'."""
    names = list(names)
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def power(value: float) -> str:
    """A power of ten as text, '10⁻³' (mathtext would cost as much as the curves)."""
    return "10" + str(round(math.log10(value))).translate(_RAISED) if value > 0 else ""


def spread(errors: pd.Series) -> str:
    """'median 1.5 %, worst 3 %' of signed relative errors."""
    sizes = errors.abs()
    return f"median {percent(sizes.median())}, worst {percent(sizes.max())}"
