"""Jobs of a study that are still in a SLURM queue although the run that submitted them has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nqf_pipeline.errors import InputError
from nqf_pipeline.stages.locks import running_since
from nqf_pipeline.stages.queue import Job, slurm, study_jobs
from nqf_pipeline.study.layout import Layout

POLL = 5.0
"""Seconds between two looks at the queue."""


def orphans(results: Path) -> list[Job]:
    """Queued and running jobs of a study without a run. Raises InputError while a run goes on, or where there is no SLURM."""
    layout = Layout(Path(results))
    if not layout.manifest.exists():
        raise InputError(f"{results}: no study was run here ({layout.manifest.name} is absent); name the results folder of a study")
    if running_since(layout, "workflow") is not None:
        raise InputError(f"{results}: its run goes on, so its jobs are no orphans; stop the run first, or wait until it ends")
    return study_jobs(layout)


def cancel(results: Path, jobs: Sequence[Job]) -> None:
    """Cancel them, and wait until they are gone."""
    if jobs:
        slurm("scancel", *(job.job for job in jobs))
        wait(results, jobs)


def wait(results: Path, jobs: Sequence[Job], progress: Callable[[int], None] = lambda left: None) -> None:
    """Wait until none of them is in the queue: what they finish, the next run finds done."""
    names = {job.job for job in jobs}
    while left := names & {job.job for job in study_jobs(Layout(Path(results)))}:
        progress(len(left))
        time.sleep(POLL)
