"""What a SLURM job costs beside its kernels: a medium study on the two-node loopback cluster of the trials, against the same study here.

`python -m benchmarks.cluster [--steps 7000] [--seconds 15]` prints one JSON document. Nothing else should be running on the machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.rows import Row, cost_row
from tests.cluster.site import Site
from tests.cluster.slurm_cluster import Cluster, missing_programs
from tests.workflow.runs import Workspace, new

CORES = 2
STEPS, SECONDS = 7000, 15.0
"""Steps of a cell, and the work that a job is cut to: together a dozen jobs."""
WORK = {
    "architectures": [{"kind": "mlp", "inputs": 20, "outputs": 8, "width": 64}],
    "tasks": [{"kind": "teacher", "inputs": "white", "strengths": [1.0, 0.5], "samples": 600, "test_samples": 100}],
    "optimizers": [{"kind": "gd", "learning_rate": 0.02}],
    "sigma": [0.1, 0.03, 0.01],
    "records": 64,
}


def cluster_rows(steps: int = STEPS, seconds: float = SECONDS) -> list[Row]:
    """One row; none, with the reason printed, where SLURM is not installed."""
    if missing := missing_programs():
        print(f"slurm_job: skipped, not installed: {', '.join(missing)} (as root on Debian or Ubuntu: make slurm)")
        return []
    found = compare(steps, seconds)
    note = (
        f"{found['cells']} cells in {found['jobs']} jobs of {found['kernels_per_job']:.1f} s in kernels; at ten minutes of kernels a job "
        f"{found['share_at_ten_minutes']:.1%} of its time is overhead"
    )
    return [cost_row("slurm_job", [found["slurm"]["overhead"]], "the same jobs here", [found["local"]["overhead"]], "s/job", note=note)]


def compare(steps: int, seconds: float) -> dict[str, Any]:
    """The study run here and on the cluster: seconds beside kernels a job, and the share of a long job that these are."""
    experiments = {"work": {**WORK, "seeds": 100, "steps": steps}}
    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        study = {"experiments": experiments, "engine": {"seconds_per_job": seconds, "workers": CORES}}
        here = new(place / "local", **study)
        here.finish("--until", "train")
        with_cluster = Cluster(place).start()
        try:
            site = Site(new(place / "site", **study).folder, with_cluster)
            begun = time.perf_counter()
            site.store("--until", "train")
            wall = time.perf_counter() - begun
            ends = _job_seconds(with_cluster)
        finally:
            with_cluster.stop()
        kernels, cells = _kernels(site)
        local = sum(_benchmark_seconds(here)) - sum(_kernels(here)[0])
    overhead = (sum(ends) - sum(kernels)) / len(kernels)
    return {
        "cells": cells,
        "jobs": len(kernels),
        "kernels_per_job": sum(kernels) / len(kernels),
        "slurm": {"overhead": overhead, "share": 1 - sum(kernels) / sum(ends), "wall": wall},
        "local": {"overhead": local / len(kernels)},
        "share_at_ten_minutes": overhead / (overhead + 600),
    }


def _job_seconds(cluster: Cluster) -> list[float]:
    """From start to end of every training job, as SLURM has them."""
    lines = cluster.call("squeue", "-h", "-t", "completed", "-O", "StartTime:22,EndTime:22,Comment:80").splitlines()
    times = [line.split() for line in lines if "rule_train" in line]
    return [(datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() for start, end, _ in times]


def _kernels(workspace: Workspace) -> tuple[list[float], int]:
    records = [json.loads(path.read_text()) for path in (workspace.results / "shards").glob("*.json")]
    return [record["timings"]["run"] for record in records], sum(len(record["cells"]) for record in records)


def _benchmark_seconds(workspace: Workspace) -> list[float]:
    """Wall time of the training jobs of a local run."""
    files = (workspace.results / "benchmarks" / "train").glob("*.tsv")
    return [float(path.read_text().splitlines()[1].split("\t")[0]) for path in files]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="work that one job is cut to")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of each of the 300 cells")
    options = parser.parse_args()
    print(json.dumps(compare(options.steps, options.seconds), indent=1))
