"""What else could describe a scaling curve: other laws by BIC, a smoothly broken power law, and theory's finite-size curve itself.

Theory's curve has no free exponent: only the unit of time and the size of the loss are fitted, so its scale says how much slower or faster
the measured curve is, and its misfit whether the shape is right where no power law is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nqf_pipeline.analysis.curves.bins import TOLERANCE, Binned
from nqf_pipeline.analysis.curves.models import Bins, Parameters, compare
from nqf_pipeline.analysis.curves.noise import noise

NAMES = ("best_model", "power_law_bic", "exponent_before", "exponent_after", "break_time", "theory_scale", "theory_misfit", "theory_bic")
NOTHING: dict[str, Any] = {"best_model": "", **dict.fromkeys(NAMES[1:], float("nan"))}


def evidence(time: Bins, loss: Bins, theory_time: Bins | None = None, theory_loss: Bins | None = None) -> dict[str, Any]:
    """Columns of the exponents table for a curve in its window; theory's curve as far as it is known, on times of its own."""
    positive = loss > 0
    x, y = np.log(time[positive]), np.log(loss[positive])
    if len(x) < 8:
        return NOTHING
    rough = noise(y)
    error = np.full(len(x), max(TOLERANCE, rough.deviation * float(np.sqrt(rough.inflation))))
    extra = {}
    if theory_time is not None and theory_loss is not None:
        known = theory_loss > 0
        xs, ys = np.log(theory_time[known]), np.log(theory_loss[known])

        def shifted(offset: Bins, p: Parameters) -> Bins:
            return np.interp(offset + x[0] + p[0], xs, ys)

        extra = {"theory": (shifted, [np.zeros(1)])}
    models = compare(Binned(x, y, error), extra=extra)
    by_name = {model.model: model for model in models}
    found = {**NOTHING, "best_model": models[0].model, "power_law_bic": by_name["power law"].bic}
    broken = by_name["broken power law"].parameters
    found |= {"exponent_before": broken["exponent_before"], "exponent_after": broken["exponent_after"], "break_time": broken["break"]}
    if "theory" in by_name:
        theory = by_name["theory"]
        found |= {"theory_scale": float(np.exp(-theory.parameters["0"])), "theory_misfit": theory.misfit, "theory_bic": theory.bic}
    return found
