"""Whole studies through the workflow: how much of their time is spent in compiled kernels, and what a job costs beside them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from benchmarks.rows import FOLDER, Row, cost_row, rate_row
from nqf_pipeline.study.layout import Layout

ROOT = FOLDER.parent
CORES = 2
ONE_CELL = {"lane_width": 1, "minutes_per_job": 1e-10}
"""Engine settings that give every cell a job of its own."""
GOAL = 0.85
"""Share of a study's wall time that is to be spent in compiled kernels."""


@dataclass(frozen=True)
class Run:
    """A finished run of the workflow up to a rule."""

    wall: float
    kernels: float
    """Seconds inside compiled kernels, over all jobs."""
    jobs: float
    """Wall time of all training jobs together."""
    cells: int
    stages: dict[str, float]
    """Wall time of all jobs of each stage together."""

    @property
    def limits(self) -> str:
        """Where the cores' time goes, as shares of the run's wall time on all of them."""
        whole = CORES * self.wall
        parts = {"kernels": self.kernels, "rest of the training jobs": self.jobs - self.kernels}
        parts |= {stage: seconds for stage, seconds in self.stages.items() if stage != "train"}
        idle = max(whole - sum(parts.values()), 0.0)
        named = ", ".join(f"{name} {seconds / whole:.0%}" for name, seconds in {**parts, "start and idle cores": idle}.items())
        return (
            f"time of both cores: {named}; the same jobs reach {GOAL:.0%} where they train {self.minutes_to_goal:.1f} minutes on both cores"
        )

    @property
    def kernel_share(self) -> float:
        return self.kernels / (CORES * self.wall)

    @property
    def minutes_to_goal(self) -> float:
        """Minutes in kernels, on all cores at once, from which on such a study reaches the goal: longer training costs nothing else."""
        beside = CORES * self.wall - self.kernels
        return beside * GOAL / (1 - GOAL) / CORES / 60

    @property
    def overhead(self) -> float:
        """Seconds a cell costs beside its kernels: interpreter, imports, compilation, data, writing."""
        return (self.jobs - self.kernels) / self.cells


def job_rows(study: Path, scratch: Path) -> list[Row]:
    """The given study in full, and one bucket of cells as this project cuts it and as one job per cell."""
    bucket = {"architectures": [{"kind": "mlp"}], "tasks": [{"kind": "teacher"}], "optimizers": [{"kind": "gd"}], "sigma": [0.01]}
    experiments = {"bucket": {**bucket, "seeds": 8, "steps": 2000}}
    shared = _run(_config(scratch / "shared", experiments, {}), scratch / "shared", until="train")
    apart = _run(_config(scratch / "apart", experiments, ONE_CELL), scratch / "apart", until="train")
    whole = _run(study, scratch / "study")
    peer = f"one job per cell ({apart.cells} cells of an MLP bucket)"
    note = f"{study.name}: {whole.cells} cells in {whole.wall:.0f} s on {CORES} cores, start-up, theory, analysis and report included"
    return [
        rate_row(
            "kernel_share",
            [whole.kernel_share],
            peer,
            [apart.kernel_share],
            "share of wall time",
            limit_share=whole.kernel_share,
            note=note,
            limits=whole.limits,
        ),
        cost_row("job_overhead", [shared.overhead], peer, [apart.overhead], "s/cell", note=f"{shared.cells} cells of one bucket"),
    ]


def _config(folder: Path, experiments: dict[str, Any], engine: dict[str, float]) -> Path:
    folder.mkdir(parents=True)
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"name": "bench", "experiments": experiments, "engine": engine}))
    return path


def _run(config: Path, folder: Path, until: str = "all") -> Run:
    """Runs the workflow in an empty folder and reads what its jobs recorded."""
    folder.mkdir(exist_ok=True)
    bin_folder = Path(sys.executable).parent
    command = [str(bin_folder / "snakemake"), "--snakefile", str(ROOT / "workflow" / "Snakefile"), "--directory", str(folder)]
    command += ["--cores", str(CORES), "--configfile", str(config.resolve()), "--until", until]
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"the workflow failed on {config}:\n{done.stderr[-3000:]}")
    (root,) = (folder / "results").iterdir()
    records = list(_summaries(root))
    stages: dict[str, float] = defaultdict(float)
    for path in sorted((root / "benchmarks").rglob("*.tsv")):
        stages[path.relative_to(root / "benchmarks").with_suffix("").parts[0]] += float(pd.read_csv(path, sep="\t")["s"].iloc[0])
    kernels = sum(r["timings"]["run"] for r in records)
    return Run(wall, kernels, stages["train"], sum(len(r["cells"]) for r in records), dict(stages))


def _summaries(root: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(path.read_text()) for path in Layout(root).shard_summary("x").parent.glob("*.json"))
