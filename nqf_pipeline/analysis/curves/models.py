"""Which of several laws a stretch of a curve follows, and by how much: the evidence, not only the winner.

Criterion: Bayes's information criterion, misfit of ln loss in units of the noise's variance plus ln(bins) for each parameter. The noise is
that measured on differences of records, with what correlation adds to it, so no model is judged by its own residuals (a correlated model
of residuals would forgive a wrong law). A difference below `DECISIVE` decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import leastsq

from nqf_pipeline.analysis.curves.bins import Binned
from nqf_pipeline.analysis.curves.steps import Drop
from nqf_pipeline.analysis.powerlaw import fit

DECISIVE = 10.0
STEP = float(np.sqrt(np.finfo(float).eps))
"""Of differences that stand for derivatives, relative to parameters above 1."""
Bins = Float[np.ndarray, "bins"]
Parameters = Float[np.ndarray, "parameters"]
Law = Callable[[Bins, Parameters], Bins]
"""ln loss at x = ln time less that of the first bin, from parameters without the amplitude."""


@dataclass(frozen=True)
class Model:
    """One law fitted to a stretch."""

    model: str
    parameters: dict[str, float]
    """In units of the file, amplitude left out."""
    misfit: float
    """Root mean square of the residuals of ln loss."""
    bic: float
    """Above that of the best model."""


def power_law(x: Bins, p: Parameters) -> Bins:
    """Exponent; ln(floor / amplitude)."""
    return np.logaddexp(-p[0] * x, p[1])


def exponential(x: Bins, p: Parameters) -> Bins:
    """ln of the time constant; ln(floor / amplitude)."""
    return np.logaddexp(-np.exp(np.minimum(x - p[0], 50.0)), p[1])


def stretched(x: Bins, p: Parameters) -> Bins:
    """ln of the time constant; ln(floor / amplitude); ln of the power in the exponent."""
    return np.logaddexp(-np.exp(np.clip(np.exp(p[2]) * (x - p[0]), -50.0, 50.0)), p[1])


def broken(x: Bins, p: Parameters) -> Bins:
    """Exponents before and after; ln of the break's time; ln of its width in ln time."""
    width = np.exp(np.clip(p[3], -4.0, 1.5))
    return -p[0] * x - (p[1] - p[0]) * width * np.logaddexp(0.0, (x - p[2]) / width)


def staircase(x: Bins, p: Parameters) -> Bins:
    """For each mode ln of its share of the loss over the floor, ln of its ignition time and ln of its logistic rate times that time."""
    share, ignition, rate = p.reshape(3, -1, 1)
    odds = np.exp(np.clip(rate, -5.0, 8.0)) * np.expm1(np.clip(x - ignition, -50.0, 50.0))
    left = (0.5 * (1 - np.tanh(odds / 2))) ** 2
    return np.log1p((np.exp(np.clip(share, -50.0, 50.0)) * left).sum(0))


def compare(curve: Binned, drops: Sequence[Drop] = (), extra: Mapping[str, tuple[Law, Sequence[Parameters]]] | None = None) -> list[Model]:
    """All models of a stretch, best first. The staircase has the modes whose drops were found, and is left out where there are none.

    `extra`: further laws with the starts of their parameters.
    """
    end, start = float(curve.x[-1] - curve.x[0]), float(curve.x[0])
    law = fit(curve.time, curve.loss, None)
    k = float(np.clip(law.exponent, 0.05, 8.0))
    found = [
        _best(curve, "power law", power_law, [np.array([k, s - k * end]) for s in (-8.0, -1.0)]),
        _best(curve, "exponential", exponential, [np.array([end * u, s]) for u, s in ((0.4, -6.0), (0.8, -1.0))]),
        _best(curve, "stretched exponential", stretched, [np.array([end * u, -9.0, b]) for u, b in ((0.1, -1.2), (0.7, -0.3))]),
        _best(curve, "broken power law", broken, [np.array([k * a, k / a, end / 2, -1.0]) for a in (0.5, 2.0)]),
    ]
    inside = [drop for drop in drops if curve.x[0] < np.log(drop.time) < curve.x[-1]]
    if inside:
        found.append(_best(curve, "staircase", staircase, [_modes(curve, inside, rate) for rate in (2.0, 2.7)]))
    found += [_best(curve, name, *law) for name, law in (extra or {}).items()]
    named = [Model(model.model, _named(model, start), model.misfit, model.bic) for model in found]
    best = min(model.bic for model in named)
    return sorted((Model(m.model, m.parameters, m.misfit, m.bic - best) for m in named), key=lambda model: model.bic)


def decided(models: Sequence[Model]) -> bool:
    """Whether the best model stands out from all others."""
    return len(models) > 1 and models[1].bic > DECISIVE


def _modes(curve: Binned, drops: Sequence[Drop], rate: float) -> Parameters:
    levels = np.array([np.interp(np.log([drop.start, drop.end]), curve.x, curve.loss) for drop in drops])
    floor = float(curve.loss.min())
    share = np.log(np.maximum(levels[:, 0] - levels[:, 1], 1e-3 * floor) / floor)
    time = np.log([drop.time for drop in drops]) - curve.x[0]
    return np.concatenate([share, time, np.full(len(drops), rate)])


def _best(curve: Binned, name: str, law: Law, starts: Sequence[Parameters]) -> Model:
    """The best fit from several starts; the amplitude is projected out."""
    x, weight = curve.x - curve.x[0], curve.error**-2.0
    share = weight / weight.sum()

    def residuals(parameters: Parameters) -> Bins:
        gap = curve.y - law(x, parameters)
        return (gap - share @ gap) / curve.error

    def slopes(parameters: Parameters) -> Float[np.ndarray, "parameters bins"]:
        here, steps = law(x, parameters), STEP * np.maximum(1.0, np.abs(parameters)) * np.where(parameters < 0, -1.0, 1.0)
        change = np.array([(law(x, parameters + step) - here) / step[i] for i, step in enumerate(np.diag(steps))])
        return (change @ share)[:, None] / curve.error - change / curve.error

    with np.errstate(over="ignore", under="ignore"):
        fits = [_descended(residuals, slopes, start) for start in starts if len(start) < len(x)]
    if not fits:
        return Model(name, {}, float("nan"), float("inf"))
    cost, parameters, gap = min(fits, key=lambda found: found[0])
    misfit = float(np.sqrt(np.mean((gap * curve.error) ** 2)))
    bic = cost + (len(parameters) + 1) * np.log(len(x))
    return Model(name, {str(i): float(value) for i, value in enumerate(parameters)}, misfit, float(bic))


def _descended(residuals: Callable[[Parameters], Bins], slopes: Any, start: Parameters) -> tuple[float, Parameters, Bins]:
    """(sum of squares, parameters, residuals) where Levenberg-Marquardt ends; infinite cost where it starts outside the numbers."""
    if not np.isfinite(residuals(start)).all():
        return float("inf"), start, np.full(1, np.nan)
    ends = {"ftol": 1e-8, "xtol": 1e-8, "gtol": 1e-8, "maxfev": 20 * (len(start) + 1)}
    found, _, info, *_ = leastsq(residuals, start, Dfun=slopes, col_deriv=True, full_output=True, diag=np.ones(len(start)), **ends)
    return float(info["fvec"] @ info["fvec"]), found, info["fvec"]


def _named(model: Model, start: float) -> dict[str, float]:
    """Parameters by their names, in units of the file."""
    p = list(model.parameters.values())
    if not p:
        return {}
    with np.errstate(over="ignore"):
        if model.model == "power law":
            return {"exponent": p[0]}
        if model.model == "broken power law":
            return {"exponent_before": p[0], "exponent_after": p[1], "break": float(np.exp(p[2] + start))}
        if model.model == "staircase":
            times = p[len(p) // 3 : 2 * len(p) // 3]
            return {f"ignition_{i}": float(np.exp(t + start)) for i, t in enumerate(sorted(times), 1)}
        if "exponential" not in model.model:
            return model.parameters
        time = {"time_constant": float(np.exp(p[0] + start))}
        return time if model.model == "exponential" else {**time, "power": float(np.exp(p[2]))}
