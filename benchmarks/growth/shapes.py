"""What a training job costs against the shapes of its cells: one run of the workflow in which every point is a job of its own."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.growth.commands import Finished, run_workflow, write_config
from benchmarks.growth.sweeps import Sweep
from benchmarks.workers import Worker
from nqf_pipeline.stages.run import recorded_plan

CELLS, STEPS, LANES = 4, 500, (1, 2, 4, 8, 16, 32)
Experiment = dict[str, Any]


@dataclass(frozen=True)
class Axis:
    """One size of a cell, swept."""

    name: str
    size: str
    setting: str
    values: tuple[int, ...]
    experiment: Callable[[int], Experiment]


def _mlp(width: int = 64, samples: int = 600, records: int = 64) -> Experiment:
    return {
        "architectures": [{"kind": "mlp", "width": width}],
        "tasks": [{"kind": "teacher", "samples": samples, "test_samples": 600}],
        "optimizers": [{"kind": "gd", "learning_rate": 0.01}],
        "sigma": [0.01],
        "seeds": CELLS,
        "steps": STEPS,
        "records": records,
    }


def _modes(modes: int) -> Experiment:
    return {
        "architectures": [{"kind": "diagonal", "inputs": modes}],
        "tasks": [{"kind": "feature_power_law", "modes": modes, "alpha1": 2.0, "alpha2": 0.8}],
        "optimizers": [{"kind": "gd", "learning_rate": 0.1}],
        "epsilon": [1e-6],
        "seeds": CELLS,
        "steps": STEPS,
        "records": 64,
        "precision": "float64",
    }


AXES = (
    Axis("width", "width", "MLP 20-d-8, 600 samples", (16, 64, 256, 1024), lambda d: _mlp(width=d)),
    Axis("samples", "samples", "MLP 20-64-8", (150, 600, 2400, 9600), lambda n: _mlp(samples=n)),
    Axis("modes", "modes", "diagonal network of one unit, float64", (100, 300, 1000, 3000), _modes),
    Axis("records", "recorded steps", "MLP 20-64-8, 600 samples, 500 steps", (16, 64, 256, 500), lambda n: _mlp(records=n)),
)


def shape_sweeps(scratch: Path, scale: float) -> list[Sweep]:
    """Kernel seconds and peak memory of a job of four cells, for each axis; then lanes."""
    points = {axis.name: [axis.values[i] for i in range(len(axis.values) if scale == 1 else 2)] for axis in AXES}
    experiments = {json.dumps(e, sort_keys=True): e for axis in AXES for e in map(axis.experiment, points[axis.name])}
    names = {key: f"point{number}" for number, key in enumerate(experiments)}
    study = {"experiments": {names[key]: experiment for key, experiment in experiments.items()}}
    finished = run_workflow(write_config(scratch / "shapes", study), until="train")
    seconds, memory = _kernels(finished)
    sweeps = []
    for axis in AXES:
        place = {value: names[json.dumps(axis.experiment(value), sort_keys=True)] for value in points[axis.name]}
        shared = {"panel": axis.name, "size": axis.size, "setting": f"{axis.setting}; {CELLS} cells"}
        time = [[value, seconds[name]] for value, name in place.items()]
        sweeps.append(Sweep(axis.name, cost="kernels of a job", unit="s", points=time, **shared))
        peak = [[value, memory[name]] for value, name in place.items()]
        sweeps.append(
            Sweep(f"{axis.name}_memory", cost="peak memory of a job", unit="MB", points=peak, **{**shared, "panel": "memory of a job"})
        )
    return [*sweeps, _lanes(scale)]


def _kernels(finished: Finished) -> tuple[dict[str, float], dict[str, float]]:
    """(kernel seconds, peak MB) by experiment."""
    plan = recorded_plan(finished.results)
    memory = {job.name: job.megabytes for job in finished.jobs if job.stage == "train"}
    seconds: dict[str, float] = defaultdict(float)
    peak: dict[str, float] = defaultdict(float)
    for shard in plan.shards:
        name = plan.wanted(shard)[0].experiment
        record = json.loads(finished.layout.shard_summary(shard.id).read_text())
        seconds[name] += record["timings"]["run"]
        peak[name] = max(peak[name], memory[shard.id])
    return seconds, peak


def _lanes(scale: float) -> Sweep:
    """One worker of the engine, all lanes together."""
    points = []
    with Worker(sys.executable, "engine") as worker:
        for lanes in LANES:
            request = {"kind": "mlp", "seeds": list(range(lanes)), "steps": max(round(2000 * scale), 300), "twin_only": False}
            worker.ask(action="prepare", name=str(lanes), **request)
            points.append([lanes, min(worker.ask(action="train", name=str(lanes))["seconds"] for _ in range(3))])
    return Sweep("lanes", "lanes", "lanes", "kernels of a call", "s", "MLP 20-64-8, 600 samples, 2,000 steps", points)
