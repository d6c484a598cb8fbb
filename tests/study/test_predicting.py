"""Which shards are predicted by one job: all of a small study, and about equal parts of a large one."""

from __future__ import annotations

from typing import Any

from nqf_pipeline.study.cost import MOST_THEORY_JOBS
from nqf_pipeline.study.manifest import Manifest
from nqf_pipeline.study.plan import Plan, plan
from nqf_pipeline.study.reading import study_from


def plan_of(seeds: int, seconds: float = 30.0, known: tuple[Any, ...] = ()) -> Plan:
    law = {
        "architectures": [{"kind": "diagonal", "inputs": 30}],
        "tasks": [{"kind": "feature_power_law", "modes": 30, "alpha1": [1.5, 2.0]}],
        "optimizers": [{"kind": "gd", "learning_rate": [0.1, 0.2]}],
        "epsilon": [1e-4, 1e-6],
        "seeds": seeds,
        "steps": 100,
        "records": 20,
    }
    experiments = {"twins": law | {"train": "twin"}, "predicted": law | {"train": "nothing"}}
    study = study_from({"name": "trial", "experiments": experiments, "engine": {"minutes_per_job": seconds / 60}})
    return plan(study, Manifest(known))


def test_one_job_predicts_a_small_study() -> None:
    (job,) = plan_of(2).predicting
    assert {shard.id for shard in job} == {shard.id for shard in plan_of(2).shards}


def test_jobs_of_a_large_study_are_about_equal() -> None:
    found = plan_of(300, seconds=1.5)
    every = [shard.id for job in found.predicting for shard in job]
    assert sorted(every) == sorted(shard.id for shard in found.shards)
    seconds = [sum(found.costs[shard.bucket].of_predictions(shard) for shard in job) for job in found.predicting]
    assert 3 <= len(seconds) <= MOST_THEORY_JOBS
    assert max(seconds) < 3 * sum(seconds) / len(seconds)


def test_an_extension_adds_to_the_end() -> None:
    before = plan_of(300, seconds=4.0)
    after = plan_of(330, seconds=4.0, known=before.new_shards)
    old = [[shard.id for shard in job] for job in before.predicting]
    new = [[shard.id for shard in job] for job in after.predicting]
    assert new[: len(old) - 1] == old[:-1]
    assert {shard for job in old for shard in job} < {shard for job in new for shard in job}
