"""One core per worker: claim a free core, then set up XLA for it before JAX is imported."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from threadpoolctl import threadpool_limits

from nqf_pipeline.errors import WorkError

_XLA_FLAGS = ("--xla_cpu_multi_thread_eigen=false", "--xla_cpu_prefer_vector_width=512")
"""One thread per matmul (lanes and workers are the parallelism), and full-width vectors in fused loops."""

_claims: list[int] = []
"""File descriptors of claimed cores: the locks live as long as the process."""


def claim_core() -> int | None:
    """Pin this process to a core that no other worker on this machine holds; None when all are taken (then it stays unpinned).

    XLA sizes its thread pool by the affinity mask, so two unpinned workers on two cores would run four threads.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    for core in sorted(os.sched_getaffinity(0)):
        lock = Path(tempfile.gettempdir()) / f"nqf-core-{os.getuid()}-{core}.lock"
        handle = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            continue
        _claims.append(handle)
        os.sched_setaffinity(0, {core})
        return core
    return None


def check_grant() -> None:
    """Raise WorkError where a scheduler granted fewer cores than the job asked for: it would run slower than its time limit allows for."""
    if not hasattr(os, "sched_getaffinity"):
        return
    asked, granted = int(os.environ.get("SLURM_CPUS_PER_TASK") or 1), len(os.sched_getaffinity(0))
    if granted < asked:
        raise WorkError(
            f"the job asked SLURM for {asked} cores a task and may use {granted}: it would overrun its time limit. "
            "Ask for cores with `cpus_per_task` in the profile's resources (not `ntasks`), and see that the cluster binds tasks to cores"
        )


def prepare_worker() -> int | None:
    """Claim a core and configure XLA. Must run before JAX is imported; returns the core."""
    check_grant()
    core = claim_core()
    threadpool_limits(limits=1)  # NumPy's BLAS counted the cores before the claim
    given = os.environ.get("XLA_FLAGS", "")
    missing = [flag for flag in _XLA_FLAGS if flag.split("=")[0] not in given]
    os.environ["XLA_FLAGS"] = " ".join([given, *missing]).strip()
    return core


def enable_double_precision() -> None:
    """Allow float64 arrays; programs in float32 stay so because every array they get is cast."""
    import jax

    jax.config.update("jax_enable_x64", True)
