"""What a changed config runs again: what it changed, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import yaml

from nqf_pipeline.store.open import open_study
from tests.workflow.runs import CELLS, SHARDS, Change, Workspace, jobs

SHARD_FILES = ("shards/*", "theory/*.zip", "manifest.jsonl")
"""Without the summaries of predictions: the one job that makes them all marks those it kept as up to date, by their time stamps."""


def report_setting(study: dict[str, Any]) -> None:
    study["report"]["style"] = "whitegrid"


def analysis_setting(study: dict[str, Any]) -> None:
    study["analysis"] = {"rho": 0.4}


def engine_setting(study: dict[str, Any]) -> None:
    study["engine"] = {"lane_width": 2, "seconds_per_job": 1.0, "workers": 7}


def shuffled(study: dict[str, Any]) -> None:
    experiments = study["experiments"]
    for experiment in experiments.values():
        for key in {"optimizers", "sigma"} & set(experiment):
            experiment[key].reverse()
    experiments["tracks"]["seeds"] = [1, 0]
    study["experiments"] = {
        name: dict(sorted(experiment.items())) for name, experiment in sorted(experiments.items(), key=lambda item: item[0], reverse=True)
    }
    for name in list(study)[::-1]:
        study[name] = study.pop(name)


def renamed(study: dict[str, Any]) -> None:
    study["experiments"] = {f"{name}_renamed": experiment for name, experiment in study["experiments"].items()}


def new_seed(study: dict[str, Any]) -> None:
    study["experiments"]["tracks"]["seeds"] = 3


def new_sigma(study: dict[str, Any]) -> None:
    study["experiments"]["tracks"]["sigma"] = [0.1, 0.01, 0.03]


def fewer_sigma(study: dict[str, Any]) -> None:
    study["experiments"]["tracks"]["sigma"] = [0.01]


def fewer_experiments(study: dict[str, Any]) -> None:
    del study["experiments"]["law"]


AFTER_MERGE = {"merge": 1, "analyse": 1, "figures": 1, "report": 1}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (report_setting, {"figures": 1, "report": 1}),
        (analysis_setting, {"analyse": 1, "figures": 1, "report": 1}),
        (engine_setting, {}),
        (shuffled, {}),
        (renamed, AFTER_MERGE),
        (new_seed, {"train": 2, "theory": 1} | AFTER_MERGE),
        (new_sigma, {"train": 2, "theory": 1} | AFTER_MERGE),
        (fewer_sigma, AFTER_MERGE),
        (fewer_experiments, AFTER_MERGE),
    ],
)
def test_jobs_that_a_change_starts(finished: Workspace, tmp_path: Path, change: Change, expected: dict[str, int]) -> None:
    workspace = finished.copy(tmp_path)
    workspace.change(change)
    assert workspace.planned_jobs() == expected


def test_a_change_undone_runs_nothing(finished: Workspace, tmp_path: Path) -> None:
    workspace = finished.copy(tmp_path)
    workspace.change(new_seed)
    workspace.change(lambda study: study["experiments"]["tracks"].update(seeds=2))
    assert workspace.planned_jobs() == {}


def test_a_new_seed_sigma_and_name_train_only_new_cells(finished: Workspace, tmp_path: Path) -> None:
    workspace = finished.copy(tmp_path)
    for change in (new_seed, new_sigma, renamed):
        workspace.change(change)
    before = workspace.files(*SHARD_FILES)
    old_cells = cells_of(workspace)
    assert jobs(workspace.finish("--until", "merge")) == {"train": 2, "theory": 1, "merge": 1}

    after = workspace.files(*SHARD_FILES)
    manifest = "manifest.jsonl"
    assert after[manifest][0].startswith(before.pop(manifest)[0])
    assert {name: after[name] for name in before} == before, "old shards keep their bytes and their time stamps"
    assert len(workspace.shards) == SHARDS + 2

    cells = cells_of(workspace)
    assert len(cells) == CELLS + 2 * (2 + 3)  # with gd and adam: a third seed of two sigmas, a third sigma of three seeds
    for name, old in old_cells.items():
        label = old["experiment"].item()
        assert cells[name]["experiment"].item() == f"{label}_renamed"
        assert_same_numbers(cells[name], old)
    assert workspace.planned_jobs() == {"analyse": 1, "figures": 1, "report": 1}


def test_a_removed_sigma_leaves_the_store_without_training(finished: Workspace, tmp_path: Path) -> None:
    workspace = finished.copy(tmp_path)
    old_cells = cells_of(workspace)
    before = workspace.files(*SHARD_FILES)
    workspace.change(fewer_sigma)
    assert jobs(workspace.finish("--until", "merge")) == {"merge": 1}
    assert "buckets did not change" in (workspace.results / "logs" / "merge.log").read_text()
    assert workspace.files(*SHARD_FILES) == before
    cells = cells_of(workspace)
    assert {name for name in old_cells if old_cells[name]["sigma"] != 0.1} == set(cells)
    for name, cell in cells.items():
        assert_same_numbers(cell, old_cells[name])
    # Asked for again, the cells are still in their shards.
    workspace.change(lambda study: study["experiments"]["tracks"].update(sigma=[0.1, 0.01]))
    assert "train" not in workspace.planned_jobs()


def test_a_report_setting_draws_again_and_leaves_the_rest(finished: Workspace, tmp_path: Path) -> None:
    workspace = finished.copy(tmp_path)
    before = workspace.files()
    workspace.change(lambda study: study["report"].update(figures=["learning", "modes"]))
    workspace.finish()
    after = workspace.files()
    changed = {name.split("/")[0] for name in after if after[name] != before.get(name)}
    assert changed <= {"figures", "report.html", "study.json", "logs", "benchmarks", "running"}
    assert {name for name in after if name.endswith(".png")} == {"figures/learning.png", "figures/modes.png"}
    assert after["report.html"][0] != before["report.html"][0]
    assert yaml.safe_load((workspace.results / "study.json").read_text())["report"]["figures"] == ["learning", "modes"]


def test_other_data_are_other_cells(finished: Workspace, tmp_path: Path) -> None:
    """A data file with other contents under the same name: its old cells no longer stand for it."""
    workspace = finished.copy(tmp_path)
    data = workspace.config.parent / "points.csv"
    data.write_text(data.read_text().replace("a,b,c,y", "a,b,c,y", 1) + "0.5,0.5,0.5,0.25\n")
    assert workspace.planned_jobs() == {"train": 1, "theory": 1} | AFTER_MERGE


def cells_of(workspace: Workspace) -> dict[str, xr.Dataset]:
    """Every cell of the merged store, in memory."""
    nodes = [node.to_dataset().load() for node in open_study(workspace.results).trajectories.children.values()]
    return {str(node["cell"].values[row]): node.isel(cell=row) for node in nodes for row in range(node.sizes["cell"])}


def assert_same_numbers(one: xr.Dataset, other: xr.Dataset) -> None:
    for name, values in other.data_vars.items():
        np.testing.assert_array_equal(one[name].values, values.values, err_msg=str(name))
