"""Commands as a user gives them, with their time and memory; whole workflow runs with what their jobs recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from benchmarks.rows import FOLDER
from nqf_pipeline.study.layout import Layout

ROOT = FOLDER.parent
CORES = 2
_METER = Path(__file__).parent / "meter.py"
_BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Cost:
    """Wall time and the largest resident memory among the processes of a command."""

    seconds: float
    megabytes: float
    output: str


def measured(command: Sequence[str | Path], folder: Path) -> Cost:
    """Runs a command of this environment in a folder. Raises RuntimeError with its last words where it fails."""
    environment = {**os.environ, "PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    with tempfile.NamedTemporaryFile("r") as file:
        meter = [sys.executable, "-S", str(_METER), file.name, *map(str, command)]
        done = subprocess.run(meter, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        seconds, megabytes, code = json.load(file)
    if code:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{done.stderr[-3000:]}")
    return Cost(seconds, megabytes, done.stdout)


def write_config(folder: Path, study: dict[str, Any]) -> Path:
    """The study's config file in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"name": "growth", **study}))
    return path


def snakemake(config: Path, *arguments: str) -> Cost:
    """The workflow beside a config file."""
    command: list[str | Path] = [
        "snakemake",
        "--snakefile",
        ROOT / "workflow" / "Snakefile",
        "--directory",
        config.parent,
        "--configfile",
        config,
    ]
    return measured([*command, "--cores", str(CORES), *arguments], config.parent)


@dataclass(frozen=True)
class Job:
    """What one job took: seconds and memory as Snakemake saw them."""

    stage: str
    name: str
    seconds: float
    megabytes: float


@dataclass(frozen=True)
class Finished:
    """A finished run of the workflow."""

    seconds: float
    results: Path

    @property
    def layout(self) -> Layout:
        return Layout(self.results)

    @property
    def jobs(self) -> list[Job]:
        """Every job; a stage with many jobs has a folder, or numbered files."""
        found = []
        for path in sorted((self.results / "benchmarks").rglob("*.tsv")):
            parts, row = path.relative_to(self.results / "benchmarks").with_suffix("").parts, pd.read_csv(path, sep="\t").iloc[0]
            memory = pd.to_numeric(row["max_rss"], errors="coerce")
            found.append(Job(parts[0].partition("_")[0], parts[-1], float(row["s"]), float(memory)))
        return found

    def files(self) -> list[Path]:
        return [path for path in self.results.rglob("*") if path.is_file()]


def run_workflow(config: Path, until: str = "all") -> Finished:
    """Runs a study, alone in its folder, up to a rule."""
    cost = snakemake(config, "--until", until)
    (results,) = (config.parent / "results").iterdir()
    return Finished(cost.seconds, results)
