"""Constants of the static cost model from timed buckets: those with the smallest squared logarithms of timed over estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, mean, median

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.cost import Sizes, arithmetic
from nqf_pipeline.study.pilot import Timing
from nqf_pipeline.study.rates import MOMENTS, OTHER, ROWWISE_MOMENTS, Family, Rates, family_name

DISPATCH, RATE, BATCH, DOUBLE = 20e-6, 50e9, 10e-6, 2.0
"""Where the fit starts, and what a weak pull holds a constant to that no timing determines (a family of one size)."""
PULL, NOISE = 0.01, 1e-7
"""Weight of the pull; seconds of a record below which a timing says nothing."""


@dataclass(frozen=True)
class Timed:
    """A bucket: one of its cells, its sizes, and what the pilot measured."""

    cell: Cell
    sizes: Sizes
    timing: Timing


@dataclass(frozen=True)
class _Steps:
    """Steps of all buckets as arrays: seconds of a lane-step = dispatch / lanes + work / rate + batch."""

    family: Float[np.ndarray, "buckets"]
    work: Float[np.ndarray, "buckets"]
    double: Float[np.ndarray, "buckets"]
    batch: Float[np.ndarray, "buckets"]
    lanes: Float[np.ndarray, "buckets"]
    seconds: Float[np.ndarray, "buckets"]

    def parts(self, logs: Float[np.ndarray, "parameters"]) -> tuple[np.ndarray, np.ndarray]:
        """(share of a call, what one lane adds), by bucket. Parameters: log of every dispatch, of every rate, of batch and double."""
        families = (len(logs) - 2) // 2
        dispatch, rate, (batch, double) = np.exp(logs[:families]), np.exp(logs[families : 2 * families]), np.exp(logs[-2:])
        lane = self.work * np.where(self.double, double, 1.0) / rate[self.family] + self.batch * batch
        return dispatch[self.family] / self.lanes, lane


def fitted(found: Sequence[Timed], imports: float, measured: str) -> Rates:
    """All constants."""
    names = sorted({family_name(case.cell) for case in found})
    steps = _steps(found, names)
    start = np.log([*[DISPATCH] * len(names), *[RATE] * len(names), BATCH, DOUBLE])

    def errors(logs: np.ndarray) -> np.ndarray:
        call, lane = steps.parts(logs)
        return np.concatenate([np.log(call + lane) - np.log(steps.seconds), PULL * (logs - start)])

    logs = least_squares(errors, start).x
    record, record_steps = _records(found, steps.parts(logs)[1])
    values = np.exp(logs)
    families = {
        name: _family([case for case in found if family_name(case.cell) == name], values[at], values[len(names) + at], imports)
        for at, name in enumerate(names)
    }
    return Rates(
        measured=measured,
        imports=_digits(imports),
        record=_digits(record),
        record_steps=_digits(record_steps),
        batch=_digits(values[-2]),
        double=_digits(values[-1]),
        families=families | {OTHER: _middling([known for name, known in families.items() if name not in (MOMENTS, ROWWISE_MOMENTS)])},
    )


def _steps(found: Sequence[Timed], names: list[str]) -> _Steps:
    double = np.array([case.cell.precision == "float64" for case in found])
    single = [case.cell.model_copy(update={"precision": "float32"}) for case in found]
    return _Steps(
        family=np.array([names.index(family_name(case.cell)) for case in found]),
        work=np.array([arithmetic(cell, case.sizes) for cell, case in zip(single, found, strict=True)]),
        double=double,
        batch=np.array([float(case.cell.optimizer.batch_size is not None) for case in found]),
        lanes=np.array([float(case.timing.lane_width) for case in found]),
        seconds=np.array([max(case.timing.step, 1e-9) for case in found]),
    )


def _records(found: Sequence[Timed], lane: Float[np.ndarray, "buckets"]) -> tuple[float, float]:
    """(seconds of a record however small, lane-steps beyond that)."""
    timed = np.array([case.timing.record for case in found])
    told = timed > NOISE

    def errors(logs: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(np.exp(logs[0]) + np.exp(logs[1]) * lane[told]) - np.log(timed[told]))

    fixed, steps = np.exp(least_squares(errors, np.log([2e-5, 1.5]), loss="soft_l1").x)
    return float(fixed), float(steps)


def _family(cases: list[Timed], dispatch: float, rate: float, imports: float) -> Family:
    starts = [max(case.timing.start - imports, 0.01) for case in cases]
    return Family(
        dispatch=_digits(dispatch),
        rate=_digits(rate),
        start=_digits(geometric_mean(starts)),
        cell=_digits(mean(case.timing.cell for case in cases)),
    )


def _middling(known: list[Family]) -> Family:
    return Family(**{name: _digits(median(getattr(one, name) for one in known)) for name in Family.model_fields})


def _digits(value: float) -> float:
    """Three digits."""
    return float(f"{value:.3g}")
