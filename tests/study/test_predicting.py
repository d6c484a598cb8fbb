"""Which shards are predicted by one job: all of a small study, and about equal parts of a large one."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

from nqf_pipeline.study.cost import LONGEST_THEORY_JOB, MOST_SHARDS, MOST_THEORY_JOBS, START
from nqf_pipeline.study.manifest import Manifest
from nqf_pipeline.study.plan import Plan, plan
from nqf_pipeline.study.reading import study_from
from nqf_pipeline.study.shards import Shard


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


def priced(found: Plan, shards: tuple[Shard, ...], prediction: float) -> Plan:
    """The plan of these shards, whose cells' predictions take so many seconds, and a second more for each shard."""
    timings = {bucket: replace(cost, prediction=prediction) for bucket, cost in found.costs.items()}
    found = replace(found, new_shards=shards)
    found.__dict__["costs"] = timings
    return found


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


def test_no_job_is_too_long_for_a_scheduler_or_a_command_line() -> None:
    """Shards of a second or less, of which half an hour's would be more than the shell takes, and of half a minute."""
    found = plan_of(200, seconds=1e6)
    shards = tuple(Shard((cell,), 1) for cell in found.cells)
    found = priced(found, shards, 30.0)
    assert max(sum(31.0 for _ in job) for job in found.predicting) <= LONGEST_THEORY_JOB + 31.0
    assert len(found.predicting) > MOST_THEORY_JOBS
    longest = max(found.predicting, key=len)
    assert found.minutes_of_predictions(longest) == 10 + ceil(4 * (START + 31.0 * len(longest)) / 60)

    found = priced(found, shards, 0.0)
    assert len(found.predicting) > 1
    assert max(len(job) for job in found.predicting) <= MOST_SHARDS + 1
