from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nqf_pipeline.dynamics import train as engine
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.errors import InputError
from nqf_pipeline.models import MLP
from nqf_pipeline.stages import pilot
from nqf_pipeline.stages.pilot import untimed
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.cost import Cost
from nqf_pipeline.study.plan import freeze, plan_file
from nqf_pipeline.tasks import Teacher
from tests import small

ROOT = Path(__file__).parents[2]
STUDY = small.config(engine={"minutes_per_job": 0.001}, sigma=[0.1, 0.01], seeds=40, steps=50_000, records=16)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "trial.yaml"
    path.write_text(yaml.safe_dump(STUDY))
    return path


def piloted(config: Path) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "nqf_pipeline.cli",
        "plan",
        str(config),
        "--results",
        str(config.parent / "results"),
        "--pilot",
        "--json",
    ]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_pilot_times_each_bucket_once_and_jobs_are_cut_by_it(config):
    results = config.parent / "results"
    before = plan_file(config, results)
    assert [len(group) for group, _ in untimed(before)] == [4]
    found = piloted(config)
    (row,) = found["pilot"]
    table = results / "trial" / "pilot.json"
    (timing,) = json.loads(table.read_text()).values()
    assert row["measured_us"] == pytest.approx(1e6 * timing["step"], abs=1e-3)
    assert row["estimated_us"] == pytest.approx(1e6 * before.costs[row["bucket"]].lane_step(4), abs=1e-3)
    assert 0 < timing["step"] < 1e-3
    after = plan_file(config, results)
    assert untimed(after) == []
    assert after.costs[row["bucket"]].step == timing["step"]
    assert {cell.id for cell in after.cells} == {cell.id for cell in before.cells}
    assert found["shards"] == len(after.shards)
    one_cell = after.costs[row["bucket"]].of_cell(after.cells[0], 4)
    assert len(after.shards) == min(20, -(-80 * one_cell // 0.06)), "parts of 0.06 seconds, no smaller than a lane group"
    frozen, timed = freeze(after), table.read_text()
    assert piloted(config)["new"] == 0
    assert table.read_text() == timed, "timed once"
    table.write_text(json.dumps({row["bucket"]: timing | {"step": 100 * timing["step"]}}))
    slower = plan_file(config, results)
    assert {shard.id for shard in slower.shards} == {shard.id for shard in frozen.shards}, "frozen shards stay as they are"
    assert slower.seconds(slower.shards[0]) > 10 * (frozen.seconds(frozen.shards[0]) - timing["start"])


def test_a_damaged_table_says_the_way_out(config):
    table = config.parent / "results" / "trial" / "pilot.json"
    table.parent.mkdir(parents=True)
    for text in ("{", "[1]", '{"mlp": {"step": -1}}', '{"mlp": {"step": NaN}}'):
        table.write_text(text)
        with pytest.raises(InputError, match=r"pilot.json: the pilot's table is damaged .*: delete it"):
            plan_file(config, config.parent / "results")


def test_every_gradient_is_timed_where_training_skips_most(monkeypatch):
    """Short runs skip more than whole ones, so their seconds would promise too much."""
    computed, train = [], engine.train

    def seen(*given: Any) -> Any:
        record = train(*given)
        computed.append((int(given[2].step_number[-1]), record.network_gradients[:, -1].tolist()))
        return record

    monkeypatch.setattr(engine, "train", seen)
    monkeypatch.setattr(pilot, "SECONDS", 1e-4)
    cells = tuple(
        Cell(
            architecture=MLP(inputs=4, width=4, outputs=2),
            task=Teacher(strengths=(1.0,), samples=20, test_samples=5),
            optimizer=Optimizer(learning_rate=0.05, gradient_error=1e-3),
            sigma=0.01,
            seed=seed,
            steps=400,
            records=8,
            precision="float64",
        )
        for seed in range(2)
    )
    assert cells[0].lags
    pilot.time_bucket(cells, 2, Cost(1e-6, 1e-6))
    assert len({steps for steps, _ in computed}) > 1
    assert all(found == [steps, steps] for steps, found in computed)


def test_a_pilot_runs_with_the_flags_of_training_jobs_whatever_planning_starts(tmp_path: Path) -> None:
    """A teacher network labels data when the study is planned, by JAX, which reads its flags once."""
    config = tmp_path / "layers.yaml"
    experiment = {
        "architectures": [{"kind": "deep_mlp", "inputs": 3, "outputs": 2, "width": 2}],
        "tasks": [{"kind": "teacher_network", "samples": 8, "test_samples": 8}],
        "optimizers": [{"kind": "gd", "learning_rate": 0.01}],
        "sigma": [0.1],
        "steps": 20,
        "records": 4,
    }
    config.write_text(yaml.safe_dump({"name": "layers", "experiments": {"layers": experiment}}))
    program = f"""
import sys
from nqf_pipeline.stages import cores
started = []
add = cores._add_flags
def watched(flags):
    started.append("jaxlib" in sys.modules)
    add(flags)
cores._add_flags = watched
from nqf_pipeline.cli import app
app(["plan", {str(config)!r}, "--results", {str(tmp_path / "results")!r}, "--pilot", "--json"], standalone_mode=False)
assert started == [False], started
"""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
