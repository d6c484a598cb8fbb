"""The analysis on SLURM workers: its tables are those of a local run, and no worker stays behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nqf_pipeline.analysis.run import TABLES_WRITTEN, analyse
from tests.analysis.merged import merged
from tests.cluster.conftest import empty
from tests.cluster.dask_trial import NUMBERS
from tests.cluster.slurm_cluster import Cluster, until
from tests.workflow.runs import ROOT

pytest.importorskip("dask_jobqueue", reason="pip install 'nqf-pipeline[cluster]', or make slurm")
pytestmark = pytest.mark.cluster


class Trials:
    """Starts trials on the cluster from a folder of their own."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.results = cluster, folder / "tiny"

    def begin(self, what: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.dask_trial", what, str(self.results)],
            cwd=ROOT,
            env={**self.cluster.environment, "PYTHONPATH": str(ROOT)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def at_work(self, trial: subprocess.Popen[str]) -> list[str]:
        """Ids of its jobs, once two of them run and tasks are given out."""
        assert trial.stdout is not None
        assert trial.stdout.readline() == "workers are there\n", trial.communicate()[1]
        until(60, "both workers run", lambda: len(self.running()) == 2)
        return self.running()

    def running(self) -> list[str]:
        return [job for job, state, name in self.cluster.jobs() if state == "RUNNING" and name == "nqf.tiny.dask"]

    def alone(self) -> None:
        until(30, "no worker is left", lambda: not self.cluster.jobs())


@pytest.fixture
def trials(cluster: Cluster, tmp_path: Path) -> Iterator[Trials]:
    yield Trials(cluster, tmp_path)
    empty(cluster)


def test_tables_are_those_of_a_local_analysis(trials: Trials) -> None:
    merged(trials.results)
    names = [f"{name}.{kind}" for name in TABLES_WRITTEN for kind in ("csv", "parquet")]
    analyse(trials.results)
    here = {name: (trials.results / name).read_bytes() for name in names}
    for name in names:
        (trials.results / name).unlink()
    trial = trials.begin("analyse")
    assert trial.wait(300) == 0, trial.communicate()[1]
    assert {name: (trials.results / name).read_bytes() for name in names} == here
    trials.alone()
    assert len(list((trials.results / "logs" / "dask").glob("*.err"))) == 2, "each worker has a log"


def test_tasks_of_a_killed_worker_are_done_by_another(trials: Trials) -> None:
    trial = trials.begin("slowly")
    first, _ = trials.at_work(trial)
    trials.cluster.call("scancel", "--signal=KILL", "--full", first)
    out, errors = trial.communicate(timeout=300)
    assert trial.returncode == 0, errors
    assert json.loads(out) == [number**2 for number in NUMBERS]
    trials.alone()


def test_workers_end_with_an_analysis_that_is_told_to_stop(trials: Trials) -> None:
    trial = trials.begin("slowly")
    trials.at_work(trial)
    trial.send_signal(signal.SIGTERM)
    assert trial.wait(60) == 128 + signal.SIGTERM
    trials.alone()


def test_workers_end_with_an_analysis_that_fails(trials: Trials) -> None:
    trial = trials.begin("refuse")
    _, errors = trial.communicate(timeout=300)
    assert trial.returncode == 1
    assert "ValueError: no " in errors
    trials.alone()
