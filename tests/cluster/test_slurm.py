"""A study on a real two-node SLURM cluster: the results are those of a local run, byte for byte, whatever happens to nodes and jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.slurm_cluster import Cluster, until
from tests.workflow.runs import MLP, ROOT, SNAKEFILE, STUDY, TEACHER, Workspace, new, said

pytestmark = pytest.mark.cluster
SLOW = "mlp_7_"
"""Beginning of the bucket whose job lasts: long enough to be met by what the tests do to it."""


def slow_study(steps: int) -> dict[str, Any]:
    """Power law and user's file of the tiny study, and one cell that trains for a while."""
    experiments = {name: deepcopy(STUDY["experiments"][name]) for name in ("law", "table")}
    experiments["slow"] = {
        "architectures": [{**MLP, "width": 7}],
        "tasks": [TEACHER],
        "optimizers": [{"kind": "gd", "learning_rate": 0.01}],
        "sigma": [0.01],
        "seeds": 1,
        "steps": steps,
        "records": 48,
    }
    return experiments


@dataclass(frozen=True)
class Site(Workspace):
    """A workspace whose workflow submits its jobs to the cluster."""

    cluster: Cluster

    @property
    def environment(self) -> dict[str, str]:
        given = super().environment
        path = f"{self.cluster.folder / 'bin'}{os.pathsep}{given['PATH']}"
        return {**given, "SLURM_CONF": self.cluster.environment["SLURM_CONF"], "PATH": path, "PYTHONPATH": str(ROOT)}

    def snakemake_command(self, *arguments: str) -> tuple[str, ...]:
        profile = ROOT / "workflow" / "profiles" / "slurm"
        return (
            "snakemake", "--snakefile", str(SNAKEFILE), "--workflow-profile", str(profile), "--configfile", "config/tiny.yaml", *arguments,
        )  # fmt: skip

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
        until(120, "the slow job trains", lambda: self.slow_job() is not None and self._trains())
        job = self.slow_job()
        assert job is not None
        return job

    def _trains(self) -> bool:
        shard = self.slow_shard
        return shard is not None and (self.results / "running" / shard).exists()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The slow study, run on this machine."""
    workspace = new(tmp_path_factory.mktemp("local"), experiments=slow_study(600_000))
    workspace.finish()
    return workspace


@pytest.fixture
def site(cluster: Cluster, local: Workspace, tmp_path: Path) -> Iterator[Site]:
    """The same study, to be run on the cluster; what it leaves in the queue is cancelled."""
    workspace = Site(new(tmp_path, experiments=slow_study(600_000)).folder, cluster)
    yield workspace
    for job, _, _ in cluster.jobs():
        cluster.call("scancel", job)
    until(30, "the queue is empty", lambda: not cluster.jobs())


def finish(process: subprocess.Popen[str], seconds: float = 500) -> str:
    text = process.communicate(timeout=seconds)[0]
    assert process.returncode == 0, text
    return text


def test_results_are_those_of_a_local_run(site: Site, local: Workspace) -> None:
    done = site.snakemake(timeout=500)
    assert done.returncode == 0, said(done)
    assert site.lasting() == local.lasting()
    assert "Nothing to be done" in said(site.snakemake(timeout=60))


def test_jobs_that_meet_their_memory_limit_get_more(site: Site, local: Workspace) -> None:
    done = site.snakemake("--set-resources", "train:mem_mb=350 if attempt == 1 else 2000", timeout=500)
    assert done.returncode == 0, said(done)
    assert "Trying to restart" in said(done)
    assert site.lasting() == local.lasting()


def test_jobs_that_meet_their_time_limit_get_more(cluster: Cluster, tmp_path: Path) -> None:
    study = slow_study(12_000_000)
    site = Site(new(tmp_path / "cluster", experiments=study).folder, cluster)
    done = site.snakemake("--set-resources", "train:runtime=1 if attempt == 1 else 30", timeout=900)
    assert done.returncode == 0, said(done)
    assert "Trying to restart" in said(done)
    cells = json.loads(site.nqf("status", "results/tiny", "--json").stdout)
    assert cells["counts"]["done"] == cells["cells"]


def test_a_dead_node_loses_nothing(site: Site, local: Workspace) -> None:
    process = site.start(*site.snakemake_command())
    node = int(site.cluster.call("squeue", "-h", "-j", site.await_slow_job(), "-o", "%N").strip().removeprefix("n"))
    site.cluster.kill_node(node)
    site.cluster.start_node(node)
    finish(process, 600)
    assert site.lasting() == local.lasting()


def test_orphans_of_a_killed_controller_are_found_and_cancelled(site: Site, local: Workspace) -> None:
    process = site.start(*site.snakemake_command())
    job = site.await_slow_job()
    refused = site.nqf("orphans", "results/tiny")
    assert refused.returncode == 2
    assert "goes on" in refused.stderr
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    found = json.loads(site.nqf("orphans", "results/tiny", "--json").stdout)
    assert {"job": job, "work": site.slow_shard}.items() <= next(entry for entry in found if entry["job"] == job).items()
    cancelled = site.nqf("orphans", "results/tiny", "--cancel")
    assert cancelled.returncode == 0, said(cancelled)
    assert "no orphans" in site.nqf("orphans", "results/tiny").stdout
    done = site.snakemake(timeout=500)
    assert done.returncode == 0, said(done)
    assert site.lasting() == local.lasting()


def test_orphans_may_finish_their_work(site: Site, local: Workspace) -> None:
    process = site.start(*site.snakemake_command())
    site.await_slow_job()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    shard = site.slow_shard
    waited = site.nqf("orphans", "results/tiny", "--wait")
    assert waited.returncode == 0, said(waited)
    assert (site.results / "shards" / f"{shard}.json").exists()
    done = site.snakemake(timeout=500)
    assert done.returncode == 0, said(done)
    assert site.lasting() == local.lasting()
