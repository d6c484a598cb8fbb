"""How far a study is, read from what its jobs have written."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

from nqf_pipeline.errors import InputError, WorkError
from nqf_pipeline.stages.attempts import ended_from_outside
from nqf_pipeline.stages.locks import running_since
from nqf_pipeline.stages.queue import study_jobs
from nqf_pipeline.stages.run import recorded_plan
from nqf_pipeline.store.schema import Status
from nqf_pipeline.store.shards import ShardRecord, read_record
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.plan import Plan
from nqf_pipeline.study.shards import Shard

LITTLE = 2**20
"""Bytes; with less the logs that would say why a job failed may be lost too."""


def hints(results: Path) -> list[str]:
    """What a failed workflow may have failed from, where its jobs could not say it themselves."""
    free = shutil.disk_usage(results).free
    full = (
        f"{results}: no space left on its disk ({free:,} bytes are free), so jobs could write neither results nor logs. Finished work is "
        "untouched: free some space and start the same command again."
    )
    return [*([full] if free < LITTLE else []), *(_ended(results, *found) for found in interrupted(Layout(Path(results))).items())]


def _ended(results: Path, shard: str, times: int) -> str:
    return (
        f"{results}: the job of shard {shard} was ended from outside (memory, SIGKILL, power), {often(times)} so far. Start the same "
        f"command again; where that does not help, `nqf skip {results} {shard}` lets the rest be finished without its cells."
    )


def often(times: int) -> str:
    """'once', '3 times'."""
    return "once" if times == 1 else f"{times} times"


def interrupted(layout: Layout) -> dict[str, int]:
    """How often the job of each unfinished shard was ended from outside."""
    names = [file.name for file in sorted((layout.root / "attempts").glob("[0-9a-f]*"))]
    idle = [name for name in names if running_since(layout, name) is None and not layout.shard_summary(name).exists()]
    return {name: times for name in idle if (times := ended_from_outside(layout, name))}


def unfinished(wanted: Plan) -> list[str]:
    """What a reader of a finished workflow must know: cells without numbers, with the way out. Empty where every cell was trained."""
    found: Counter[str] = Counter()
    for shard in wanted.shards:
        if wanted.done(shard):
            found.update(_statuses(wanted, shard, read_record(wanted.results_of(shard)[0])))
    return [
        f"{wanted.layout.root}: {found[status.name]} cells have status `{status.name}`. {status.remedy}"
        for status in Status
        if found[status.name] and not status.has_numbers
    ]


def study_status(results: Path) -> dict[str, Any]:
    """Cells by status, seconds by stage over all jobs, the shards that are being trained now, and those whose jobs were ended."""
    wanted = recorded_plan(results)
    counts: Counter[str] = Counter({status.name: 0 for status in Status})
    seconds: Counter[str] = Counter()
    running = []
    for shard in wanted.shards:
        if wanted.done(shard):
            record = read_record(wanted.results_of(shard)[0])
            counts.update(_statuses(wanted, shard, record))
            seconds.update(record.timings)
        else:
            counts[Status.missing.name] += len(wanted.wanted(shard))
            begun = running_since(wanted.layout, shard.id)
            if begun is not None:
                running.append({"shard": shard.id, "bucket": shard.bucket, "seconds": time.time() - begun})
    return {
        "study": wanted.study.name,
        "cells": len(wanted.cells),
        "counts": dict(counts),
        "seconds": dict(seconds),
        "running": running,
        "ended_from_outside": interrupted(wanted.layout),
        "merged": wanted.layout.merged.exists(),
        "queue": _queue(wanted.layout),
    }


def _statuses(wanted: Plan, shard: Shard, record: ShardRecord) -> list[str]:
    """Of the cells of a shard that the study asks for."""
    return [record.cells[cell.id] for cell in wanted.wanted(shard)]


def _queue(layout: Layout) -> list[dict[str, Any]] | None:
    """The study's jobs in a SLURM queue; None where there is no cluster to ask."""
    try:
        return [job.document() for job in study_jobs(layout)]
    except (InputError, WorkError):
        return None
