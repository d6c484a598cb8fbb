"""A small study whose arrays follow the schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from nqf_pipeline.store.schema import Status


@dataclass(frozen=True)
class Row:
    """The part of a study's cell that the store reads."""

    id: str
    bucket: str
    extra: dict[str, Any] = field(default_factory=dict)
    trained: bool = True

    def coordinates(self) -> dict[str, Any]:
        fixed = {"architecture": "mlp", "task": "teacher", "optimizer": "gd", "experiment": "main", "epsilon": 64e-4}
        return {"cell": self.id, "bucket": self.bucket, **fixed, "sigma": 0.01, "seed": 0, "learning_rate": 0.1, **self.extra}

    def step_grid(self) -> np.ndarray:
        return np.array([0, 1, 3, 10, 30])


def training(cells: list[str], modes: int = 2, records: int = 5, dtype: str = "float64") -> xr.Dataset:
    """A training dataset whose numbers depend on the cell only."""
    count = len(cells)
    draws = np.stack([np.random.default_rng([ord(c) for c in cell]).random((records, modes)) for cell in cells]).astype(dtype)
    curve, mode = ("cell", "step"), ("cell", "step", "mode")
    return xr.Dataset(
        {
            "network_loss": (curve, draws[..., 0]),
            "twin_loss": (curve, draws[..., 0] * 2),
            "network_test_loss": (curve, draws[..., 0] * 3),
            "twin_test_loss": (curve, draws[..., 0] * 4),
            "divergence": (curve, draws[..., 0] / 2),
            "network_mode": (mode, draws),
            "twin_mode": (mode, draws + 1),
            "order_parameter": (mode, draws * 2),
            "step_number": (curve, np.tile([0, 1, 3, 10, 30], (count, 1))[:, :records]),
            "time": (curve, np.tile([0, 1, 3, 10, 30.0], (count, 1))[:, :records] * 0.1),
            "mode_number": (("mode",), np.arange(1, modes + 1)),
            "mode_target": (("cell", "mode"), np.tile(1.0 / np.arange(1, modes + 1), (count, 1))),
            "status": ("cell", np.full(count, Status.done, "int8")),
            "diverged_step": ("cell", np.full(count, -1)),
        },
        coords={"cell": ("cell", np.array(cells, object))},
    )


def theory(cells: list[str], modes: int = 2, records: int = 5) -> xr.Dataset:
    """Predictions of two tiers."""
    count, tiers = len(cells), ["asymptote", "discrete"]
    return xr.Dataset(
        {
            "theory_loss": (("tier", "cell", "step"), np.ones((2, count, records))),
            "theory_mode": (("tier", "cell", "step", "mode"), np.ones((2, count, records, modes))),
            "theory_ignition": (("tier", "cell", "mode"), np.arange(2.0 * count * modes).reshape(2, count, modes)),
            "loss_floor": ("cell", np.zeros(count)),
        },
        coords={
            "tier": tiers,
            "cell": ("cell", np.array(cells, object)),
            "regime": ("cell", np.array(["whitened_feedforward"] * count, object)),
            "standing": ("cell", np.array(["conditional"] * count, object)),
        },
    )
