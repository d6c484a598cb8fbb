"""Networks beside twins, twins alone and cells that are only predicted, from one config to tables, figures and report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from nqf_pipeline.store.open import open_study
from nqf_pipeline.store.schema import Status
from tests.workflow.runs import MLP, TEACHER, Workspace

GD = {"kind": "gd", "learning_rate": 0.05}
LAW = {
    "architectures": [{"kind": "diagonal", "inputs": 40}],
    "tasks": [{"kind": "feature_power_law", "modes": 40, "alpha1": [1.5, 2.0]}],
    "optimizers": [{"kind": "gd", "learning_rate": 0.1}],
    "epsilon": [1e-4, 1e-6],
    "seeds": 2,
    "records": 48,
    "precision": "float64",
}


def teacher(train: str, **changes: Any) -> dict[str, Any]:
    grid = {"architectures": [MLP], "tasks": [TEACHER], "optimizers": [GD], "sigma": [0.05, 0.01], "seeds": 2, "steps": 400, "records": 48}
    return {**grid, "train": train, **changes}


EXPERIMENTS: dict[str, Any] = {
    "both": teacher("network_and_twin"),
    "alone": teacher("twin"),
    "predicted": teacher("nothing"),
    "silent": teacher("nothing", optimizers=[{"kind": "adam", "learning_rate": 0.005}], sigma=[0.05], seeds=1),
    "law_alone": {**LAW, "train": "twin"},
    "law_predicted": {**LAW, "train": "nothing"},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, str]:
    workspace = Workspace(tmp_path_factory.mktemp("trained"))
    workspace.write({"name": "tiny", "experiments": EXPERIMENTS, "engine": {"minutes_per_job": 0.03}, "report": {"formats": ["svg"]}})
    return workspace, workspace.finish()


def table(workspace: Workspace, name: str) -> pd.DataFrame:
    return pd.read_parquet(workspace.results / f"{name}.parquet")


def test_jobs_train_what_is_to_be_trained(run: tuple[Workspace, str]) -> None:
    workspace, output = run
    cells = table(workspace, "cells")
    assert cells.groupby("train").size().to_dict() == {"network_and_twin": 4, "nothing": 13, "twin": 12}
    buckets = cells.loc[cells["train"] != "nothing", "bucket"].nunique()
    assert len(list((workspace.results / "shards").glob("*.zip"))) == buckets == 3
    assert len(list((workspace.results / "theory").glob("*.zip"))) == cells["bucket"].nunique()
    assert 2 <= output.count("Predicting cells") < cells["bucket"].nunique()
    assert "no tier of theory predicts these cells" in output
    assert "Nothing to be done" in workspace.finish()


def test_every_cell_has_its_status(run: tuple[Workspace, str]) -> None:
    cells = table(run[0], "cells")
    silent = cells["experiment"] == "silent"
    assert (cells.loc[~silent, "status"] == "done").all()
    assert (cells.loc[silent, "status"] == "not_predicted").all()
    assert cells.loc[silent, "remedy"].str.contains("train: twin").all()
    assert (cells["diverged_step"] == -1).all()
    numbers = cells.groupby("train")[["network_loss", "twin_loss", "largest_divergence"]].agg(lambda column: column.notna().all())
    assert numbers.loc["network_and_twin"].tolist() == [True, True, True]
    assert numbers.loc["twin"].tolist() == [False, True, False]
    assert numbers.loc["nothing"].tolist() == [False, False, False]
    assert cells.loc[cells["train"] != "network_and_twin", ["network_loss", "largest_divergence"]].isna().all(axis=None)


def test_there_are_no_rows_of_what_was_not_trained(run: tuple[Workspace, str]) -> None:
    for name in ("plateaus", "drops"):
        found = table(run[0], name)
        assert set(found.loc[found["train"] == "twin", "source"]) == {"twin"}
        assert set(found.loc[found["train"] == "network_and_twin", "source"]) == {"network", "twin"}
        assert not (found["train"] == "nothing").any()
    exponents = table(run[0], "exponents")
    assert set(exponents.loc[exponents["train"] == "twin", "source"]) == {"twin", "theory"}
    assert set(exponents.loc[exponents["train"] == "nothing", "source"]) == {"theory"}


def test_the_same_cell_has_the_same_numbers_however_it_is_run(run: tuple[Workspace, str]) -> None:
    """Ignition of a twin, alone or beside its network; predictions, with or without training."""
    plateaus = table(run[0], "plateaus")
    twins = plateaus[(plateaus["source"] == "twin") & (plateaus["experiment"].isin(["both", "alone"])) & (plateaus["tier"] == "discrete")]
    wide = twins.pivot_table(index=["sigma", "seed", "mode"], columns="train", values="t_measured")
    assert len(wide) == 8
    np.testing.assert_allclose(wide["twin"], wide["network_and_twin"], rtol=1e-4)
    exponents = table(run[0], "exponents")
    theory = exponents[exponents["source"] == "theory"].pivot_table(index=["alpha1", "epsilon"], columns="train", values="exponent")
    np.testing.assert_allclose(theory["twin"], theory["nothing"], rtol=1e-12)


def test_the_store_says_nothing_of_networks_that_are_not_there(run: tuple[Workspace, str]) -> None:
    study = open_study(run[0].results)
    for node in study.trajectories.children.values():
        data = node.to_dataset().load()
        train = str(data["train"].to_numpy()[0])
        finite = {name: bool(np.isfinite(data[name]).any()) for name in ("network_loss", "network_mode", "divergence", "twin_loss")}
        assert finite == {
            "network_loss": train == "network_and_twin",
            "network_mode": train == "network_and_twin",
            "divergence": train == "network_and_twin",
            "twin_loss": train != "nothing",
        }
        predicted = (data["status"] == Status.not_predicted).to_numpy()
        assert np.isfinite(data["time"]).all()
        assert (data["step_number"] >= 0).all()
        if train == "nothing" and not predicted.any():
            assert np.isfinite(data["theory_loss"]).any("tier").all()


def test_the_page_shows_what_there_is(run: tuple[Workspace, str]) -> None:
    page = (run[0].results / "report.html").read_text()
    assert "not predicted" in page
    assert "twin alone" in page
    assert "28 of 29 cells are done" in page
