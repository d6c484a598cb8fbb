"""A finished, merged study made of known logistic ensembles, not yet analysed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from nqf_pipeline.store.merge import merge
from nqf_pipeline.store.shards import Summary, write_shard
from tests.analysis.synthetic import dataset, power_law

THEORY = ["theory_loss", "theory_mode", "theory_ignition"]
GRID = [(2.0, 0.8, 1e-4), (2.0, 0.8, 1e-8), (1.5, 1.0, 1e-4), (1.5, 1.0, 1e-8)]


@dataclass(frozen=True)
class Row:
    id: str
    bucket: str
    extra: dict[str, Any] = field(default_factory=dict)
    steps: tuple[int, ...] = ()
    trained: bool = True

    def coordinates(self) -> dict[str, Any]:
        fixed = {"architecture": "diagonal", "task": "feature_power_law", "optimizer": "gd", "experiment": "ensemble", "sigma": 1e-3}
        return {"cell": self.id, "bucket": self.bucket, **fixed, **self.extra}

    def step_grid(self) -> np.ndarray:
        return np.array(self.steps)


def rows_of(results: Path) -> list[Row]:
    """Four settings of two seeds in one bucket, one cell diverged, one missing; four teacher-like cells in another."""
    rows = []
    for bucket, modes in (("diagonal_1", 1000), ("mlp_4", 4)):
        curves, cells, extra = [], [], []
        for number, (alpha1, alpha2, epsilon) in enumerate(GRID):
            for seed in (0, 1):
                curves.append(power_law(alpha1, alpha2, epsilon, modes=modes))
                cells.append(f"{bucket[0]}{number}{seed}".ljust(16, "0"))
                extra.append({"seed": seed, "alpha1": alpha1, "alpha2": alpha2, "epsilon": epsilon})
        data = dataset(curves, rate=1e-6).assign_coords(cell=cells)
        rows += [Row(c, bucket, e, tuple(s)) for c, e, s in zip(cells, extra, data["step_number"].to_numpy().tolist(), strict=True)]
        _write(results, bucket, data)
    missing = Row("d99".ljust(16, "0"), "diagonal_1", {**rows[0].extra, "seed": 9}, rows[0].steps)
    return [*rows, missing]


def _write(results: Path, bucket: str, data: xr.Dataset) -> None:
    training = data.drop_vars([*THEORY, "tier"])
    training["status"][1] = 2
    training["diverged_step"][1] = int(training["step_number"][1, 200])
    for name in ("network_loss", "network_mode", "twin_loss", "twin_mode"):
        training[name][1, 200:] = np.nan
    summary = Summary(bucket=bucket, timings={"run": 2.0, "compile": 0.5}, device="cpu", precision="float64", threads=1, lane_width=4)
    write_shard(results / f"shards/{bucket}.zarr.zip", training, summary)
    predicted = data[THEORY].assign_coords(regime=("cell", ["orthogonal_features"] * 8), standing=("cell", ["exact"] * 8))
    predicted = predicted.drop_vars([name for name in ("status", "diverged_step") if name in predicted.coords])
    write_shard(results / f"theory/{bucket}.zarr.zip", predicted, Summary(bucket=bucket, timings={"predict": 1.0}), "theory")


def merged(results: Path) -> Path:
    """The study, merged into a folder."""
    merge(results, rows_of(results), {"study": "tiny"}, allow_partial=True)
    return results
