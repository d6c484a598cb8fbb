"""XLA's flags are set before planning, which starts JAX where a teacher network labels the data: JAX reads them once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nqf_pipeline.stages.run import begin
from nqf_pipeline.study.plan import plan_file
from tests import small

ROOT = Path(__file__).parents[2]
WATCHED = """
import os, sys
from nqf_pipeline.stages import run
plan = run.plan_study
def watched(*given):
    assert "jaxlib" not in sys.modules
    assert "small_while_loop" in os.environ["XLA_FLAGS"]
    found = plan(*given)
    print("planned", "jaxlib" in sys.modules)
    return found
run.plan_study = watched
from nqf_pipeline.cli import app
app(sys.argv[1:], standalone_mode=False)
"""
CLEAN = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"} | {"PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("command", ["train", "theory", "rerun"])
def test_jobs_that_plan_do_so_with_the_flags_of_training_jobs(tmp_path: Path, command: str) -> None:
    (tmp_path / "points.csv").write_text("x0,x1,y\n" + "\n".join(f"{i % 3 - 1},{i % 5 - 2},{i % 7 - 3}" for i in range(20)))
    document = small.config(steps=20, records=4, seeds=1)
    (first,) = document["experiments"].values()
    labelled = {"kind": "teacher_network", "samples": 8, "test_samples": 8}
    read = first | {
        "architectures": [{"kind": "mlp", "inputs": 2, "outputs": 1, "width": 2}],
        "tasks": [{"kind": "file", "path": "points.csv", "modes": 1}],
    }
    document["experiments"] = {"labelled": first | {"tasks": [labelled], "steps": "auto"}, "read": read}
    config = tmp_path / "study.yaml"
    config.write_text(yaml.safe_dump(document))
    wish = begin(plan_file(config, tmp_path))
    (cell,) = (cell for cell in wish.cells if cell.fingerprint)
    (shard,) = (shard for shard in wish.shards if cell in shard.cells)
    what = {"train": [shard.id], "theory": [], "rerun": [cell.id]}[command]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, command, str(wish.layout.root), *what], env=CLEAN, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "planned True" in done.stdout, "this study's plan starts JAX"
