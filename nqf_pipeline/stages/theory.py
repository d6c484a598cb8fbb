"""Stage: predictions for the cells of a shard, without training, as a dataset beside its trajectories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from nqf_pipeline.store.schema import CURVE, MODES, TIERS
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.draws import initial_weights, problem_of
from nqf_pipeline.theory.exponents import limit_exponent
from nqf_pipeline.theory.predict import CellInputs, predict


def predict_cells(cells: Sequence[Cell]) -> xr.Dataset:
    """Predictions of every tier that some cell admits, in the order of the cells; NaN where a cell does not admit the tier."""
    inputs = [_inputs(cell) for cell in cells]
    predictions = predict(inputs)
    tiers = [tier for tier in TIERS if any(tier in p.tiers for p in predictions)]
    modes, records = len(inputs[0].problem.modes.target), len(inputs[0].step_number)

    def field(name: str, shape: tuple[int, ...]) -> np.ndarray:
        nothing = np.full(shape, np.nan)
        return np.array([[getattr(p.tiers[t], name) if t in p.tiers else nothing for p in predictions] for t in tiers]).reshape(
            (len(tiers), len(cells), *shape)
        )

    return xr.Dataset(
        {
            "theory_loss": (("tier", *CURVE), field("loss", (records,))),
            "theory_mode": (("tier", *MODES), field("mode", (records, modes))),
            "theory_ignition": (("tier", "cell", "mode"), field("ignition", (modes,))),
            "exponent_limit": ("cell", np.array([limit_exponent(cell.task) for cell in cells])),
        },
        coords={
            "cell": [cell.id for cell in cells],
            "tier": np.array(tiers, dtype=object),
            "regime": ("cell", np.array([p.regime.name for p in predictions], dtype=object)),
            "standing": ("cell", np.array([p.standing for p in predictions], dtype=object)),
        },
    )


def _inputs(cell: Cell) -> CellInputs:
    return CellInputs(cell.architecture, problem_of(cell), cell.optimizer, initial_weights(cell), cell.step_grid(), cell.sigma)
