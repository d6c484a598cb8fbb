"""Jobs that a killed run left behind, told from those of other folders, studies and programs. (A real queue: tests/cluster.)"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from nqf_pipeline.errors import InputError, WorkError
from nqf_pipeline.stages import locks
from nqf_pipeline.stages.locks import claim_run
from nqf_pipeline.stages.orphans import cancel, orphans
from nqf_pipeline.stages.queue import adopt_names, job_prefix, require_cluster, short_jobs
from nqf_pipeline.stages.run import begin
from nqf_pipeline.stages.status import study_status
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.plan import freeze, plan_study
from nqf_pipeline.study.reading import study_from

STUDY = {
    "name": "small",
    "experiments": {
        "one": {
            "architectures": [{"kind": "diagonal", "inputs": 4}],
            "tasks": [{"kind": "feature_power_law", "modes": 4}],
            "optimizers": [{"kind": "gd", "learning_rate": 0.1}],
            "epsilon": [1e-4],
            "steps": 10,
            "records": 4,
        }
    },
}
Queue = Callable[[list[str]], None]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study that was begun from this folder, by a run that has ended."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(locks, "_runs", {})  # those of other tests, whose folders have the same relative path
    freeze(plan_study(study_from(STUDY, "small.yaml")))
    return Path("results/small")


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A stand-in for the cluster's commands: `squeue` prints these lines, `scancel` empties them."""
    folder, lines = tmp_path / "bin", tmp_path / "queue.txt"
    folder.mkdir()
    for name, body in {"squeue": f"cat {lines}", "scancel": f'echo "$@" > {tmp_path}/cancelled; : > {lines}'}.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    lines.write_text("")
    return lambda jobs: (lines.write_text("\n".join(jobs) + "\n"), None)[1]


def shard_of(results: Path) -> str:
    return str(json.loads(Layout(results).manifest.read_text().splitlines()[0])["shard"])


def lines_of(tmp_path: Path, shard: str) -> list[str]:
    """Two jobs of the study, and jobs of a study whose name begins alike, of another program, of another folder."""
    name = f"{job_prefix('small')}0a1b"
    return [
        f"11|RUNNING|1:02|{name}|{tmp_path}|rule_train_wildcards_{shard}",
        f"12|PENDING|0:00|{name}|{tmp_path}|rule_theory",
        f"13|RUNNING|9:59|{job_prefix('small_too')}77|{tmp_path}|rule_theory",
        f"14|RUNNING|9:59|other|{tmp_path}|rule_train_wildcards_{shard}",
        f"15|RUNNING|9:59|{name}|{tmp_path.parent}|rule_train_wildcards_{shard}",
    ]


def test_only_this_study_s_jobs_are_orphans(results: Path, queue: Queue, tmp_path: Path) -> None:
    shard = shard_of(results)
    queue(lines_of(tmp_path, shard))
    found = orphans(results)
    assert [(job.job, job.state, job.work) for job in found] == [("11", "running", shard), ("12", "pending", "theory")]
    cancel(results, found)
    assert (tmp_path / "cancelled").read_text().split() == ["11", "12"]
    assert orphans(results) == []


def test_orphans_are_found_from_any_folder(results: Path, queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue(lines_of(tmp_path, shard_of(results)))
    place = results.resolve()
    monkeypatch.chdir(tmp_path.parent)
    assert [job.job for job in orphans(place)] == ["11", "12"]


def test_status_shows_the_queue_where_there_is_one(results: Path, queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(plan_study(study_from(STUDY, "small.yaml")))
    queue(lines_of(tmp_path, "ab"))
    assert [(job["job"], job["state"], job["work"]) for job in study_status(results)["queue"]] == [
        ("11", "running", "ab"),
        ("12", "pending", "theory"),
    ]
    monkeypatch.setenv("PATH", "/nowhere")
    assert study_status(results)["queue"] is None


def test_a_run_that_goes_on_has_no_orphans(results: Path, queue: Queue) -> None:
    claim_run(Layout(results))
    with pytest.raises(InputError, match="its run goes on"):
        orphans(results)


def test_without_a_study_or_a_cluster_it_says_so(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no study was run here"):
        orphans(Path("results/none"))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match="login node"):
        orphans(results)


def test_a_queue_that_does_not_answer_is_a_failure(results: Path, queue: Queue, tmp_path: Path) -> None:
    (tmp_path / "bin" / "squeue").write_text("#!/bin/sh\necho 'slurm_load_jobs error' >&2; exit 1\n")
    with pytest.raises(WorkError, match="controller"):
        orphans(results)


def test_a_cluster_that_does_not_answer_is_noticed_before_jobs_are_submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'cannot contact controller' >&2; exit 1\n")
    (tmp_path / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(WorkError, match="`sinfo` failed: cannot contact controller; is the cluster's controller up"):
        require_cluster()
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho main\n")
    require_cluster()


class Workflow:
    """What the executor and its settings look like to `adopt_names`."""

    def __init__(self, arrays: str | None = None) -> None:
        self.executor_settings = SimpleNamespace(array_jobs=arrays)
        self.executor = SimpleNamespace(run_uuid="site_0a1b")
        self.scheduler = SimpleNamespace(get_executor=lambda job: self.executor)


def test_jobs_are_named_as_they_are_looked_for() -> None:
    workflow = Workflow()
    assert adopt_names(workflow, "small")
    assert workflow.executor.run_uuid == job_prefix("small") + "site_0a1b"


def test_jobs_on_this_machine_have_no_names() -> None:
    workflow = Workflow()
    del workflow.executor.run_uuid
    assert not adopt_names(workflow, "small")


def test_many_short_jobs_are_worth_a_warning(tmp_path: Path) -> None:
    seeds = {"one": {**STUDY["experiments"]["one"], "seeds": 84}}
    short, long = ({**STUDY, "experiments": seeds, "engine": {"seconds_per_job": length}} for length in (1e-9, 1e3))
    (warning,) = short_jobs(plan_study(study_from(short, "small.yaml"), tmp_path))
    assert warning.startswith("21 jobs of ")
    assert short_jobs(plan_study(study_from(long, "small.yaml"), tmp_path)) == []


def test_job_arrays_are_refused() -> None:
    with pytest.raises(InputError, match="array"):
        adopt_names(Workflow(arrays="train"), "small")
