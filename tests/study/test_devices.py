"""Which device trains what, and how many cells at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nqf_pipeline.study.config import EngineSettings
from nqf_pipeline.study.devices import device_of, lane_widths
from nqf_pipeline.study.plan import freeze, plan_study
from nqf_pipeline.study.reading import study_from

LAW = {
    "architectures": [{"kind": "diagonal", "inputs": 8}],
    "tasks": [{"kind": "feature_power_law", "modes": 8}],
    "optimizers": [{"kind": "gd", "learning_rate": 0.1}],
    "epsilon": [1e-4, 1e-5],
    "seeds": 30,
    "steps": {"default": 100},
    "records": 8,
}


def study(**engine: Any) -> Any:
    experiments = {"single": LAW, "double": {**LAW, "precision": "float64"}}
    return study_from({"name": "trial", "experiments": experiments, "engine": engine}, "trial.yaml")


def test_float64_stays_on_the_cpu(tmp_path: Path) -> None:
    cells = plan_study(study(), tmp_path).cells
    gpu, cpu = EngineSettings(device="gpu"), EngineSettings()
    assert {(cell.precision, device_of(cell, gpu)) for cell in cells} == {("float32", "gpu"), ("float64", "cpu")}
    assert {device_of(cell, cpu) for cell in cells} == {"cpu"}


@pytest.mark.parametrize(("gpu_lanes", "wide"), [(256, 60), (25, 25)])
def test_an_accelerator_advances_all_cells_that_can_go_together(gpu_lanes: int, wide: int, tmp_path: Path) -> None:
    wish = plan_study(study(device="gpu", gpu_lanes=gpu_lanes), tmp_path)
    widths = {shard.cells[0].precision: shard.lane_width for shard in wish.shards}
    assert widths == {"float32": wide, "float64": 4}
    assert sum(len(shard.cells) for shard in wish.shards) == len(wish.cells) == 120
    assert {shard.cells[0].precision: wish.gpus(shard.id) for shard in wish.shards} == {"float32": 1, "float64": 0}


def test_without_an_accelerator_nothing_changes(tmp_path: Path) -> None:
    cells = plan_study(study(), tmp_path).cells
    assert set(lane_widths(cells, EngineSettings(lane_width=7)).values()) == {7}


def test_the_way_out_keeps_shards_as_they_are(tmp_path: Path) -> None:
    """A study that was planned for an accelerator goes on without one: the same shards, as wide as they were frozen."""
    planned = freeze(plan_study(study(device="gpu"), tmp_path))
    later = plan_study(study(), tmp_path)
    assert later.new_shards == ()
    assert {shard.id: shard.lane_width for shard in later.shards} == {shard.id: shard.lane_width for shard in planned.shards}
    assert {later.gpus(shard.id) for shard in later.shards} == {0}
