"""What workers, planner and store write, on a small study: each starts from a state that is there, and can be asked for again."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from nqf_pipeline.stages import run
from nqf_pipeline.stages.attempts import ended_from_outside, give_up, retry, withdraw
from nqf_pipeline.stages.placing import Work
from nqf_pipeline.store.atomic import write_json
from nqf_pipeline.store.merge import merge
from nqf_pipeline.store.schema import Status
from nqf_pipeline.store.shards import Summary, write_shard
from nqf_pipeline.store.tables import write_table
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.plan import plan_study
from nqf_pipeline.study.reading import study_from
from nqf_pipeline.study.shards import Shard
from tests.store.datasets import Row, theory, training

ROWS = [Row("aa", "b1"), Row("bb", "b1"), Row("cc", "b2")]
ATTRIBUTES = {"study": "{}", "package_version": "0", "git_commit": ""}
SUMMARY = Summary(bucket="b1", timings={"run": 1.0}, device="here", precision="float64", threads=1, lane_width=4, versions={"numpy": "2"})
EXPERIMENT = {
    "architectures": [{"kind": "mlp", "inputs": 4, "outputs": 2, "width": width} for width in (5, 6)],
    "tasks": [{"kind": "teacher", "strengths": [1.0, 0.5], "samples": 24, "test_samples": 12}],
    "optimizers": [{"kind": "gd", "learning_rate": 0.05}],
    "sigma": [0.1, 0.01],
    "steps": 30,
    "records": 5,
}
"""Two buckets of two cells a seed."""


def shard(results: Path, name: str, cells: list[str], bucket: str = "b1", status: Sequence[Status] = (Status.done,)) -> None:
    dataset = training(cells)
    dataset["status"] = ("cell", np.resize(np.array(status, "int8"), len(cells)))
    write_shard(results / "shards" / f"{name}.zarr.zip", dataset, SUMMARY.model_copy(update={"bucket": bucket}))


def predictions(results: Path, name: str, cells: list[str], version: str = "2") -> None:
    write_shard(
        results / "theory" / f"{name}.zarr.zip", theory(cells), SUMMARY.model_copy(update={"versions": {"numpy": version}}), "theory"
    )


def base(results: Path) -> None:
    """Two finished shards, merged once, one that a time limit ended, a table, and two planned shards: one is hopeless, with a cell kept."""
    shard(results, "one", ["aa"])
    shard(results, "two", ["cc"], "b2")
    shard(results, "late", ["dd", "ee"], status=(Status.done, Status.timed_out))
    predictions(results, "one", ["aa"])
    predictions(results, "two", ["cc"])
    merge(results, [ROWS[0], ROWS[2]], ATTRIBUTES)
    write_table(results, "timings", timings(1))
    plan_cells(results, 1)
    hopeless, layout = planned(results)[1], Layout(results)
    layout.attempts(hopeless.id).parent.mkdir()
    layout.attempts(hopeless.id).write_text("process 1 on a machine\n" * run.recorded_study(results).engine.attempts)
    write_shard(layout.stopped(hopeless.id), training([hopeless.cells[0].id]), SUMMARY)


def timings(rows: int) -> pd.DataFrame:
    fixed = {"bucket": "b1", "shard": "one", "kind": "training", "cells": 1, "bytes": 9, "device": "", "precision": "float64"}
    return pd.DataFrame([{**fixed, "threads": 1.0, "lane_width": 4.0, "stage": f"s{k}", "seconds": 1.0 + k} for k in range(rows)])


def plan_cells(results: Path, seeds: int) -> None:
    """What a run of the study with so many seeds writes before its first job: manifest and config."""
    study = study_from({"name": results.name, "experiments": {"tracks": {**EXPERIMENT, "seeds": seeds}}})
    run.begin(plan_study(study, results.parent))


def planned(results: Path) -> list[Shard]:
    return list(run.recorded_plan(results).shards)


def trained(cells: Sequence[Cell], _place: Any, work: Work, *_: Any) -> None:
    """Stands for the training itself, which writes nothing."""
    found = training([cell.id for cell in cells])
    found["mode_number"] = (("cell", "mode"), np.tile(found["mode_number"], (len(cells), 1)))  # as the training stage spells it
    work.parts.append(found)
    work.seconds, work.device, work.threads = {"run": 1.0}, "here", 1


# ---- the operations


def write_a_shard(results: Path) -> None:
    shard(results, "new", ["bb"])


def replace_a_shard(results: Path) -> None:
    shard(results, "one", ["aa"])


def predict_anew(results: Path) -> None:
    """By another version."""
    predictions(results, "one", ["aa"], version="3")


def merge_more(results: Path) -> None:
    shard(results, "new", ["bb"])
    merge(results, ROWS, ATTRIBUTES)


def plan_more(results: Path) -> None:
    plan_cells(results, 3)


def write_a_table(results: Path) -> None:
    write_table(results, "timings", timings(3))


def write_rates(results: Path) -> None:
    """What a pilot found."""
    rates = {"step": 1e-6, "record": 1e-6, "start": 1.0, "cell": 1e-3, "estimated_step": 1e-6, "lane_width": 4}
    write_json(Layout(results).pilot, {shard.bucket: rates for shard in planned(results)})


def train_a_shard(results: Path) -> None:
    with mock.patch.object(run, "train_cells", trained):
        run.train_shard(results, planned(results)[0])


def stop_and_go_on(results: Path) -> None:
    """A job that is asked to end keeps what it has trained, and its next attempt trains the rest."""
    shard, work = planned(results)[0], Work(lane_width=4)
    if not Layout(results).shard_summary(shard.id).exists():
        trained(shard.cells[:1], None, work)
        run._end(results, shard, work, signal.SIGTERM)
    train_a_shard(results)


def close_a_shard(results: Path) -> None:
    run.train_shard(results, planned(results)[1])


def skip_a_shard(results: Path) -> None:
    give_up(results, run.recorded_plan(results), [planned(results)[0].id])


def try_again(results: Path) -> None:
    """`nqf retry` puts a timed-out shard aside, and its next attempt is counted."""
    layout = Layout(results)
    retry(layout)
    layout.shard("late").unlink(missing_ok=True)  # the workflow removes a shard without a summary before it starts the job
    withdraw(layout, "late")
    if ended_from_outside(layout, "late"):
        raise AssertionError("an attempt that was withdrawn is counted")


OPERATIONS: dict[str, Callable[[Path], None]] = {
    "write a shard": write_a_shard,
    "replace a shard": replace_a_shard,
    "predict a shard anew": predict_anew,
    "merge one more shard": merge_more,
    "plan more cells": plan_more,
    "write a table": write_a_table,
    "write a pilot's rates": write_rates,
    "train a shard": train_a_shard,
    "stop a job and go on": stop_and_go_on,
    "close a hopeless shard": close_a_shard,
    "skip a shard": skip_a_shard,
    "try a shard again": try_again,
}
