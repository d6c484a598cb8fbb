"""From shards to tables: everything the analysis does on a store, without JAX."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from nqf_pipeline.analysis import run
from nqf_pipeline.analysis.run import analyse
from nqf_pipeline.errors import WorkError
from nqf_pipeline.store.open import open_study
from nqf_pipeline.study.config import DaskSettings
from tests.analysis.merged import merged

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = merged(tmp_path_factory.mktemp("study"))
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


def test_rows_tell_which_gradients_were_carried_on(results: Path) -> None:
    cells = open_study(results, allow_partial=True).cells
    assert cells[["gradient_share", "gradient_gap"]].isna().all(axis=None)
    node = open_study(results, allow_partial=True).arrays["mlp_4"].to_dataset().load()
    steps = node["step_number"]
    carried = node.assign(network_gradients=0.25 * steps, gradient_gap=0.001 * steps / steps.max("step"))
    rows = run.cell_rows(carried, run.cell_coordinates(carried, "mlp_4"))
    np.testing.assert_allclose(rows["gradient_share"], 0.25)
    whole = rows["status"] == "done"
    np.testing.assert_allclose(rows.loc[whole, "gradient_gap"], 0.001)
    assert (rows.loc[~whole, "gradient_gap"] < 0.001).all(), "at its last finite record"


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
    parts = list(run.batches(node, run.cell_coordinates(node, "diagonal_1")))
    assert sorted(np.concatenate([cells for part in parts for cells in part])) == list(range(9))
    assert len(parts) == 4
    analyse(results)
    assert {name: (results / name).read_bytes() for name in names} == before


def test_processes_give_the_tables_of_threads(results: Path) -> None:
    names = [f"{name}.{kind}" for name in run.TABLES_WRITTEN for kind in ("csv", "parquet")]
    before = {name: (results / name).read_bytes() for name in names}
    analyse(results, where=DaskSettings(kind="processes"))
    assert {name: (results / name).read_bytes() for name in names} == before


def test_seeds_of_a_setting_stay_together_and_settings_apart() -> None:
    coordinates = pd.DataFrame(
        {"cell": list("abcd"), "seed": [0, 0, 1, 1], "alpha1": [1.5, 2.0, 1.5, 2.0], "batch_size": np.nan, "steps": range(4)}
    )
    node = xr.Dataset({"network_loss": (("cell", "step"), np.zeros((4, 3)))})
    (batch,) = run.batches(node, coordinates)
    assert [cells.tolist() for cells in batch] == [[0, 2], [1, 3]]


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


def test_texts_of_all_batches_share_their_codes() -> None:
    parts = [pd.DataFrame(columns) for columns in ({"a": ["y", "x"], "b": [1.0, 2.0]}, {"a": ["z"], "c": ["w"]}, {"b": [3.0]})]
    found = run._together([run._compact(part.astype({name: object for name in part if name != "b"})) for part in parts])
    assert [found[name].dtype for name in "abc"] == ["category", "float64", "category"]
    assert found["a"].astype(object).fillna("-").tolist() == ["y", "x", "z", "-"]
    assert found["c"].astype(object).fillna("-").tolist() == ["-", "-", "w", "-"]
