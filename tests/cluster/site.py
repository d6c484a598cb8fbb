"""A workspace whose workflow submits its jobs to the cluster, and the study of the trials."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import yaml

from tests.cluster.slurm_cluster import Cluster, until
from tests.workflow.runs import MLP, ROOT, SNAKEFILE, STUDY, TEACHER, Workspace, said

PROFILE = ROOT / "workflow" / "profiles" / "slurm"
STORE = "results/tiny/trajectories.json"
"""The merged store: what most trials run to, and compare."""


def short_study() -> dict[str, Any]:
    """Power law and user's file of the tiny study: two shards of a second each."""
    return {name: deepcopy(STUDY["experiments"][name]) for name in ("law", "table")}


def slow_study(steps: int) -> dict[str, Any]:
    """The same, and one cell that trains for a while: long enough to be met by what the trials do to it."""
    slow = {
        "architectures": [{**MLP, "width": 7}],
        "tasks": [TEACHER],
        "optimizers": [{"kind": "gd", "learning_rate": 0.01}],
        "sigma": [0.01],
        "seeds": 1,
        "steps": steps,
        "records": 48,
    }
    return {**short_study(), "slow": slow}


@dataclass(frozen=True)
class Site(Workspace):
    """A workspace on the cluster."""

    cluster: Cluster

    @property
    def environment(self) -> dict[str, str]:
        given = super().environment
        path = f"{self.cluster.folder / 'bin'}{os.pathsep}{given['PATH']}"
        return {**given, "SLURM_CONF": self.cluster.environment["SLURM_CONF"], "PATH": path, "PYTHONPATH": str(ROOT)}

    def settle(self, **settings: Any) -> None:
        """What this site says for itself, over the profile's own."""
        (self.folder / "site.yaml").write_text(yaml.safe_dump({"default-resources": {"slurm_partition": "main"}, **settings}))

    def snakemake_command(self, *arguments: str) -> tuple[str, ...]:
        """The whole study, or the targets among the arguments."""
        if not (self.folder / "site.yaml").exists():
            self.settle()
        return (
            # Whoever starts the tests in the background has them ignore SIGINT.
            "env", "--default-signal=INT", "snakemake", *arguments,
            "--snakefile", str(SNAKEFILE), "--profile", str(PROFILE), "--profile", "site.yaml", "--configfile", "config/tiny.yaml",
        )  # fmt: skip

    def store(self, *arguments: str, timeout: float = 900) -> str:
        """Run up to the merged store; what it said."""
        done = self.snakemake(STORE, *arguments, timeout=timeout)
        assert done.returncode == 0, said(done)
        return said(done)

    def begin(self) -> subprocess.Popen[str]:
        return self.start(*self.snakemake_command(STORE))

    def slow_job(self) -> str | None:
        """Id of the running job that trains the slow cell."""
        lines = self.cluster.call("squeue", "-h", "-t", "running", "-o", "%i|%N|%k").splitlines()
        found = [line.split("|")[0] for line in lines if line.endswith(self.slow_shard or "?")]
        return found[0] if found else None

    @property
    def slow_shard(self) -> str | None:
        manifest = self.results / "manifest.jsonl"
        rows = [json.loads(line) for line in manifest.read_text().splitlines()] if manifest.exists() else []
        return next((row["shard"] for row in rows if '"width": 7' in json.dumps(row)), None)

    def await_slow_job(self) -> str:
        """Its id, once it trains."""
        until(240, "the slow job trains", lambda: self.slow_job() is not None and self._trains())
        job = self.slow_job()
        assert job is not None
        return job

    def records(self) -> list[dict[str, Any]]:
        """What the jobs wrote beside their shards."""
        return [json.loads(path.read_text()) for path in (self.results / "shards").glob("*.json")]

    def orphans(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.nqf("orphans", "results/tiny", "--json").stdout)
        return found

    def _trains(self) -> bool:
        shard = self.slow_shard
        return shard is not None and (self.results / "running" / shard).exists()


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL of a controller and all it started here."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def ended(process: subprocess.Popen[str], seconds: float = 600) -> str:
    """What a controller said, once it ended well."""
    text = process.communicate(timeout=seconds)[0]
    assert process.returncode == 0, text
    return text
