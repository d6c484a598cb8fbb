"""Numbers that several claims read off the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nqf_pipeline.analysis.claims.claim import Finding
from nqf_pipeline.analysis.claims.estimate import CONFIDENCE, Estimate, median_of
from nqf_pipeline.analysis.claims.evidence import Evidence
from nqf_pipeline.analysis.windows import Unresolved
from nqf_pipeline.theory.student import student

Measure = Callable[[Evidence], Finding]


def sizes(rows: pd.DataFrame) -> pd.Series:
    """Size of each row's relative timing error; infinite where only the curve or only the prediction has the ignition."""
    return rows["relative_error"].abs().where(rows["status"] == "matched", np.inf)


def cell_errors(rows: pd.DataFrame) -> pd.Series:
    """Median of `sizes` in each cell: modes of one network are not independent, networks are."""
    return sizes(rows).groupby(rows["cell"]).median()


def timing(within: float, **conditions: Any) -> Measure:
    """Typical timing error of a tier (or of the twin): median over networks, with its interval. A missed mode is infinitely wrong."""

    def measure(evidence: Evidence) -> Finding:
        rows = evidence.matched(**conditions)
        due = evidence.ignitions(**conditions)
        note = (
            f"Median over {rows['cell'].nunique()} networks of each one's median; {len(rows)} of {len(due)} modes due or seen, worst "
            f"{rows['relative_error'].abs().max():.2%}."
        )
        return Finding.equals(0.0, median_of(cell_errors(due)), within, note, absolute=True)

    return measure


def slope_of(x: Sequence[float] | pd.Series, y: Sequence[float] | pd.Series) -> Estimate:
    """Least-squares slope with Student's 95 % interval. Raises Unresolved for fewer than three points or a single x."""
    if len(x) < 3 or len(set(np.asarray(x))) < 2:
        raise Unresolved(f"a slope needs three points at two places, and there are {len(x)}")
    from scipy import stats  # takes long to import, and most studies never need it

    fit = stats.linregress(np.asarray(x, float), np.asarray(y, float))
    half = float(student(CONFIDENCE, len(x) - 2) * fit.stderr)
    return Estimate(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half)


def scaled(found: Estimate, factor: float) -> Estimate:
    """The same in another unit (a positive factor)."""
    return Estimate(found.value * factor, found.low * factor, found.high * factor)


def log_epsilon(rows: pd.DataFrame) -> pd.Series:
    """ln(1/epsilon) of each row."""
    return -np.log(rows["epsilon"].astype(float))


def flow_times(rows: pd.DataFrame, column: str = "t_measured") -> pd.Series:
    """A column of steps as gradient-flow time."""
    return rows[column] * rows["time_scale"]
