"""Whole studies of growing size: what each stage takes, in time, memory, files and bytes, and what a cell costs by what is trained."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.growth.commands import ROOT, Finished, run_workflow, write_config
from benchmarks.growth.sweeps import Sweep
from nqf_pipeline.stages.run import recorded_plan

LARGE = ROOT / "config" / "large.yaml"
SHARES = (1 / 800, 1 / 400, 1 / 200, 1 / 100)
"""Of the large study's seeds."""
MLP_SEEDS = (8, 24, 72, 144)
STAGES = ("train", "theory", "merge", "analyse", "figures", "report")
Study = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """Cells of which the same is trained, over all their jobs."""

    cells: int
    train: float
    """Seconds of a core in training jobs, start included."""
    theory: float
    bytes: int


@dataclass(frozen=True)
class Measured:
    """One finished study."""

    mix: str
    cells: int
    kernels: float
    """Core seconds in compiled kernels."""
    train_jobs: int
    seconds: dict[str, float]
    """Core seconds of all jobs of a stage."""
    megabytes: dict[str, float]
    """Largest job of a stage."""
    files: int
    bytes: int
    manifest: int
    kinds: dict[str, Kind]

    def document(self) -> dict[str, Any]:
        return asdict(self)


def study_runs(scratch: Path, scale: float) -> list[Measured]:
    """Both mixes at every size, the smallest two in a quick look; of the large study also the whole, where results/large holds it."""
    sizes = len(SHARES) if scale == 1 else 2
    runs = [_measure("mlp", _mlp(seeds), scratch / f"mlp{seeds}") for seeds in MLP_SEEDS[:sizes]]
    large = yaml.safe_load(LARGE.read_text())
    runs += [_measure("large", thinned(large, share), scratch / f"large{1 / share:.0f}") for share in SHARES[:sizes]]
    whole = Finished(0.0, ROOT / "results" / "large")
    return [*runs, recorded("large", whole)] if whole.layout.report.exists() else runs


def _mlp(seeds: int) -> Study:
    """Networks beside their twins only: MLP 20-64-8 on a teacher of four modes, 2,000 steps."""
    return {
        "experiments": {
            "networks": {
                "architectures": [{"kind": "mlp"}],
                "tasks": [{"kind": "teacher", "inputs": "white"}],
                "optimizers": [{"kind": "gd", "learning_rate": 0.02}],
                "sigma": [0.05, 0.01],
                "seeds": seeds,
                "steps": 2000,
            }
        }
    }


def thinned(study: Study, share: float) -> Study:
    """The same experiments with a share of their seeds, at least one each: the mix of kinds stays as far as whole seeds allow."""
    experiments = {}
    for name, given in study["experiments"].items():
        seeds = given.get("seeds", 4)
        count = seeds if isinstance(seeds, int) else len(seeds)
        experiments[name] = {**given, "seeds": max(round(count * share), 1)}
    return {**{key: value for key, value in study.items() if key != "name"}, "experiments": experiments}


def _measure(mix: str, study: Study, folder: Path) -> Measured:
    return recorded(mix, run_workflow(write_config(folder, study)))


def recorded(mix: str, finished: Finished) -> Measured:
    """What the jobs of a finished study recorded."""
    seconds: dict[str, float] = defaultdict(float)
    megabytes: dict[str, float] = defaultdict(float)
    for job in finished.jobs:
        seconds[job.stage] += job.seconds
        megabytes[job.stage] = max(megabytes[job.stage], job.megabytes)
    files = finished.files()
    kernels, kinds = _kinds(finished)
    seconds["theory"] = sum(kind.theory for kind in kinds.values())  # a study that was extended has the last predicting jobs only
    return Measured(
        mix=mix,
        cells=sum(kind.cells for kind in kinds.values()),
        kernels=kernels,
        train_jobs=sum(job.stage == "train" for job in finished.jobs),
        seconds=dict(seconds),
        megabytes=dict(megabytes),
        files=len(files),
        bytes=sum(path.stat().st_size for path in files),
        manifest=finished.layout.manifest.stat().st_size,
        kinds=kinds,
    )


def _kinds(finished: Finished) -> tuple[float, dict[str, Kind]]:
    """(kernel seconds of all jobs, cost by what is trained). A job's cost is shared evenly by its cells."""
    plan, layout = recorded_plan(finished.results), finished.layout
    taken = {job.name: job.seconds for job in finished.jobs if job.stage == "train"}
    kernels = 0.0
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0] * 4)
    for shard in plan.shards:
        trained, predicted = (_summary(path) for path in (layout.shard_summary(shard.id), layout.theory_summary(shard.id)))
        kernels += trained.get("timings", {}).get("run", 0.0)
        amounts = (
            1.0,
            taken.get(shard.id, 0.0) / len(shard.cells),
            sum(predicted.get("timings", {}).values()) / len(shard.cells),
            (trained.get("bytes", 0) + predicted.get("bytes", 0)) / len(shard.cells),
        )
        for cell in plan.wanted(shard):
            total = totals[cell.train]
            total[:] = [held + more for held, more in zip(total, amounts, strict=True)]
    return kernels, {name: Kind(round(t[0]), t[1], t[2], round(t[3])) for name, t in totals.items()}


def _summary(path: Path) -> dict[str, Any]:
    """What a job wrote beside its file; nothing where the shard has no such job."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def study_sweeps(runs: list[Measured]) -> list[Sweep]:
    """Each quantity of the runs of a mix against their cells."""
    sweeps = []
    for mix in sorted({run.mix for run in runs}):
        own = sorted((run for run in runs if run.mix == mix), key=lambda run: run.cells)
        sweeps += [_sweep(mix, name, panel, unit, own) for name, panel, unit in QUANTITIES]
    return sweeps


QUANTITIES = (
    *((f"{stage}_seconds", "stages", "s") for stage in STAGES),
    *((f"{stage}_megabytes", "memory of a stage", "MB") for stage in STAGES),
    ("kernels", "stages", "s"),
    ("files", "files", ""),
    ("bytes", "bytes", "bytes"),
    ("manifest", "bytes", "bytes"),
)


def _sweep(mix: str, name: str, panel: str, unit: str, runs: list[Measured]) -> Sweep:
    stage, _, column = name.partition("_")
    points = [[run.cells, getattr(run, column).get(stage, 0.0) if column else float(getattr(run, name))] for run in runs]
    return Sweep(f"{mix}_{name}", f"{mix}: {panel}", "cells", stage, unit, f"whole studies, mix `{mix}`", points)
