"""Stage: predictions for the cells of a shard, without training, as a dataset beside its trajectories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from nqf_pipeline.store.schema import CURVE, MODES, TIERS, Status
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.draws import batch_seed, initial_weights, problem_of
from nqf_pipeline.theory.exponents import limit_exponent, mean_loss_curve, missing_tail, spectrum
from nqf_pipeline.theory.predict import CellInputs, Prediction, TierCurve, predict
from nqf_pipeline.theory.quantiles import ignition_spread
from nqf_pipeline.theory.regime import Regime

MOST_VALUES = 2e7
"""Numbers that the cells predicted together may have on the way (their modes at every record): 160 MB."""


@dataclass(frozen=True)
class _Row:
    """One cell, without what its prediction rests on."""

    curves: dict[str, TierCurve]
    regime: Regime
    band: Float[np.ndarray, "2 modes"]
    """Ends of the 90 % band of ignition steps over draws of the weights; NaN where no clock is closed."""
    number: Int[np.ndarray, "modes"]
    target: Float[np.ndarray, "modes"]
    floor: float


def predict_cells(cells: Sequence[Cell]) -> xr.Dataset:
    """Predictions of every tier that some cell admits, in the order of the cells; NaN where a cell does not admit the tier."""
    rows: dict[str, _Row] = {}
    for together in _batches(cells):
        rows.update(zip([cell.id for cell in together], _rows(together), strict=True))
    found = [rows[cell.id] for cell in cells]
    tiers = [tier for tier in TIERS if any(tier in row.curves for row in found)]
    modes, records = len(found[0].target), cells[0].records

    def field(name: str, shape: tuple[int, ...]) -> np.ndarray:
        values = np.full((len(tiers), len(cells), *shape), np.nan)
        for i, tier in enumerate(tiers):
            for k, row in enumerate(found):
                if tier in row.curves:
                    values[i, k] = getattr(row.curves[tier], name)
        return values

    declared = {"expected_loss": _expected_loss, "missing_tail": _missing_tail} if spectrum(cells[0].task) else {}
    bands = np.stack([row.band for row in found], axis=1)
    return xr.Dataset(
        {
            **{name: (CURVE, _by_setting(cells, of)) for name, of in declared.items()},
            "theory_loss": (("tier", *CURVE), field("loss", (records,))),
            "theory_mode": (("tier", *MODES), field("mode", (records, modes))),
            "theory_ignition": (("tier", "cell", "mode"), field("ignition", (modes,))),
            **{f"ignition_{name}": (("cell", "mode"), band) for name, band in zip(("low", "high"), bands, strict=True)},
            "timing_error": ("cell", np.array([row.regime.timing_error for row in found])),
            "exponent_limit": ("cell", np.array([limit_exponent(cell.task) for cell in cells])),
            **({} if cells[0].trained else _untrained(cells, found)),
        },
        coords={
            "cell": [cell.id for cell in cells],
            "tier": np.array(tiers, dtype=object),
            "regime": ("cell", np.array([row.regime.name for row in found], dtype=object)),
            "standing": ("cell", np.array([row.regime.standing for row in found], dtype=object)),
        },
    )


def _batches(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Cells that share data one after another (each data set is made once), as many together as memory allows."""
    ordered = sorted(cells, key=lambda cell: (cell.data_id, cell.steps))
    moments = problem_of(ordered[0]).moments
    modes = 2 * (max(moments.optimum.shape) if moments.optimum.ndim > 1 else moments.optimum.size)
    most = max(int(MOST_VALUES / (cells[0].records * max(modes, 1))), 1)
    yield from (ordered[start : start + most] for start in range(0, len(ordered), most))


def _rows(cells: Sequence[Cell]) -> list[_Row]:
    inputs = [cell_inputs(cell) for cell in cells]
    predictions = predict(inputs)
    return [_row(cell, prediction) for cell, prediction in zip(inputs, predictions, strict=True)]


def _row(cell: CellInputs, prediction: Prediction) -> _Row:
    problem, curves = cell.problem, prediction.tiers
    band = np.full((2, len(problem.modes.target)), np.nan)
    if prediction.modes is not None and curves:
        finest = next(curves[tier] for tier in reversed(TIERS) if tier in curves)
        band = ignition_spread(cell, prediction.regime, prediction.modes, finest.ignition).level[[0, -1]]
    floor = float(problem.moments.floor) if problem.loss == "squared_error" else float("nan")
    return _Row(curves, prediction.regime, band, problem.modes.number, problem.modes.target, floor)


def _untrained(cells: Sequence[Cell], rows: Sequence[_Row]) -> dict[str, Any]:
    """What a training job writes beside its curves, for cells that have none."""
    steps = np.array([cell.step_grid() for cell in cells])
    return {
        "step_number": (CURVE, steps),
        "time": (CURVE, np.array([cell.optimizer.flow_time(own) for cell, own in zip(cells, steps, strict=True)])),
        "mode_number": (("cell", "mode"), np.stack([row.number for row in rows])),
        "mode_target": (("cell", "mode"), np.stack([row.target for row in rows])),
        "loss_floor": ("cell", np.array([row.floor for row in rows])),
        "status": ("cell", np.array([Status.done if row.curves else Status.not_predicted for row in rows]).astype(np.int8)),
        "diverged_step": ("cell", np.full(len(cells), -1)),
    }


def _by_setting(cells: Sequence[Cell], of: Callable[[Cell], np.ndarray]) -> np.ndarray:
    """What seeds share, computed once for all of them."""
    known: dict[Any, np.ndarray] = {}
    for cell in cells:
        key = _setting(cell)
        if key not in known:
            known[key] = of(cell)
    return np.array([known[_setting(cell)] for cell in cells])


def _setting(cell: Cell) -> tuple[Any, ...]:
    return cell.task, cell.architecture, cell.optimizer, cell.sigma, cell.steps, cell.records


def _has_expected_loss(cell: Cell) -> bool:
    return cell.optimizer.in_linear_span and cell.optimizer.batch_size is None


def _expected_loss(cell: Cell) -> np.ndarray:
    """Knows no draw of weights, so seeds share it; nothing where the steps do not follow the modes or only see batches."""
    if not _has_expected_loss(cell):
        return np.full(cell.records, np.nan)
    return mean_loss_curve(cell.task, cell.architecture, cell.epsilon, cell.optimizer, cell.step_grid(), tier="flow")


def _missing_tail(cell: Cell) -> np.ndarray:
    """Nothing where there is no expected loss either."""
    if not _has_expected_loss(cell):
        return np.full(cell.records, np.nan)
    return missing_tail(cell.task, cell.architecture, cell.epsilon, cell.optimizer.flow_time(cell.step_grid()))


def cell_inputs(cell: Cell) -> CellInputs:
    """What predictions read of a cell."""
    optimizer = cell.optimizer
    return CellInputs(cell.architecture, problem_of(cell), optimizer, initial_weights(cell), cell.step_grid(), cell.sigma, batch_seed(cell))
