"""The exponent a straight line would find, before anything is trained: the analysis' own window and fit on predicted curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nqf_pipeline.analysis.exponents import SMOOTH, Curves, fit_window, verify
from nqf_pipeline.analysis.windows import MODES, Unresolved, window
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.config import WindowRule
from nqf_pipeline.theory.exponents import limit_exponent, mean_loss_curve, spectrum
from nqf_pipeline.theory.predict import CellInputs, Prediction


def scaling(cells: Sequence[Cell], inputs: Sequence[CellInputs], found: Sequence[Prediction], rule: WindowRule) -> dict[str, Any]:
    """Exponents of one setting; `cells` are its seeds. Times are gradient-flow times."""
    outside = found[0].standing == "outside"
    row: dict[str, Any] = {
        "exponent_limit": float("nan") if outside else limit_exponent(cells[0].task),
        "exponent_finite": float("nan"),
        "exponent_status": "not_resolved",
        "exponent_reason": "",
        "window": None,
    }
    try:
        curves = predicted_curves(inputs, found, rule)
        where = window(curves.ignition, curves.number, curves.time, rule)
        row["window"] = {"start": where.start, "end": where.end, "decades": where.decades, "ignitions": where.ignitions}
        if _has_expected_curve(cells[0]):
            curves = _expected(cells[0], inputs, curves, where.of(curves.time))
        law = fit_window(curves, where)
        row["exponent_finite"] = law.exponent
        verify(curves, where, law)
    except Unresolved as finding:
        return row | {"exponent_reason": str(finding)}
    return row | {"exponent_status": "ok"}


def predicted_curves(inputs: Sequence[CellInputs], found: Sequence[Prediction], rule: WindowRule) -> Curves:
    """The seeds' curves of the finest smooth tier that all of them have."""
    number = inputs[0].problem.modes.number
    if number.max(initial=0) < rule.first_mode + MODES:
        raise Unresolved(f"too few modes: {number.max(initial=0)} in all pose no question of scaling")
    tier = next((tier for tier in SMOOTH if all(tier in prediction.tiers for prediction in found)), None)
    if tier is None:
        raise Unresolved("no tier predicts a smooth loss curve")
    steps, optimizer = inputs[0].step_number, inputs[0].optimizer
    ignition = np.array([prediction.tiers[tier].ignition for prediction in found])
    ignition = optimizer.flow_time(np.where(ignition <= steps[-1], ignition, np.nan))
    loss = np.array([prediction.tiers[tier].loss[1:] for prediction in found])
    return Curves(optimizer.flow_time(steps[1:]), loss, _floors(inputs), ignition, number)


def _floors(inputs: Sequence[CellInputs]) -> np.ndarray:
    return np.array([float(cell.problem.moments.floor) for cell in inputs])


def _has_expected_curve(cell: Cell) -> bool:
    """Declared power laws give the mean over draws, where every step sees the full batch."""
    return spectrum(cell.task) is not None and cell.optimizer.batch_size is None


def _expected(cell: Cell, inputs: Sequence[CellInputs], curves: Curves, inside: np.ndarray) -> Curves:
    """The curve expected before weights are drawn, at the records of the window alone."""
    steps = inputs[0].step_number[1:][inside]
    loss = mean_loss_curve(cell.task, cell.architecture, cell.epsilon, cell.optimizer, steps, tier="flow")
    return Curves(curves.time[inside], loss[None], _floors(inputs[:1]), curves.ignition, curves.number)
