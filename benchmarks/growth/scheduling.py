"""What planning and Snakemake cost against the number of jobs and cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.growth.commands import Cost, measured, snakemake, write_config
from benchmarks.growth.sweeps import Sweep
from benchmarks.jobs import ONE_CELL

JOBS, DRY_JOBS = (1, 10, 100, 300), (100, 1000, 3000, 10_000)
STUDY_JOBS, PLANNED = (10, 300, 1000, 3000), (100, 1000, 3000, 10_000, 30_000)
TRIVIAL = 'rule all:\n    input: expand("{{i}}.txt", i=range({jobs}))\nrule one:\n    output: "{{i}}.txt"\n    shell: "touch {{output}}"\n'


def scheduling_sweeps(scratch: Path, scale: float) -> list[Sweep]:
    """Trivial jobs run and only planned by Snakemake, and this project's own jobs and cells planned."""
    return [*_trivial(scratch / "trivial", scale), *_own_jobs(scratch / "own", scale), *_planned(scratch / "planned", scale)]


def sizes(values: tuple[int, ...], scale: float) -> list[int]:
    """The same decades, ending lower in a quick look."""
    return sorted({max(round(value * scale), 1) for value in values})


def _trivial(folder: Path, scale: float) -> list[Sweep]:
    seconds = [[jobs, _touch(folder / f"run{jobs}", jobs).seconds] for jobs in sizes(JOBS, scale)]
    dry, memory = [], []
    for jobs in sizes(DRY_JOBS, scale):
        cost = _touch(folder / f"dry{jobs}", jobs, "--dry-run", "--quiet")
        dry.append([jobs, cost.seconds])
        memory.append([jobs, cost.megabytes])
    setting = "one rule, `touch` as its shell command"
    shared = {"panel": "Snakemake", "size": "jobs", "setting": setting}
    return [
        Sweep("snakemake_run", cost="trivial jobs, run", unit="s", points=seconds, **shared),
        Sweep("snakemake_dry", cost="trivial jobs, dry run", unit="s", points=dry, **shared),
        Sweep("snakemake_memory", cost="trivial jobs, dry run", unit="MB", points=memory, **{**shared, "panel": "Snakemake's memory"}),
    ]


def _touch(folder: Path, jobs: int, *arguments: str) -> Cost:
    folder.mkdir(parents=True)
    (folder / "Snakefile").write_text(TRIVIAL.format(jobs=jobs))
    return measured(["snakemake", "--cores", "2", *arguments], folder)


def _own_jobs(folder: Path, scale: float) -> list[Sweep]:
    """The workflow's dry run with one cell a job: plan, rules and graph."""
    seconds, memory = [], []
    for jobs in sizes(STUDY_JOBS, scale):
        cost = snakemake(write_config(folder / str(jobs), {**tiny(jobs), "engine": ONE_CELL}), "--dry-run", "--quiet")
        seconds.append([jobs, cost.seconds])
        memory.append([jobs, cost.megabytes])
    shared = {"size": "jobs", "setting": "this project's workflow, one cell a job"}
    return [
        Sweep("workflow_dry", "Snakemake", cost="this workflow, dry run", unit="s", points=seconds, **shared),
        Sweep("workflow_memory", "Snakemake's memory", cost="this workflow, dry run", unit="MB", points=memory, **shared),
    ]


def _planned(folder: Path, scale: float) -> list[Sweep]:
    seconds, memory = [], []
    for cells in sizes(PLANNED, scale):
        config = write_config(folder / str(cells), tiny(cells))
        cost = measured(["nqf", "plan", config, "--json"], folder)
        found = json.loads(cost.output)["cells"]
        seconds.append([found, cost.seconds])
        memory.append([found, cost.megabytes])
    shared = {"size": "cells", "setting": "`nqf plan`, one architecture, seeds swept"}
    return [
        Sweep("plan", "planning", cost="nqf plan", unit="s", points=seconds, **shared),
        Sweep("plan_memory", "memory of a stage", cost="nqf plan", unit="MB", points=memory, **shared),
    ]


def tiny(cells: int) -> dict[str, Any]:
    """A study of the smallest networks: one architecture, one task, as many seeds as cells."""
    return {
        "experiments": {
            "cells": {
                "architectures": [{"kind": "mlp", "inputs": 8, "outputs": 4, "width": 16}],
                "tasks": [{"kind": "teacher", "samples": 64, "test_samples": 64}],
                "optimizers": [{"kind": "gd", "learning_rate": 0.05}],
                "sigma": [0.01],
                "seeds": cells,
                "steps": 1000,
                "records": 64,
            }
        }
    }
