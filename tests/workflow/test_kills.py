"""Kill anything at any moment: the next run completes, and the results are those of an undisturbed run, byte for byte."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nqf_pipeline.stages.status import study_status
from tests.workflow.runs import PATIENCE, SHARDS, Workspace, jobs, living, new, said, training, wait_until


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace that has not run; whatever of it still runs at the end is stopped."""
    workspace = new(tmp_path)
    yield workspace
    for worker in living(workspace):
        os.kill(worker, signal.SIGKILL)


def summaries(workspace: Workspace) -> list[Path]:
    return sorted(workspace.results.glob("shards/*.json"))


def kill_group(process: subprocess.Popen[str]) -> str:
    os.killpg(process.pid, signal.SIGKILL)
    text = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == -signal.SIGKILL
    return text


def test_a_killed_run_goes_on_where_it_stopped(fresh: Workspace, finished: Workspace) -> None:
    """Killed once a shard is whole and another is in training: no lock to remove, the whole shard stays."""
    process = fresh.start(*fresh.snakemake_command())
    wait_until(lambda: summaries(fresh) and training(fresh), process)
    kill_group(process)
    wait_for_silence(fresh)
    kept = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in summaries(fresh)[:1]}
    assert len(summaries(fresh)) < SHARDS
    assert training(fresh) == {}, "a killed process cannot seem to run"

    text = fresh.finish()
    assert jobs(text)["train"] in (SHARDS - len(kept), SHARDS - len(kept) + 1)
    assert fresh.lasting() == finished.lasting()
    assert not list(fresh.results.rglob("*.tmp"))


@pytest.mark.faults
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_three_random_moments(fresh: Workspace, finished: Workspace, seed: int) -> None:
    """Moments are drawn over the length of a whole run, so that every stage is hit in some of them."""
    draw = random.Random(seed)
    killed = 0
    for moment in sorted(draw.uniform(1.5, finished.seconds) for _ in range(3)):
        process = fresh.start(*fresh.snakemake_command())
        try:
            process.wait(timeout=moment)
        except subprocess.TimeoutExpired:
            kill_group(process)
            killed += 1
        wait_for_silence(fresh)
    assert killed, "each run ended before it was killed"
    fresh.finish()
    assert fresh.lasting() == finished.lasting()
    assert not list(fresh.results.rglob("*.tmp"))


@pytest.mark.faults
def test_a_killed_worker_costs_its_own_shard_only(fresh: Workspace, finished: Workspace) -> None:
    process = fresh.start(*fresh.snakemake_command())
    wait_until(lambda: training(fresh), process)
    (shard, worker), *_ = training(fresh).items()
    os.kill(worker, signal.SIGKILL)
    text = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 1
    assert re.search(r"Error in rule train", text)
    assert shard in text.split("Error in rule train")[1]
    assert len(summaries(fresh)) == SHARDS - 1, "the others were trained"
    assert study_status(fresh.results)["counts"]["missing"] > 0
    before = fresh.files("shards/*")
    assert jobs(fresh.finish()) == {"train": 1, "merge": 1, "analyse": 1, "figures": 1, "report": 1}
    after = fresh.files("shards/*")
    assert {name: after[name] for name in before} == before
    assert fresh.lasting() == finished.lasting()


@pytest.mark.faults
def test_a_worker_that_outlives_its_workflow_is_waited_for(fresh: Workspace, finished: Workspace) -> None:
    """Only Snakemake is killed: its jobs go on. The next run must neither disturb them nor do their work a second time at once."""
    process = fresh.start(*fresh.snakemake_command())
    wait_until(lambda: training(fresh), process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=PATIENCE)
    assert training(fresh), "the worker lives"
    fresh.finish()
    wait_for_silence(fresh)
    assert fresh.lasting() == finished.lasting()


def test_two_runs_of_one_study_at_once_are_refused(finished: Workspace, tmp_path: Path) -> None:
    workspace = finished.copy(tmp_path)
    workspace.change(lambda study: study["experiments"]["tracks"].update(seeds=3))
    process = workspace.start(*workspace.snakemake_command("--until", "merge"))
    wait_until(lambda: training(workspace), process)
    second = workspace.snakemake("--until", "merge")
    assert second.returncode == 2, said(second)
    assert re.search(r"results/tiny: another run of this study goes on \(process \d+ on .*\).*Wait until it ends", said(second))
    assert "Traceback" not in said(second)
    assert workspace.snakemake("--dry-run").returncode == 0, "looking is free"
    text = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, text


def wait_for_silence(workspace: Workspace, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while living(workspace):
        assert time.monotonic() < end, "processes of a killed run go on"
        time.sleep(0.05)
