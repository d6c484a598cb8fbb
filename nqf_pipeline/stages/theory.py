"""Stage: predictions for the cells of a shard, without training, as a dataset beside its trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import xarray as xr

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.store.schema import CURVE, MODES, TIERS, Status
from nqf_pipeline.study.cells import Cell, step_grid
from nqf_pipeline.study.draws import batch_seed, initial_weights, problem_of
from nqf_pipeline.tasks.base import Task
from nqf_pipeline.theory.exponents import limit_exponent, mean_loss_curve, missing_tail, spectrum
from nqf_pipeline.theory.predict import CellInputs, Prediction, predict
from nqf_pipeline.theory.quantiles import ignition_spread


def predict_cells(cells: Sequence[Cell]) -> xr.Dataset:
    """Predictions of every tier that some cell admits, in the order of the cells; NaN where a cell does not admit the tier."""
    inputs = [cell_inputs(cell) for cell in cells]
    predictions = predict(inputs)
    tiers = [tier for tier in TIERS if any(tier in p.tiers for p in predictions)]
    modes, records = len(inputs[0].problem.modes.target), len(inputs[0].step_number)

    def field(name: str, shape: tuple[int, ...]) -> np.ndarray:
        nothing = np.full(shape, np.nan)
        return np.array([[getattr(p.tiers[t], name) if t in p.tiers else nothing for p in predictions] for t in tiers]).reshape(
            (len(tiers), len(cells), *shape)
        )

    declared = {"expected_loss": _expected_loss, "missing_tail": _missing_tail} if spectrum(cells[0].task) else {}
    return xr.Dataset(
        {
            **{name: (CURVE, np.array([of(cell) for cell in cells])) for name, of in declared.items()},
            "theory_loss": (("tier", *CURVE), field("loss", (records,))),
            "theory_mode": (("tier", *MODES), field("mode", (records, modes))),
            "theory_ignition": (("tier", "cell", "mode"), field("ignition", (modes,))),
            **{
                f"ignition_{name}": (("cell", "mode"), band)
                for name, band in zip(("low", "high"), _bands(inputs, predictions), strict=True)
            },
            "timing_error": ("cell", np.array([p.regime.timing_error for p in predictions])),
            "exponent_limit": ("cell", np.array([limit_exponent(cell.task) for cell in cells])),
            **({} if cells[0].trained else _untrained(cells, inputs, predictions)),
        },
        coords={
            "cell": [cell.id for cell in cells],
            "tier": np.array(tiers, dtype=object),
            "regime": ("cell", np.array([p.regime.name for p in predictions], dtype=object)),
            "standing": ("cell", np.array([p.standing for p in predictions], dtype=object)),
        },
    )


def _untrained(cells: Sequence[Cell], inputs: Sequence[CellInputs], predictions: Sequence[Prediction]) -> dict[str, Any]:
    """What a training job writes beside its curves, for cells that have none."""
    steps = np.array([cell.step_number for cell in inputs])
    problems = [cell.problem for cell in inputs]
    squared = [problem.loss == "squared_error" for problem in problems]
    return {
        "step_number": (CURVE, steps),
        "time": (CURVE, np.array([cell.optimizer.flow_time(own) for cell, own in zip(cells, steps, strict=True)])),
        "mode_number": (("cell", "mode"), np.stack([problem.modes.number for problem in problems])),
        "mode_target": (("cell", "mode"), np.stack([problem.modes.target for problem in problems])),
        "loss_floor": ("cell", np.array([float(p.moments.floor) if known else np.nan for p, known in zip(problems, squared, strict=True)])),
        "status": ("cell", np.array([Status.done if p.tiers else Status.not_predicted for p in predictions]).astype(np.int8)),
        "diverged_step": ("cell", np.full(len(cells), -1)),
    }


def _bands(inputs: Sequence[CellInputs], predictions: Sequence[Prediction]) -> np.ndarray:
    """Ends (low, high) of the 90 % band of ignition steps over draws of the weights, (2, cells, modes); NaN where no clock is closed."""
    bands = np.full((2, len(inputs), len(inputs[0].problem.modes.target)), np.nan)
    for i, (cell, prediction) in enumerate(zip(inputs, predictions, strict=True)):
        if prediction.modes is not None and prediction.tiers:
            finest = next(prediction.tiers[tier] for tier in reversed(TIERS) if tier in prediction.tiers)
            bands[:, i] = ignition_spread(cell, prediction.regime, prediction.modes, finest.ignition).level[[0, -1]]
    return bands


def _has_expected_loss(cell: Cell) -> bool:
    return cell.optimizer.in_linear_span and cell.optimizer.batch_size is None


def _expected_loss(cell: Cell) -> np.ndarray:
    """Knows no draw of weights, so seeds share it; nothing where the steps do not follow the modes or only see batches."""
    if not _has_expected_loss(cell):
        return np.full(cell.records, np.nan)
    return _expected_curve(cell.task, cell.architecture, cell.epsilon, cell.optimizer, cell.steps, cell.records)


def _missing_tail(cell: Cell) -> np.ndarray:
    """Nothing where there is no expected loss either."""
    if not _has_expected_loss(cell):
        return np.full(cell.records, np.nan)
    return _tail(cell.task, cell.architecture, cell.epsilon, cell.optimizer, cell.steps, cell.records)


@lru_cache(maxsize=64)
def _tail(task: Task, architecture: Architecture, epsilon: float, optimizer: Optimizer, steps: int, records: int) -> np.ndarray:
    return missing_tail(task, architecture, epsilon, optimizer.flow_time(step_grid(steps, records)))


@lru_cache(maxsize=64)
def _expected_curve(task: Task, architecture: Architecture, epsilon: float, optimizer: Optimizer, steps: int, records: int) -> np.ndarray:
    return mean_loss_curve(task, architecture, epsilon, optimizer, step_grid(steps, records), tier="flow")


def cell_inputs(cell: Cell) -> CellInputs:
    """What predictions read of a cell."""
    optimizer = cell.optimizer
    return CellInputs(cell.architecture, problem_of(cell), optimizer, initial_weights(cell), cell.step_grid(), cell.sigma, batch_seed(cell))
