"""Jobs of a study that are still in a SLURM queue although the run that submitted them has ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nqf_pipeline.errors import InputError, WorkError
from nqf_pipeline.stages.locks import running_since
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.manifest import read_manifest

PREFIX = "nqf"
"""Beginning of every job's name (`slurm-jobname-prefix` of the profile)."""
STAGES = ("theory", "merge", "analyse", "figures", "report")
POLL = 5.0
"""Seconds between two looks at the queue."""
_FIELDS = "%i|%T|%M|%j|%Z|%k"


@dataclass(frozen=True)
class Job:
    """One job in the queue; `work` is the shard it trains or the stage it does."""

    job: str
    state: str
    elapsed: str
    work: str

    def document(self) -> dict[str, Any]:
        return asdict(self)


def orphans(results: Path) -> list[Job]:
    """Queued and running jobs of a study without a run. Raises InputError while a run goes on, or where there is no SLURM."""
    layout = Layout(Path(results))
    if not layout.manifest.exists():
        raise InputError(f"{results}: no study was run here ({layout.manifest.name} is absent); name the results folder of a study")
    if running_since(layout, "workflow") is not None:
        raise InputError(f"{results}: its run goes on, so its jobs are no orphans; stop the run first, or wait until it ends")
    shards = {shard.id for shard in read_manifest(layout.manifest, layout.root.name).shards}
    # Jobs of later stages do not name their study: they are ours only where no other study is run from the same folder.
    stages = set() if _others_run(layout) else set(STAGES)
    return [job for job in _queue(Path.cwd()) if job.work in shards | stages]


def cancel(jobs: Sequence[Job]) -> None:
    """Cancel them, and wait until they are gone."""
    if jobs:
        _slurm("scancel", *(job.job for job in jobs))
        wait(jobs)


def wait(jobs: Sequence[Job], progress: Callable[[int], None] = lambda left: None) -> None:
    """Wait until none of them is in the queue: what they finish, the next run finds done."""
    names = {job.job for job in jobs}
    while left := names & {job.job for job in _queue(Path.cwd())}:
        progress(len(left))
        time.sleep(POLL)


def _others_run(layout: Layout) -> bool:
    folders = [folder for folder in layout.root.resolve().parent.iterdir() if folder.is_dir() and folder.name != layout.root.name]
    return any(running_since(Layout(folder), "workflow") is not None for folder in folders)


def _queue(folder: Path) -> list[Job]:
    """This user's jobs that a workflow submitted from this folder."""
    found = []
    for line in _slurm("squeue", "--noheader", f"--user={os.getuid()}", f"--format={_FIELDS}").splitlines():
        job, state, elapsed, name, where, comment = line.split("|", 5)
        if name.startswith(PREFIX) and Path(where).resolve() == folder.resolve():
            found.append(Job(job, state.lower(), elapsed, _work(comment)))
    return found


def _work(comment: str) -> str:
    """`rule_train_wildcards_<shard>` or `rule_<stage>`, as the executor writes it."""
    _, _, shard = comment.partition("_wildcards_")
    return shard or comment.removeprefix("rule_")


def _slurm(*command: str) -> str:
    if shutil.which(command[0]) is None:
        raise InputError(f"`{command[0]}` is not on the PATH: run this where SLURM's commands are, on the cluster's login node")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WorkError(f"`{' '.join(command[:1])}` failed: {done.stderr.strip()}; is the cluster's controller up (`scontrol ping`)?")
    return done.stdout
