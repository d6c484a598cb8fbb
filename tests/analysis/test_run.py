"""From shards to tables: everything the analysis does on a store, without JAX."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from nqf_pipeline.analysis import run
from nqf_pipeline.analysis.run import analyse
from nqf_pipeline.errors import WorkError
from nqf_pipeline.store.merge import merge
from nqf_pipeline.store.open import open_study
from nqf_pipeline.store.shards import Summary, write_shard
from tests.analysis.synthetic import dataset, power_law

ROOT = Path(__file__).parents[2]
THEORY = ["theory_loss", "theory_mode", "theory_ignition"]
GRID = [(2.0, 0.8, 1e-4), (2.0, 0.8, 1e-8), (1.5, 1.0, 1e-4), (1.5, 1.0, 1e-8)]


@dataclass(frozen=True)
class Row:
    id: str
    bucket: str
    extra: dict[str, Any] = field(default_factory=dict)
    steps: tuple[int, ...] = ()

    def coordinates(self) -> dict[str, Any]:
        fixed = {"architecture": "diagonal", "task": "feature_power_law", "optimizer": "gd", "experiment": "ensemble", "sigma": 1e-3}
        return {"cell": self.id, "bucket": self.bucket, **fixed, **self.extra}

    def step_grid(self) -> np.ndarray:
        return np.array(self.steps)


def study(results: Path) -> list[Row]:
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


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    merge(folder, study(folder), {"study": "tiny"}, allow_partial=True)
    analyse(folder)
    return folder


def test_every_cell_is_a_row_with_its_status(results: Path) -> None:
    cells = open_study(results, allow_partial=True).cells
    assert len(cells) == 17
    assert cells["status"].value_counts().to_dict() == {"done": 14, "diverged": 2, "missing": 1}
    diverged = cells[cells["status"] == "diverged"].iloc[0]
    assert diverged["diverged_step"] > diverged["last_step"] > 0
    assert "learning rate" in diverged["remedy"]
    assert cells[cells["status"] == "missing"][["last_step", "departure_step", "network_loss"]].isna().all(axis=None)
    assert np.isinf(cells[cells["status"] == "done"]["departure_step"]).all()


def test_exponents_of_the_settings(results: Path) -> None:
    table = open_study(results, allow_partial=True).exponents
    ensembles = table[(table["bucket"] == "diagonal_1") & (table["source"] == "network")]
    assert len(ensembles) == 4
    assert set(ensembles["status"]) == {"ok"}
    assert sorted(ensembles["seeds"]) == [1, 2, 2, 2]
    assert (ensembles["relative_error"].abs() < 1e-9).all()
    np.testing.assert_allclose(ensembles["exponent"], (ensembles["alpha1"] - 1) / ensembles["alpha2"], rtol=0.2)
    assert not (table["bucket"] == "mlp_4").any()


def test_plateaus_have_no_rows_for_cells_that_never_ran(results: Path) -> None:
    table = open_study(results, allow_partial=True).plateaus
    assert len(table[table["tier"] == "twin"].drop_duplicates(["cell", "mode"])) == 8 * 24 + 8 * 4
    assert not table["cell"].str.startswith("d99").any()
    assert set(table["status"]) <= {"matched", "censored"}


def test_timings_come_from_the_summaries(results: Path) -> None:
    table = open_study(results, allow_partial=True).timings
    assert table.groupby("stage")["seconds"].sum().to_dict() == {"compile": 1.0, "predict": 2.0, "run": 4.0}


def test_batches_change_nothing(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{name}.{kind}" for name in run.TABLES_WRITTEN for kind in ("csv", "parquet")]
    before = {name: (results / name).read_bytes() for name in names}
    monkeypatch.setattr(run, "BATCH_BYTES", 1)
    node = open_study(results, allow_partial=True).trajectories["diagonal_1"].to_dataset()
    parts = list(run.batches(node, run.cell_coordinates(node, "diagonal_1"), "diagonal_1"))
    assert sorted(np.concatenate([cells for part in parts for cells in part.settings])) == list(range(9))
    assert len(parts) == 4
    analyse(results)
    assert {name: (results / name).read_bytes() for name in names} == before


def test_seeds_of_a_setting_stay_together_and_settings_apart() -> None:
    coordinates = pd.DataFrame(
        {"cell": list("abcd"), "seed": [0, 0, 1, 1], "alpha1": [1.5, 2.0, 1.5, 2.0], "batch_size": np.nan, "steps": range(4)}
    )
    node = xr.Dataset({"network_loss": (("cell", "step"), np.zeros((4, 3)))})
    (batch,) = run.batches(node, coordinates, "b")
    assert [cells.tolist() for cells in batch.settings] == [[0, 2], [1, 3]]


def test_a_damaged_store_is_named(results: Path) -> None:
    chunk = next((results / "trajectories.zarr").glob("mlp_4/network_loss/c.*"))
    data = chunk.read_bytes()
    chunk.write_bytes(data[:10] + bytes([data[10] ^ 1]) + data[11:])
    try:
        with pytest.raises(WorkError, match="verify=True"):
            analyse(results)
    finally:
        chunk.write_bytes(data)


@pytest.mark.parametrize("module", ["run", "exponents", "plateaus", "departure", "ignition"])
def test_the_analysis_never_imports_jax(module: str) -> None:
    code = f"import sys, nqf_pipeline.analysis.{module}; assert 'jax._src' not in sys.modules, 'jax was imported'"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_analysing_never_imports_jax(results: Path) -> None:
    code = f"import sys; from nqf_pipeline.analysis.run import analyse; analyse({str(results)!r}); assert 'jax._src' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
