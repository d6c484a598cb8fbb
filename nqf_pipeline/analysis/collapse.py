"""Sudden learning as a transition: curves at many epsilon over tau = t / ln(1/epsilon), with L = ln(1/epsilon) as system size.

A mode of rate r obeys m(tau, L) = F((tau - tau_c) L^phi) with tau_c = 1 / r and phi = 1 (theory: section 4): its width in tau shrinks as
1 / L at a fixed place. Measured, for every mode of a setting that was run at several epsilon:

- `width_exponent`: slope of ln width (10 to 90 % of the target, in tau) against -ln L;
- `tau_c`: intercept of the half-time tau(1/2) against 1 / L;
- `quality` S (Houdayer and Hartmann): mean squared distance of each curve from the master that the others make, over the squared errors of
  both, at the predicted phi and tau_c; up to about 1 where curves collapse within their errors over seeds. `unscaled`: the same over tau;
- `phi`: where S is smallest at the predicted tau_c, with the interval on which S exceeds that minimum by less than 1;
- `variance_ratio`: spread about the master at the predicted phi over the spread without rescaling.

Widths and half-times are those of single runs, intervals Student's over epsilon; curves of the collapse are means over seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from nqf_pipeline.analysis.ignition import flow_time, measure
from nqf_pipeline.analysis.sources import TRAINED, trained
from nqf_pipeline.store.open import Study
from nqf_pipeline.store.schema import SCALARS, Status
from nqf_pipeline.store.select import Curves
from nqf_pipeline.theory.student import student
from nqf_pipeline.theory.sudden import RISE, Verdict, verdict

FEWEST = 4
"""Epsilon values that a collapse needs."""
EDGES = (0.1, 0.5, 0.9)
STEEP = (0.05, 0.95)
"""Strengths between which curves are compared."""
LEAST_ERROR = 1e-3
"""Error of a strength below which means over seeds are not trusted."""
POWERS = np.linspace(0.5, 1.5, 201)
Values = Float[np.ndarray, "..."]
_NAMES = ("network_mode", "network_loss", "twin_mode", "twin_loss", "theory_ignition")
_SWEPT = frozenset({"sigma", "epsilon", "seed", "steps", "cell", "experiment", "node", "position", "regime", "standing", *SCALARS})
"""Coordinates in which the cells of one setting may differ."""


@dataclass(frozen=True)
class Size:
    """One epsilon: all seeds and modes."""

    epsilon: float
    time: Values
    strength: Float[np.ndarray, "seeds records modes"]
    crossing: Float[np.ndarray, "edges seeds modes"]
    """Gradient-flow time at 10, 50 and 90 %; nan where not reached."""
    asymptote: Float[np.ndarray, "modes"]
    """Predicted tau_c."""

    @property
    def length(self) -> float:
        return float(np.log(1 / self.epsilon))

    @cached_property
    def half(self) -> Float[np.ndarray, "modes"]:
        """Median half-time, in tau."""
        return np.asarray(np.median(self.crossing[1], axis=0) / self.length)

    @cached_property
    def width(self) -> Float[np.ndarray, "modes"]:
        """Median width, in tau."""
        return np.asarray(np.median(self.crossing[2] - self.crossing[0], axis=0) / self.length)

    @property
    def verdict(self) -> Verdict:
        """Sudden or gradual, from the measured half-times and widths."""
        return verdict(self.half, RISE / self.width)


@dataclass(frozen=True)
class Transition:
    """One setting at all its epsilon, largest first."""

    key: dict[str, Any]
    number: Values
    sizes: tuple[Size, ...]

    @cached_property
    def length(self) -> Values:
        return np.array([size.length for size in self.sizes])

    def curves(self, mode: int) -> list[tuple[Values, Values, Values]]:
        """(tau, mean strength, its error) of every size, where the strength changes."""
        found = []
        for size in self.sizes:
            strength = size.strength[:, :, mode]
            mean = strength.mean(0)
            error = strength.std(0, ddof=1) / np.sqrt(len(strength)) if len(strength) > 1 else np.zeros_like(mean)
            found.append((size.time / size.length, mean, np.maximum(error, LEAST_ERROR)))
        return found


def collapse_rows(study: Study, confidence: float = 0.95) -> pd.DataFrame:
    """Rows of the table `collapse`, from the store alone: one a setting, source and mode."""
    return pd.DataFrame([row for found in transitions(study) for row in rows_of(found, confidence)])


def transitions(study: Study) -> Iterator[Transition]:
    """Settings run at enough epsilon whose modes all ignite at each of them and have a predicted asymptote."""
    index = trained(study.index[study.index["status"] == int(Status.done)])
    keys = [name for name in index if name not in _SWEPT]
    settings = [group for _, group in index.groupby(keys, dropna=False) if group["epsilon"].nunique() >= FEWEST]
    parts = [_by_epsilon(group) for group in settings]
    read = study.curves_of_groups((cells for setting in parts for cells in setting), *_NAMES)
    for group, setting in zip(settings, parts, strict=True):
        curves = list(islice(read, len(setting)))
        key = {name: group[name].iloc[0] for name in keys}
        for source in TRAINED[str(key.get("train", "network_and_twin"))]:
            sizes = [_size(seeds, source) for seeds in curves]
            complete = [size for size in sizes if size is not None and np.isfinite(size.crossing).all() and size.epsilon < 1]
            if len(complete) >= FEWEST:
                number = np.arange(1.0, complete[0].strength.shape[-1] + 1)
                yield Transition(key | {"source": source}, number, tuple(complete))


def _by_epsilon(setting: pd.DataFrame) -> list[pd.DataFrame]:
    """Seeds at each epsilon, the largest first."""
    return [cells.sort_values("seed") for _, cells in sorted(setting.groupby("epsilon"), key=lambda pair: -pair[0])]


def _size(curves: list[Curves], source: str) -> Size | None:
    first = curves[0]
    asymptote = first.theory("theory_ignition", "asymptote")
    found = [curve.of(f"{source}_mode") for curve in curves]
    if asymptote is None or any(strength is None for strength in found):
        return None
    steps, loss = (np.array([curve.data[name].to_numpy() for curve in curves]) for name in ("step_number", f"{source}_loss"))
    strength = np.array(found)
    crossing = [measure(steps, strength, loss, edge).step for edge in EDGES]
    flow = [[flow_time(seed, c.steps, c.time) for seed, c in zip(edge, curves, strict=True)] for edge in crossing]
    time, epsilon = first.time[1:], float(first.cell["epsilon"])
    on_grid = np.array([_on_grid(curve.time, values, time) for curve, values in zip(curves, strength, strict=True)])
    return Size(epsilon, time, on_grid, np.array(flow), flow_time(asymptote, first.steps, first.time) / np.log(1 / epsilon))


def _on_grid(own: Values, strength: Values, time: Values) -> Float[np.ndarray, "records modes"]:
    """Strengths at the records of the first seed: horizons may differ from seed to seed."""
    if np.array_equal(own[1:], time):
        return strength[1:]
    return np.stack([np.interp(time, own, values) for values in strength.T], axis=1)


# ---- rows


def rows_of(found: Transition, confidence: float = 0.95) -> Iterator[dict[str, Any]]:
    """One row a mode."""
    shared = {**found.key, "epsilons": len(found.sizes), "seeds": len(found.sizes[0].strength)}
    for mode, number in enumerate(found.number):
        width = np.array([size.width[mode] for size in found.sizes])
        half = np.array([size.half[mode] for size in found.sizes])
        tau_c = float(found.sizes[-1].asymptote[mode])
        exponent = _line(np.log(found.length), -np.log(width), confidence)[0]
        place = _line(1 / found.length, half, confidence)[1]
        curves = found.curves(mode)
        quality = np.array([quality_of(rescaled(curves, found.length, tau_c, power))[0] for power in POWERS])
        best = int(quality.argmin())
        inside = np.flatnonzero(quality < quality[best] + 1)
        at_one = quality_of(rescaled(curves, found.length, tau_c, 1.0))
        unscaled = quality_of(rescaled(curves, found.length, tau_c, 0.0))
        yield {
            **shared,
            "mode": int(number),
            **dict(zip(("width_exponent", "width_low", "width_high"), exponent, strict=True)),
            **dict(zip(("tau_c", "tau_c_low", "tau_c_high"), place, strict=True)),
            "tau_c_predicted": tau_c,
            "phi": POWERS[best],
            "phi_low": POWERS[inside.min()],
            "phi_high": POWERS[inside.max()],
            "quality": at_one[0],
            "unscaled": unscaled[0],
            "variance_ratio": at_one[1] / unscaled[1],
        }


Triple = tuple[float, float, float]


def _line(x: Values, y: Values, confidence: float) -> tuple[Triple, Triple]:
    """(slope, low, high) and (intercept, low, high) of a straight line."""
    from scipy.stats import linregress  # takes long to import, and most studies never need it

    found = linregress(x, y)
    factor = float(student(confidence, len(x) - 2))
    slope, slack = float(found.slope), factor * float(found.stderr)
    start, play = float(found.intercept), factor * float(found.intercept_stderr)
    return (slope, slope - slack, slope + slack), (start, start - play, start + play)


Curve = tuple[Values, Values, Values]


def rescaled(curves: list[Curve], length: Values, tau_c: float, power: float) -> list[Curve]:
    """The same curves over (tau - tau_c) (L / L_first)^power."""
    ratios = length / length[0]
    return [((tau - tau_c) * ratio**power, mean, error) for (tau, mean, error), ratio in zip(curves, ratios, strict=True)]


def quality_of(curves: list[Curve]) -> tuple[float, float]:
    """(S, mean squared distance): each curve's points against the error-weighted mean of the others at the same place."""
    distances, sizes = [], []
    for i, (x, mean, error) in enumerate(curves):
        steep = (mean > STEEP[0]) & (mean < STEEP[1])
        others = [curve for j, curve in enumerate(curves) if j != i]
        values = np.array([np.interp(x[steep], ox, om) for ox, om, _ in others])
        weights = np.array([1 / np.interp(x[steep], ox, oe) ** 2 for ox, _, oe in others])
        master, variance = np.average(values, axis=0, weights=weights), 1 / weights.sum(0)
        distances.append((mean[steep] - master) ** 2)
        sizes.append(error[steep] ** 2 + variance)
    squared = np.concatenate(distances)
    return float(np.mean(squared / np.concatenate(sizes))), float(np.mean(squared))
