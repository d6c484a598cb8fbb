"""The stages as commands run them: from a results folder to files in it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from pydantic import ValidationError

from nqf_pipeline.errors import InputError
from nqf_pipeline.stages.cores import enable_double_precision, prepare_worker
from nqf_pipeline.stages.heartbeat import mark_running
from nqf_pipeline.stages.provenance import git_commit, package_version, versions
from nqf_pipeline.store.atomic import to_json, write_json
from nqf_pipeline.store.merge import MergeReport, merge
from nqf_pipeline.store.shards import ShardError, Summary, read_record, write_shard
from nqf_pipeline.study.config import Study
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.manifest import read_manifest
from nqf_pipeline.study.plan import Plan, freeze, plan_study
from nqf_pipeline.study.shards import Shard

Progress = Callable[[int], None]


def begin(wish: Plan) -> Plan:
    """Fix the plan before the first job: new shards into the manifest, the validated config (as given, without defaults) beside it."""
    fixed = freeze(wish)
    write_json(fixed.layout.study, fixed.study.as_given())
    return fixed


def recorded_study(results: Path) -> Study:
    """The config of the latest run in a results folder. Raises InputError where there is none."""
    path = Layout(Path(results)).study
    try:
        return Study.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise InputError(
            f"{results}: no study was run here ({path.name} is absent); start one with `snakemake`, or name another folder"
        ) from None
    except (ValueError, ValidationError) as error:
        raise InputError(
            f"{path}: cannot be read by this version ({str(error).splitlines()[0]}); "
            "run the workflow again with the study's config file, which rewrites it"
        ) from error


def recorded_plan(results: Path) -> Plan:
    """The plan of the latest run in a results folder."""
    return plan_study(recorded_study(results), Path(results).parent)


def shard_named(results: Path, shard: str) -> Shard:
    """A shard of the manifest by its id."""
    layout = Layout(Path(results))
    for known in read_manifest(layout.manifest, layout.root.name).shards:
        if known.id == shard:
            return known
    raise InputError(
        f"{layout.manifest}: no shard {shard}; `nqf plan` lists the shards of a study, and the workflow adds them to the manifest"
    )


def train_shard(results: Path, shard_id: str, progress: Progress = lambda done: None) -> None:
    """Train one shard on one core and write it."""
    shard = shard_named(results, shard_id)
    begun = perf_counter()
    running = mark_running(Layout(Path(results)), shard_id)
    prepare_worker()
    enable_double_precision()
    from nqf_pipeline.stages import train

    watch = train.Stopwatch()
    watch.seconds["start"] = perf_counter() - begun
    dataset = train.run_cells(shard.cells, shard.lane_width, watch, progress)
    summary = Summary(
        bucket=shard.bucket,
        timings={stage: round(seconds, 6) for stage, seconds in watch.seconds.items()},
        device=train.device_name(),
        precision=shard.cells[0].precision,
        threads=1,
        lane_width=shard.lane_width,
        versions=versions(),
    )
    write_shard(Layout(Path(results)).shard(shard.id), dataset, summary)
    os.close(running)


def predict_shards(results: Path, progress: Progress = lambda done: None) -> None:
    """Predictions for every wanted shard that has none of this version yet. Trains nothing."""
    wanted = recorded_plan(results)
    prepare_worker()
    enable_double_precision()
    from nqf_pipeline.stages.theory import predict_cells

    layout = wanted.layout
    for shard in wanted.shards:
        path = layout.theory(shard.id)
        if not _predicted(path):
            begun = perf_counter()
            dataset = predict_cells(shard.cells)
            summary = Summary(bucket=shard.bucket, timings={"predict": perf_counter() - begun}, versions=versions())
            write_shard(path, dataset, summary, "theory")
        progress(1)
    write_json(layout.predicted, {"shards": sorted(shard.id for shard in wanted.shards)})


def _predicted(path: Path) -> bool:
    try:
        return read_record(path).versions == versions()
    except ShardError:
        return False


def merge_study(results: Path, allow_partial: bool = False) -> MergeReport:
    """All shards into the one store."""
    wanted = recorded_plan(results)
    attributes = {
        "study": to_json({key: value for key, value in wanted.study.as_given().items() if key not in ("analysis", "report")}),
        "package_version": package_version(),
        "git_commit": git_commit(),
    }
    return merge(wanted.layout.root, wanted.cells, attributes, allow_partial=allow_partial)
