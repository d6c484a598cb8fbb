"""Exponents carried to epsilon -> 0 and infinitely many modes, from the runs of one setting at several epsilon.

Finite modes: the loss that the missing modes would add (`missing_tail`, analytic) is added to the curve before the fit, in the window that
the exponents table gives. Finite epsilon, two ways, neither of which is told the limit that it should find:

- `extrapolated`: 1 / k is a straight line in x = 1 / ln(1/epsilon), the form of the local exponent k = (alpha1 - 1) / (alpha2 - s x)
  (theory: section 5, "Care"); its value at x = 0. Needs three epsilon. What is left out (a mode's own plateau) is of order x^2.
- `shifted`: from each k the shift is taken that the theory's curve has in the same window at the same epsilon (its fit minus its
  limit); mean over epsilon. One epsilon is enough, but this one believes the theory's shift.

Intervals are the wider of Student's from the spread over epsilon and of the delete-one jackknife over seeds, which share their draws of
weights between all epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from nqf_pipeline.analysis.powerlaw import straight_many
from nqf_pipeline.store.open import Study
from nqf_pipeline.store.schema import Status
from nqf_pipeline.store.select import Curves
from nqf_pipeline.store.tables import TABLES, write_table
from nqf_pipeline.theory.student import student

FEWEST = 3
"""Epsilon values that a straight line with an interval needs."""
_NAMES = ("network_loss", "twin_loss", "missing_tail", "expected_loss")
_SCALE = frozenset({"sigma", "epsilon"})
_FOUND = frozenset(column.name for column in TABLES["exponents"]) - {"architecture", "task", "optimizer", "source", "bucket"}
Slopes = Float[np.ndarray, "epsilons"]


@dataclass(frozen=True)
class Approach:
    """Tail-corrected exponents of one setting, largest epsilon first."""

    epsilon: Slopes
    measured: Slopes
    """As in the exponents table, without the tail."""
    corrected: Slopes
    without: Float[np.ndarray, "seeds epsilons"]
    """`corrected` with one seed left out."""
    predicted: Slopes
    """The same fit of the expected curve, tail added."""
    limit: float

    @property
    def inverse(self) -> Slopes:
        """x = 1 / ln(1/epsilon)."""
        return 1 / np.log(1 / self.epsilon)


def write_extrapolation(study: Study, confidence: float = 0.95) -> pd.DataFrame:
    """Write the table `extrapolation` of an analysed study: a row a setting (all its epsilon) and source."""
    rows = [row(key, approach, confidence) for key, approach in approaches(study)]
    return write_table(study.path, "extrapolation", pd.DataFrame(rows))


def approaches(study: Study) -> Iterator[tuple[dict[str, Any], Approach]]:
    """Settings with a declared limit and a resolved exponent at one epsilon or more."""
    table = study.exponents
    if table.empty:
        return
    table = table[(table["status"] == "ok") & table["predicted_limit"].notna() & table["source"].isin(["network", "twin"])]
    index = study.index[study.index["status"] == int(Status.done)]
    keys = [name for name in table if name not in _FOUND and name not in _SCALE]
    groups = [group for _, group in table.sort_values("epsilon", ascending=False).groupby(keys, dropna=False, sort=False)]
    cells = _Cells(index, [name for name in table if name in index and name not in _FOUND - _SCALE])
    read = study.curves_of_groups((cells.of(fitted) for group in groups for _, fitted in group.iterrows()), *_NAMES)
    for group in groups:
        found = [(float(fitted["epsilon"]), _corrected(next(read, []), fitted)) for _, fitted in group.iterrows()]
        epsilon, parts = np.array([e for e, part in found if part]), [part for _, part in found if part]
        if parts:
            seeds = min(len(part[2]) for part in parts)
            columns = [np.array(column) for column in zip(*((*part[:2], part[2][:seeds], part[3]) for part in parts), strict=True)]
            limit = float(group["predicted_limit"].iloc[0])
            approach = Approach(epsilon, columns[0], columns[1], columns[2].T, columns[3], limit)
            yield {name: group[name].iloc[0] for name in keys}, approach


class _Cells:
    """Finished cells by the coordinates that they share with a table; floats equal in twelve digits, nothing equal to nothing."""

    def __init__(self, index: pd.DataFrame, names: list[str]) -> None:
        self._index, self._names = index.sort_values("seed") if len(index) else index, names
        keys = pd.DataFrame({name: _keys(self._index[name]) for name in names})
        self._places = keys.groupby(names, sort=False).indices if names and len(keys) else {}

    def of(self, fitted: pd.Series) -> pd.DataFrame:
        """In order of their seeds."""
        key = tuple(_key(fitted[name]) for name in self._names)
        return self._index.iloc[self._places.get(key if len(key) > 1 else key[0], [])]


def _keys(column: pd.Series) -> np.ndarray:
    """`_key` of every value; each different one is written once."""
    codes, different = pd.factorize(column, use_na_sentinel=False)
    return np.array([_key(value) for value in different], object)[codes]


def _key(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if pd.isna(value) else f"{float(value):.12g}"


def _corrected(cells: list[Curves], fitted: pd.Series) -> tuple[float, float, np.ndarray, float] | None:
    """(exponent, corrected, corrected without each seed, corrected prediction) in the fitted window; None where no tail is stored."""
    curves = [curve for curve in cells if curve.of("missing_tail") is not None]
    if not curves or curves[0].of("expected_loss") is None:
        return None
    time = curves[0].time
    inside = (time >= fitted["window_start"] * (1 - 1e-9)) & (time <= fitted["window_end"] * (1 + 1e-9))
    tail, expected = (np.asarray(curves[0].of(name))[inside] for name in ("missing_tail", "expected_loss"))
    floor = float(fitted["floor"]) if fitted["floor"] > 0 else 0.0
    losses = np.array([curve.data[f"{fitted['source']}_loss"].to_numpy()[inside] for curve in curves]) - floor + tail
    mean = losses.mean(0)
    left = (mean * len(losses) - losses) / (len(losses) - 1) if len(losses) > 1 else losses[:0]
    slopes = straight_many(time[inside], np.array([mean, expected - floor + tail, *left]))
    return float(fitted["exponent"]), float(slopes[0]), slopes[2:], float(slopes[1])


def row(key: dict[str, Any], approach: Approach, confidence: float = 0.95) -> dict[str, Any]:
    """One row of the table."""
    straight = _limit(approach, _straight, _straight_error, confidence) if len(approach.epsilon) >= FEWEST else (float("nan"),) * 3
    shifted = _limit(approach, _shifted, _shifted_error, confidence)
    return {
        **key,
        "epsilons": len(approach.epsilon),
        "seeds": max(len(approach.without), 1),
        "epsilon_high": approach.epsilon.max(),
        "epsilon_low": approach.epsilon.min(),
        "exponent": approach.measured[-1],
        "corrected": approach.corrected[-1],
        "predicted_corrected": approach.predicted[-1],
        **dict(zip(("extrapolated", "ci_low", "ci_high"), straight, strict=True)),
        **dict(zip(("shifted", "shifted_low", "shifted_high"), shifted, strict=True)),
        "predicted_limit": approach.limit,
        "relative_error": straight[0] / approach.limit - 1,
        "shifted_error": shifted[0] / approach.limit - 1,
    }


Estimator = Callable[[Approach, Slopes], float]


def _limit(approach: Approach, estimate: Estimator, error: Callable[[Approach], tuple[float, int]], confidence: float) -> tuple[float, ...]:
    value = estimate(approach, approach.corrected)
    halves = [0.0]
    size, freedom = error(approach)
    if freedom > 0:
        halves.append(size * float(student(confidence, freedom)))
    seeds = len(approach.without)
    if seeds > 1:
        left = np.array([estimate(approach, slopes) for slopes in approach.without])
        spread = np.sqrt((seeds - 1) / seeds * np.sum((left - left.mean()) ** 2))
        halves.append(float(student(confidence, seeds - 1)) * spread)
    return value, value - max(halves), value + max(halves)


def carried(epsilon: Slopes, slopes: Slopes) -> float:
    """Exponents carried to epsilon = 0: 1 / k as a straight line in 1 / ln(1/epsilon)."""
    return float(1 / np.polyfit(1 / np.log(1 / epsilon), 1 / slopes, 1)[1])


def _straight(approach: Approach, slopes: Slopes) -> float:
    return carried(approach.epsilon, slopes)


def _straight_error(approach: Approach) -> tuple[float, int]:
    """Standard error of the intercept of 1 / k, carried to k, and its degrees of freedom."""
    x, y = approach.inverse, 1 / approach.corrected
    slope, intercept = np.polyfit(x, y, 1)
    freedom = len(x) - 2
    if freedom < 1:
        return 0.0, 0
    scatter = np.sum((y - slope * x - intercept) ** 2) / freedom
    error = np.sqrt(scatter * (1 / len(x) + x.mean() ** 2 / np.sum((x - x.mean()) ** 2)))
    return float(error / intercept**2), freedom


def _shifted(approach: Approach, slopes: Slopes) -> float:
    return float(np.mean(slopes - (approach.predicted - approach.limit)))


def _shifted_error(approach: Approach) -> tuple[float, int]:
    count = len(approach.epsilon)
    if count < 2:
        return 0.0, 0
    return float(np.std(approach.corrected - approach.predicted, ddof=1) / np.sqrt(count)), count - 1
