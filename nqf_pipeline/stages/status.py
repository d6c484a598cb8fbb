"""How far a study is, read from what its jobs have written."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

from nqf_pipeline.errors import InputError, WorkError
from nqf_pipeline.stages.locks import running_since
from nqf_pipeline.stages.queue import study_jobs
from nqf_pipeline.stages.run import recorded_plan
from nqf_pipeline.store.schema import Status
from nqf_pipeline.store.shards import read_record
from nqf_pipeline.study.layout import Layout

LITTLE = 2**20
"""Bytes; with less the logs that would say why a job failed may be lost too."""


def hints(results: Path) -> list[str]:
    """What a failed workflow may have failed from, where its jobs could not say it themselves."""
    free = shutil.disk_usage(results).free
    full = (
        f"{results}: no space left on its disk ({free:,} bytes are free), so jobs could write neither results nor logs. Finished work is "
        "untouched: free some space and start the same command again."
    )
    return [full] if free < LITTLE else []


def study_status(results: Path) -> dict[str, Any]:
    """Cells by status, seconds by stage over all jobs, and the shards that are being trained now."""
    wanted = recorded_plan(results)
    counts: Counter[str] = Counter({status.name: 0 for status in Status})
    seconds: Counter[str] = Counter()
    running = []
    for shard in wanted.shards:
        if wanted.done(shard):
            record = read_record(wanted.results_of(shard)[0])
            counts.update(record.cells[cell.id] for cell in wanted.wanted(shard))
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
        "merged": wanted.layout.merged.exists(),
        "queue": _queue(wanted.layout),
    }


def _queue(layout: Layout) -> list[dict[str, Any]] | None:
    """The study's jobs in a SLURM queue; None where there is no cluster to ask."""
    try:
        return [job.document() for job in study_jobs(layout)]
    except (InputError, WorkError):
        return None
