"""Compute-optimal trade-offs measured on ensembles of different sizes, and the loss against the number of modes learnt.

Experiments of one setting that differ in the number of modes n (or samples) are models of one infinite target: to the loss of each comes
that of the modes it lacks, sum_{k>n} V_k, known from its own initial loss and the declared exponent. For each compute C = n t (t in
gradient-flow time) the best n is the minimum over n, read off a parabola in ln n through the three best sizes; only C count whose best
size lies inside the sweep and whose best time lies beyond the ignition of mode `FIRST`. Exponents are slopes in ln C. The prediction is
the same procedure on the expected curves of theory.

Intervals: Student's, from the delete-one jackknife over seeds of everything, or the range over both halves of the window where that is
wider.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import zeta

from nqf_pipeline.analysis.ignition import flow_time, measure
from nqf_pipeline.analysis.sources import with_networks
from nqf_pipeline.store.open import Study
from nqf_pipeline.store.schema import Status
from nqf_pipeline.store.select import Curves
from nqf_pipeline.store.tables import write_table
from nqf_pipeline.theory.compute import Tradeoff, tradeoff
from nqf_pipeline.theory.student import student

SIZES = 4
"""Fewest sizes of a sweep."""
GRID = 192
"""Values of C between the cheapest and the dearest record."""
FIRST = 3
"""First mode of the loss against modes learnt, as for exponents in time."""
EXPONENTS = {"feature_power_law": ("alpha1", "alpha2", 1.0), "sample_power_law": ("gamma1", "gamma2", 2.0)}
"""Names of the exponents of a task, and the factor that makes the first one alpha1."""
Values = Float[np.ndarray, "points"]


@dataclass(frozen=True)
class Model:
    """All seeds of one size n: losses of the whole target at their records."""

    size: int
    time: Values
    loss: Float[np.ndarray, "seeds points"]
    expected: Values | None
    number: Float[np.ndarray, "watched"]
    ignition: Float[np.ndarray, "seeds watched"]
    """Gradient-flow time, nan where not ignited."""

    def at(self, time: Values, loss: Values) -> Values:
        """ln loss at other times; before the first record and after the last it stays what it is there."""
        return np.interp(np.log(time), np.log(self.time), np.log(loss))


@dataclass(frozen=True)
class Envelope:
    """Best loss and size at each compute."""

    compute: Values
    loss: Values
    size: Values


@dataclass(frozen=True)
class Sweep:
    """The models of one setting, smallest first."""

    key: dict[str, Any]
    models: tuple[Model, ...]
    alpha1: float
    alpha2: float

    @property
    def limit(self) -> Tradeoff:
        return tradeoff(self.alpha1, self.alpha2)

    @property
    def seeds(self) -> int:
        return min(len(model.loss) for model in self.models)

    @cached_property
    def measured(self) -> Envelope:
        return self._envelope([model.loss.mean(0) for model in self.models])

    @cached_property
    def predicted(self) -> Envelope | None:
        expected = [model.expected for model in self.models]
        return None if any(curve is None for curve in expected) else self._envelope([np.asarray(curve) for curve in expected])

    @cached_property
    def start(self) -> float:
        """Time at which mode `FIRST` ignites: before, all sizes stand on the first plateaus and none is best."""
        model = self.models[-1]
        time = np.nanmedian(model.ignition[:, model.number == FIRST])
        return float(time) if np.isfinite(time) else float("inf")

    def without(self, seed: int) -> Envelope:
        return self._envelope([np.delete(model.loss, seed, 0).mean(0) for model in self.models])

    def _envelope(self, losses: Sequence[Values]) -> Envelope:
        low = self.models[0].size * self.models[0].time[0]
        high = self.models[-1].size * self.models[-1].time[-1]
        compute = np.geomspace(low, high, GRID)
        size = np.log([model.size for model in self.models])
        table = np.array([model.at(compute / model.size, loss) for model, loss in zip(self.models, losses, strict=True)])
        best = table.argmin(0)
        chosen = np.exp(size[best])
        inside = (best > 0) & (best < len(size) - 1) & (compute > chosen * self.start)
        compute, table, best = compute[inside], table[:, inside], best[inside]
        columns = np.arange(len(compute))
        left, middle, right = (table[best + shift, columns] for shift in (-1, 0, 1))
        # The sizes are log-spaced evenly: the vertex of the parabola, in steps of ln n.
        step = size[1] - size[0]
        curve = left - 2 * middle + right
        shift = np.clip(np.divide(left - right, 2 * curve, out=np.zeros_like(curve), where=curve > 0), -1, 1)
        return Envelope(compute, np.exp(middle - curve * shift**2 / 2), np.exp(size[best] + shift * step))


def write_tradeoffs(study: Study, confidence: float = 0.95) -> pd.DataFrame:
    """Write the table `tradeoffs` of an analysed study."""
    rows = [row for sweep in sweeps(study) for row in sweep_rows(sweep, confidence)]
    return write_table(study.path, "tradeoffs", pd.DataFrame(rows))


def sweeps(study: Study) -> Iterator[Sweep]:
    """Settings of the power-law ensembles that were run at enough sizes."""
    index = study.index
    index = with_networks(index[(index["status"] == int(Status.done)) & index["task"].isin(list(EXPONENTS))])
    for task, part in index.groupby("task"):
        first, second, factor = EXPONENTS[str(task)]
        if "inputs" not in part or part["inputs"].nunique() < SIZES:
            continue
        keys = [first, second, "epsilon", "initial_profile", "optimizer", "learning_rate"]
        keys = [name for name in keys if name in part]
        for values, group in part.groupby(keys, dropna=False):
            if group["inputs"].nunique() >= SIZES:
                key = dict(zip(keys, values, strict=True)) | {"architecture": group["architecture"].iloc[0], "task": task}
                alpha1, alpha2 = factor * float(key[first]), float(key[second])
                models = [_model(study, int(size), cells, alpha1) for size, cells in group.groupby("inputs")]
                yield Sweep(key, tuple(models), alpha1, alpha2)


def _model(study: Study, size: int, cells: pd.DataFrame, alpha1: float) -> Model:
    names = ("network_loss", "network_mode", "expected_loss", "mode_number")
    curves = list(study.curves(cells.sort_values("seed"), *names))
    first, start = curves[0], np.array([c.of("network_loss") for c in curves])
    share = start[:, 0].mean() / np.sum(np.arange(1.0, size + 1) ** -alpha1)
    missing = share * zeta(alpha1, size + 1)
    expected = first.of("expected_loss")
    later = slice(1, None)
    return Model(
        size,
        first.time[later],
        start[:, later] + missing,
        None if expected is None else expected[later] + missing,
        np.asarray(first.of("mode_number"), float),
        np.array([_ignition(curve) for curve in curves]),
    )


def _ignition(curve: Curves) -> Values:
    strength, loss = curve.of("network_mode"), curve.of("network_loss")
    assert strength is not None
    assert loss is not None
    return flow_time(measure(curve.steps[None], strength[None], loss[None]).step[0], curve.steps, curve.time)


# ---- rows


def sweep_rows(sweep: Sweep, confidence: float = 0.95) -> Iterator[dict[str, Any]]:
    """Loss, modes and time against compute, then loss against modes learnt."""
    limit, found, expected = sweep.limit, sweep.measured, sweep.predicted
    shared = {**sweep.key, "sizes": len(sweep.models), "seeds": sweep.seeds}
    left_out = [sweep.without(seed) for seed in range(sweep.seeds)] if sweep.seeds > 1 else []
    for name, value in (("loss", -limit.loss), ("modes", limit.modes), ("time", limit.time)):
        exponent = _slope(found, name)
        halves = [_slope(_half(found, half), name) for half in (0, 1)]
        low, high, reason = _interval([_slope(one, name) for one in left_out], halves, exponent, confidence)
        yield {
            **shared,
            "quantity": f"{name} of compute",
            "exponent": exponent,
            "ci_low": low,
            "ci_high": high,
            "predicted_finite": float("nan") if expected is None else _slope(expected, name),
            "predicted_limit": value,
            "window_start": found.compute.min(initial=np.inf),
            "window_end": found.compute.max(initial=-np.inf),
            "status": "not_resolved" if reason else "ok",
            "reason": reason,
        }
    yield {**shared, **learned_row(sweep, confidence)}


def _slope(envelope: Envelope, name: str) -> float:
    values = {"loss": envelope.loss, "modes": envelope.size, "time": envelope.compute / envelope.size}[name]
    return float(np.polyfit(np.log(envelope.compute), np.log(values), 1)[0]) if len(values) > 2 else float("nan")


def _half(envelope: Envelope, half: int) -> Envelope:
    middle = len(envelope.compute) // 2
    part = slice(None, middle) if half == 0 else slice(middle, None)
    return Envelope(envelope.compute[part], envelope.loss[part], envelope.size[part])


def _interval(left: list[float], halves: list[float], value: float, confidence: float) -> tuple[float, float, str]:
    if not np.isfinite([value, *halves]).all():
        return float("nan"), float("nan"), "too few compute values have their best size inside the sweep"
    half = 0.0
    if left:
        spread = np.sqrt((len(left) - 1) / len(left) * np.sum((np.array(left) - np.mean(left)) ** 2))
        half = float(student(confidence, len(left) - 1) * spread)
    return min(value - half, *halves), max(value + half, *halves), ""


def learned_row(sweep: Sweep, confidence: float) -> dict[str, Any]:
    """Slope of ln L against ln k at the ignitions of the watched modes of the largest model, modes `FIRST` to a tenth of all."""
    model = sweep.models[-1]
    watched = (model.number >= FIRST) & (model.number <= model.size / 10)
    number = model.number[watched]
    times = model.ignition[:, watched]
    row = {
        "quantity": "loss of modes learnt",
        "predicted_limit": -sweep.limit.learned,
        "window_start": FIRST,
        "window_end": model.size / 10,
    }
    nothing = dict.fromkeys(("exponent", "ci_low", "ci_high", "predicted_finite"), float("nan"))
    if len(number) < 4 or not np.isfinite(times).all():
        return {**row, **nothing, "status": "not_resolved", "reason": "fewer than 4 watched modes ignite in the window"}

    def slope(loss: Values, when: Values, part: slice = slice(None)) -> float:
        return float(np.polyfit(np.log(number[part]), model.at(when[part], loss), 1)[0])

    when, loss = np.exp(np.log(times).mean(0)), model.loss.mean(0)
    middle = len(number) // 2
    halves = [slope(loss, when, part) for part in (slice(None, middle + 1), slice(middle, None))]
    seeds = range(len(times)) if len(times) > 1 else range(0)
    left = [slope(np.delete(model.loss, s, 0).mean(0), np.exp(np.log(np.delete(times, s, 0)).mean(0))) for s in seeds]
    value = slope(loss, when)
    low, high, reason = _interval(left, halves, value, confidence)
    expected = float("nan") if model.expected is None else slope(model.expected, when)
    found = {"exponent": value, "ci_low": low, "ci_high": high, "predicted_finite": expected}
    return {**row, **found, "status": "ok", "reason": reason}
