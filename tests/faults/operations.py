"""What workers, planner and store write, on a small study: each starts from a state that is there, and can be asked for again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from nqf_pipeline.stages.attempts import ended_from_outside, retry, withdraw
from nqf_pipeline.store.merge import merge
from nqf_pipeline.store.schema import Status
from nqf_pipeline.store.shards import Summary, write_shard
from nqf_pipeline.store.tables import write_table
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.manifest import Manifest, append, read_manifest
from nqf_pipeline.study.plan import plan
from nqf_pipeline.study.reading import study_from
from tests.store.datasets import Row, theory, training

ROWS = [Row("aa", "b1"), Row("bb", "b1"), Row("cc", "b2")]
ATTRIBUTES = {"study": "{}", "package_version": "0", "git_commit": ""}
SUMMARY = Summary(bucket="b1", timings={"run": 1.0}, device="here", precision="float64", threads=1, lane_width=4, versions={"numpy": "2"})
EXPERIMENT = {
    "architectures": [{"kind": "mlp", "inputs": 4, "outputs": 2, "width": 5}],
    "tasks": [{"kind": "teacher", "strengths": [1.0, 0.5], "samples": 24, "test_samples": 12}],
    "optimizers": [{"kind": "gd", "learning_rate": 0.05}],
    "sigma": [0.1, 0.01],
    "steps": 120,
    "records": 12,
}


def shard(results: Path, name: str, cells: list[str], bucket: str = "b1", status: Status = Status.done) -> None:
    dataset = training(cells)
    dataset["status"] = ("cell", np.full(len(cells), status, "int8"))
    write_shard(results / "shards" / f"{name}.zarr.zip", dataset, SUMMARY.model_copy(update={"bucket": bucket}))


def base(results: Path) -> None:
    """Two finished shards, merged once, one table, a manifest of one shard."""
    shard(results, "one", ["aa"])
    shard(results, "two", ["cc"], "b2")
    write_shard(results / "theory" / "one.zarr.zip", theory(["aa"]), SUMMARY, "theory")
    merge(results, [ROWS[0], ROWS[2]], ATTRIBUTES)
    write_table(results, "timings", timings(1))
    plan_shards(results, 1)


def timings(rows: int) -> pd.DataFrame:
    fixed = {"bucket": "b1", "shard": "one", "kind": "training", "cells": 1, "bytes": 9, "device": "", "precision": "float64"}
    return pd.DataFrame([{**fixed, "threads": 1.0, "lane_width": 4.0, "stage": f"s{k}", "seconds": 1.0 + k} for k in range(rows)])


def plan_shards(results: Path, seeds: int) -> None:
    """What planning a study with so many seeds adds to the manifest."""
    path = Layout(results).manifest
    known = read_manifest(path, results.name) if path.exists() else Manifest()
    wish = plan(study_from({"name": results.name, "experiments": {"tracks": {**EXPERIMENT, "seeds": seeds}}}), known, results.parent)
    if wish.new_shards and not append(path, results.name, known, wish.new_shards):
        raise AssertionError("nobody else writes here")


def write_a_shard(results: Path) -> None:
    shard(results, "new", ["bb"])


def replace_a_shard(results: Path) -> None:
    shard(results, "one", ["aa"])


def merge_more(results: Path) -> None:
    shard(results, "new", ["bb"])
    merge(results, ROWS, ATTRIBUTES)


def extend_the_manifest(results: Path) -> None:
    plan_shards(results, 3)


def write_a_table(results: Path) -> None:
    write_table(results, "timings", timings(3))


def try_again(results: Path) -> None:
    """A timed-out shard beside the others; `nqf retry` puts it aside, and its next attempt is counted."""
    layout = Layout(results)
    if not layout.stopped("late").exists():
        late = training(["dd", "ee"])
        late["status"] = ("cell", np.array([Status.done, Status.timed_out], "int8"))
        write_shard(layout.shard("late"), late, SUMMARY)
    retry(layout)
    layout.shard("late").unlink(missing_ok=True)  # the workflow removes a shard without a summary before it starts the job
    withdraw(layout, "late")
    if ended_from_outside(layout, "late"):
        raise AssertionError("an attempt that was withdrawn is counted")


OPERATIONS: dict[str, Callable[[Path], None]] = {
    "write a shard": write_a_shard,
    "replace a shard": replace_a_shard,
    "merge one more shard": merge_more,
    "extend the manifest": extend_the_manifest,
    "write a table": write_a_table,
    "try a shard again": try_again,
}
