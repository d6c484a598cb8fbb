"""One core per worker: claim a free core, then set up XLA for it before JAX is imported. On an accelerator: find it, and share it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import Literal

from threadpoolctl import threadpool_limits

from nqf_pipeline.errors import WorkError

_CPU_FLAGS = (
    "--xla_cpu_multi_thread_eigen=false",
    "--xla_cpu_prefer_vector_width=512",
    "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1000000,xla_llvm_ir_gemm_tile_size=4:8:1*vectwidth",
)
"""One thread per matmul (lanes and workers are the parallelism), and full-width vectors in fused loops. Loops whose body touches at most a
megabyte, as a small twin's, become one piece of machine code: one operation after another takes longer to start than to run. Loops that
hand matrix products to a library, as a network's, never do. Products that XLA multiplies by itself come in tiles of 4 x 8: at its own
11 x 9, compiling 20 x 16 by 16 x 20 (query-key attention with two heads) takes all the memory there is."""
_GPU_FLAGS = ("--xla_gpu_deterministic_ops=true",)
"""The same bits whenever the same program runs on the same kind of device."""
_GPU_VARIABLES = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Several workers may share one accelerator, so none takes most of its memory from the start."""

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
            "Ask for cores with `set-threads` in the site's profile (not `ntasks`), and see that the cluster binds tasks to cores"
        )


def prepare_worker(device: Literal["cpu", "gpu"] = "cpu") -> int | None:
    """Configure XLA, and on the CPU claim a core for it. Must run before JAX is imported; returns the core."""
    check_grant()
    if device == "gpu":
        _add_flags(_GPU_FLAGS)
        for name, value in _GPU_VARIABLES.items():
            os.environ.setdefault(name, value)
        return None
    # What trains on the CPU leaves an accelerator beside it alone.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    core = claim_core()
    threadpool_limits(limits=1)  # NumPy's BLAS counted the cores before the claim
    _add_flags(_CPU_FLAGS)
    return core


def flag_early() -> None:
    """XLA's flags for the CPU before planning, which starts JAX where a teacher network labels the data: it reads them once."""
    _add_flags(_CPU_FLAGS)


def _add_flags(flags: tuple[str, ...]) -> None:
    given = os.environ.get("XLA_FLAGS", "")
    missing = [flag for flag in flags if flag.split("=")[0] not in given]
    os.environ["XLA_FLAGS"] = " ".join([given, *missing]).strip()


def enable_double_precision() -> None:
    """Allow float64 arrays; programs in float32 stay so because every array they get is cast."""
    import jax

    jax.config.update("jax_enable_x64", True)


def require_gpu() -> None:
    """Train on the accelerator, in full float32. Raises WorkError where JAX finds none."""
    import jax

    try:
        found = jax.default_backend()
    except RuntimeError as error:  # a platform was asked for by JAX_PLATFORMS, and is not there
        found = str(error).splitlines()[0]
    if found != "gpu":
        raise WorkError(
            f"this study trains on a GPU (`engine: {{device: gpu}}`), and JAX finds no GPU here (it found: {found}). Run it where there is "
            "one (on SLURM every training job asks for one; see partition and gpu_model in the site's profile) with JAX's CUDA build "
            "(pip install 'nqf-pipeline[gpu]'), or set `engine: {device: cpu}` and start again: what is finished is kept"
        )
    # Otherwise matrix products would be rounded to TF32's ten bits.
    jax.config.update("jax_default_matmul_precision", "highest")
