"""Real runs of the workflow on a tiny study, in folders of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from nqf_pipeline.stages.status import study_status

ROOT = Path(__file__).parents[2]
SNAKEFILE = ROOT / "workflow" / "Snakefile"
PATIENCE = 900.0
"""Seconds after which a process is taken for hung: no measure of a machine, however slow or busy it is."""
MLP = {"kind": "mlp", "inputs": 6, "outputs": 3, "width": 8}
TEACHER = {"kind": "teacher", "inputs": "white", "strengths": [1.0, 0.5], "samples": 32, "test_samples": 16}
STUDY: dict[str, Any] = {
    "name": "tiny",
    "experiments": {
        "tracks": {
            "architectures": [MLP],
            "tasks": [TEACHER],
            "optimizers": [{"kind": "gd", "learning_rate": 0.05}, {"kind": "adam", "learning_rate": 0.005}],
            "sigma": [0.1, 0.01],
            "seeds": 2,
            "steps": 300,
            "records": 48,
        },
        "law": {
            "architectures": [{"kind": "diagonal", "inputs": 40}],
            "tasks": [{"kind": "feature_power_law", "modes": 40, "alpha1": 2.0}],
            "optimizers": [{"kind": "gd", "learning_rate": 0.1}],
            "epsilon": [1e-6],
            "seeds": 1,
            "records": 48,
            "precision": "float64",
        },
        "table": {
            "architectures": [{"kind": "mlp", "inputs": 3, "outputs": 1, "width": 4}],
            "tasks": [{"kind": "file", "path": "points.csv", "modes": 1}],
            "optimizers": [{"kind": "gd", "learning_rate": 0.05}],
            "sigma": [0.01],
            "seeds": 1,
            "steps": 200,
            "records": 48,
        },
        "wild": {
            "architectures": [MLP],
            "tasks": [TEACHER],
            "optimizers": [{"kind": "gd", "learning_rate": 50.0}],
            "sigma": [0.5],
            "seeds": 1,
            "steps": 300,
            "records": 48,
        },
    },
    "report": {"formats": ["png"], "dpi": 60},
}
"""Four buckets: gd and adam, a power law in float64, a user's file; one cell diverges."""
CELLS = 8 + 1 + 1 + 1
SHARDS = 4
NOTHING = "Nothing to be done"
Change = Callable[[dict[str, Any]], None]
Snapshot = dict[str, tuple[bytes, int]]


@dataclass(frozen=True)
class Workspace:
    """A folder with a config in `config/`, its data beside it, and what the workflow makes of them."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "config" / "tiny.yaml"

    @property
    def results(self) -> Path:
        return self.folder / "results" / "tiny"

    def write(self, study: dict[str, Any]) -> None:
        self.config.parent.mkdir(parents=True, exist_ok=True)
        apart = json.loads(json.dumps(study))  # no anchors for parts that two experiments share
        self.config.write_text(yaml.safe_dump(apart, sort_keys=False))

    def change(self, change: Change) -> None:
        """Edit the config file."""
        study = yaml.safe_load(self.config.read_text())
        change(study)
        self.write(study)

    def copy(self, folder: Path) -> Workspace:
        """The same state elsewhere, time stamps and Snakemake's records included."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Workspace(folder)

    @property
    def environment(self) -> dict[str, str]:
        """The programs of this interpreter; locks on cores apart from other processes' ones; no git commit in the results, which must
        not depend on what is committed while tests run."""
        (self.folder / "tmp").mkdir(exist_ok=True)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        return {**os.environ, "PATH": path, "TMPDIR": str(self.folder / "tmp"), "GIT_DIR": os.devnull}

    def start(self, *command: str, **options: Any) -> subprocess.Popen[str]:
        """A process in a group of its own, as a terminal starts it; both streams together."""
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **options,
        )

    def run(self, *command: str, timeout: float = PATIENCE, **options: Any) -> subprocess.CompletedProcess[str]:
        """A process run to its end; streams apart."""
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=timeout, check=False, **options
        )

    def nqf(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run("nqf", *arguments, **options)

    def snakemake_command(self, *arguments: str) -> tuple[str, ...]:
        return ("snakemake", "--cores", "2", "--snakefile", str(SNAKEFILE), "--configfile", "config/tiny.yaml", *arguments)

    def snakemake(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.run(*self.snakemake_command(*arguments), **options)

    def finish(self, *arguments: str) -> str:
        """Run the workflow; what it said."""
        done = self.snakemake(*arguments)
        assert done.returncode == 0, said(done)
        return said(done)

    def planned_jobs(self) -> dict[str, int]:
        """How many jobs of each rule a run would start; empty when there is nothing to do."""
        done = self.snakemake("--dry-run")
        assert done.returncode == 0, said(done)
        return jobs(said(done))

    @property
    def shards(self) -> list[str]:
        """Ids in the manifest, in its order."""
        return [json.loads(line)["shard"] for line in (self.results / "manifest.jsonl").read_text().splitlines()]

    @property
    def seconds(self) -> float:
        """How long the first run took."""
        ((hours, minutes, seconds),) = re.findall(r"Elapsed time: (\d+):(\d+):([\d.]+)", (self.folder / "first_run.txt").read_text())
        return 3600 * int(hours) + 60 * int(minutes) + float(seconds)

    def files(self, *patterns: str) -> Snapshot:
        """Bytes and time stamps of files below the results folder, by relative path."""
        found = {path for pattern in patterns or ("**/*",) for path in self.results.glob(pattern) if path.is_file()}
        return {path.relative_to(self.results).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(found)}

    def contents(self, *patterns: str) -> dict[str, bytes]:
        return {name: data for name, (data, _) in self.files(*patterns).items()}

    def lasting(self) -> dict[str, bytes]:
        """What must be the same however often a run was interrupted: store, tables but the times they took."""
        return self.contents("trajectories.zarr/**/*", "trajectories.json", *(f"{t}.*" for t in ("cells", "exponents", "plateaus")))

    def __str__(self) -> str:
        return str(self.folder)


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


def jobs(text: str) -> dict[str, int]:
    """Snakemake's table of job counts, without the targets."""
    if NOTHING in text:
        return {}
    table = text.split("Job stats:")[1].split("total")[0]
    found = {name: int(count) for name, count in re.findall(r"^(\w+)\s+(\d+)$", table, re.MULTILINE)}
    found.pop("all", None)
    return found


def new(folder: Path, **changes: Any) -> Workspace:
    """A workspace that has not run yet."""
    workspace = Workspace(folder)
    workspace.write(deepcopy(STUDY) | changes)
    points = np.random.default_rng(7).standard_normal((40, 3))
    rows = [",".join(f"{x:.17g}" for x in (*point, point[0] * point[1])) for point in points]
    (workspace.config.parent / "points.csv").write_text("\n".join(["a,b,c,y", *rows]) + "\n")
    return workspace


def wait_until(condition: Callable[[], Any], process: subprocess.Popen[str], seconds: float = PATIENCE) -> None:
    """Wait for a condition while a process runs; an error when the process ends before."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, f"ended too early:\n{process.communicate()[0]}"
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def living(workspace: Workspace) -> list[int]:
    """Processes whose working directory is the workspace."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink() == workspace.folder:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def training(workspace: Workspace) -> dict[str, int]:
    """Process that trains each shard that is in training now."""
    if not (workspace.results / "study.json").exists():
        return {}
    ids = [entry["shard"] for entry in study_status(workspace.results)["running"]]
    owners = {shard: re.match(r"process (\d+) on ", (workspace.results / "running" / shard).read_text()) for shard in ids}
    return {shard: int(owner[1]) for shard, owner in owners.items() if owner}
