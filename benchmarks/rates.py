"""Constants of the static cost model from timed buckets: those with the smallest squared logarithms of timed over estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean, mean, median

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.cost import Sizes, arithmetic
from nqf_pipeline.study.pilot import Timing
from nqf_pipeline.study.rates import OTHER, Family, Rates, family_name, lanes_in_turns, on_moments

DISPATCH, RATE, BATCH, DOUBLE = 20e-6, 50e9, 10e-6, 2.0
"""Where the fit starts, and what a weak pull holds a constant to that no timing determines (a family of one size)."""
PULL, NOISE = 0.01, 1e-7
"""Weight of the pull; seconds of a record below which a timing says nothing."""
LEAST_SHARE = 0.1
"""Of a step: a call that takes less of it in every bucket is not told from the rate, and left out, as is that of a family of one size."""


@dataclass(frozen=True)
class Timed:
    """A bucket: one of its cells, its sizes, and what the pilot measured."""

    cell: Cell
    sizes: Sizes
    timing: Timing


@dataclass(frozen=True)
class _Steps:
    """Steps of all buckets as arrays: seconds of a lane-step = dispatch / lanes that share it + work / rate + batch."""

    family: Float[np.ndarray, "buckets"]
    work: Float[np.ndarray, "buckets"]
    double: Float[np.ndarray, "buckets"]
    batch: Float[np.ndarray, "buckets"]
    lanes: Float[np.ndarray, "buckets"]
    seconds: Float[np.ndarray, "buckets"]
    told: Float[np.ndarray, "families"]
    """1 where the timings tell a family's dispatch, 0 where it is left out."""

    def telling(self, logs: Float[np.ndarray, "parameters"]) -> _Steps:
        """The same, without the calls that no bucket tells from its arithmetic."""
        call, lane = self.parts(logs)
        share = call / (call + lane)
        own = [self.family == family for family in range(len(self.told))]
        return replace(self, told=np.array([len({*self.work[at]}) > 1 and share[at].max() >= LEAST_SHARE for at in own], float))

    def parts(self, logs: Float[np.ndarray, "parameters"]) -> tuple[np.ndarray, np.ndarray]:
        """(share of a call, what one lane adds), by bucket. Parameters: log of every dispatch, of every rate, of batch and double."""
        families = (len(logs) - 2) // 2
        dispatch, rate, (batch, double) = self.told * np.exp(logs[:families]), np.exp(logs[families : 2 * families]), np.exp(logs[-2:])
        lane = self.work * np.where(self.double, double, 1.0) / rate[self.family] + self.batch * batch
        return dispatch[self.family] / self.lanes, lane


def fitted(found: Sequence[Timed], imports: float, measured: str) -> Rates:
    """All constants."""
    names = sorted({_name(case) for case in found})
    steps = _steps(found, names)
    start = np.log([*[DISPATCH] * len(names), *[RATE] * len(names), BATCH, DOUBLE])

    def best(steps: _Steps) -> np.ndarray:
        def errors(logs: np.ndarray) -> np.ndarray:
            call, lane = steps.parts(logs)
            return np.concatenate([np.log(call + lane) - np.log(steps.seconds), PULL * (logs - start)])

        return np.asarray(least_squares(errors, start).x)

    steps = steps.telling(best(steps))
    logs = best(steps)
    record, record_steps = _records(found, steps.parts(logs)[1])
    values = np.exp(logs)
    families = {
        name: _family([case for case in found if _name(case) == name], steps.told[at] * values[at], values[len(names) + at], imports)
        for at, name in enumerate(names)
    }
    networks = {_name(case) for case in found if not on_moments(case.cell)}
    return Rates(
        measured=measured,
        imports=_digits(imports),
        record=_digits(record),
        record_steps=_digits(record_steps),
        batch=_digits(values[-2]),
        double=_digits(values[-1]),
        families=families | {OTHER: _middling([families[name] for name in sorted(networks)])},
    )


def _name(case: Timed) -> str:
    return family_name(case.cell, case.sizes.side)


def _steps(found: Sequence[Timed], names: list[str]) -> _Steps:
    double = np.array([case.cell.precision == "float64" for case in found])
    single = [case.cell.model_copy(update={"precision": "float32"}) for case in found]
    return _Steps(
        family=np.array([names.index(_name(case)) for case in found]),
        work=np.array([arithmetic(cell, case.sizes) for cell, case in zip(single, found, strict=True)]),
        double=double,
        batch=np.array([float(case.cell.optimizer.batch_size is not None) for case in found]),
        lanes=np.array([1.0 if lanes_in_turns(case.cell, case.sizes.side) else float(case.timing.lane_width) for case in found]),
        seconds=np.array([max(case.timing.step, 1e-9) for case in found]),
        told=np.ones(len(names)),
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
