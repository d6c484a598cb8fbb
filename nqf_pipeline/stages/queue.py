"""The jobs of a study in a SLURM queue: how they are named, and how they are found again."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from nqf_pipeline.errors import InputError, WorkError
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.plan import Plan

ANSWER = 30.0
"""Seconds that a command of SLURM may take."""
MANY, SHORT = 20, 120.0
"""Jobs, and seconds of one, from which on short jobs are worth a warning."""
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


def job_prefix(study: str) -> str:
    """Beginning of the name of every job of a study. A study's name has no dot, so no prefix begins another."""
    return f"nqf.{study}."


def adopt_names(workflow: Any, study: str) -> bool:
    """Give the jobs of a starting workflow their study's name, which no profile can know. False where jobs run on this machine.

    Raises InputError where job arrays are asked for: the executor gives every task the state of the last one.
    """
    if getattr(workflow.executor_settings, "array_jobs", None):
        raise InputError(
            "--slurm-array-jobs: every task of an array gets the state of the last one, so a failed job could pass for a finished one; "
            "leave it out, and make jobs long enough to be submitted one by one (`engine: {minutes_per_job: ...}` in the config)"
        )
    executor = workflow.scheduler.get_executor(_Remote)
    queued = hasattr(executor, "run_uuid")
    if queued:
        executor.run_uuid = job_prefix(study) + executor.run_uuid
    return queued


def require_cluster() -> None:
    """Ask the cluster once, before hundreds of jobs are submitted to it in vain. Raises as `slurm` does."""
    slurm("sinfo", "--noheader", "--format=%P")


def short_jobs(plan: Plan) -> list[str]:
    """What to know before a study is submitted: jobs that are over before their end is noticed."""
    seconds = [plan.seconds(shard) for shard in plan.training if not plan.done(shard)]
    if len(seconds) <= MANY or mean(seconds) >= SHORT:
        return []
    warning = (
        f"{len(seconds)} jobs of {mean(seconds):.0f} s on average: in a queue each costs ten seconds of start, and up to minutes until its "
        "end is noticed. For longer ones stop now, set `engine: {minutes_per_job: ...}` and give the study another `name`: "
        "what has been planned stays as it is cut"
    )
    return [warning]


class _Remote:
    """Any job that is not run on this machine."""

    is_local = False


def study_jobs(layout: Layout) -> list[Job]:
    """This user's queued and running jobs of a study. Raises InputError where there is no SLURM, WorkError where it does not answer."""
    found = []
    for line in slurm("squeue", "--noheader", f"--user={os.getuid()}", f"--format={_FIELDS}").splitlines():
        job, state, elapsed, name, where, comment = line.split("|", 5)
        if name.startswith(job_prefix(layout.root.name)) and _same(Path(where) / "results" / layout.root.name, layout.root):
            found.append(Job(job, state.lower(), elapsed, _work(comment)))
    return found


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _work(comment: str) -> str:
    """`rule_train_wildcards_<shard>` or `rule_<stage>`, as the executor writes it."""
    _, _, wildcards = comment.partition("_wildcards_")
    return wildcards or comment.removeprefix("rule_")


def slurm(*command: str) -> str:
    """What a command of SLURM printed."""
    if shutil.which(command[0]) is None:
        raise InputError(f"`{command[0]}` is not on the PATH: run this where SLURM's commands are, on the cluster's login node")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER)
    except subprocess.TimeoutExpired:
        raise WorkError(f"`{command[0]}` gave no answer in {ANSWER:.0f} s; is the cluster's controller up (`scontrol ping`)?") from None
    if done.returncode:
        raise WorkError(f"`{command[0]}` failed: {done.stderr.strip()}; is the cluster's controller up (`scontrol ping`)?")
    return done.stdout
