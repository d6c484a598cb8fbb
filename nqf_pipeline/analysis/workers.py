"""Where the analysis runs: threads of this process, processes on its cores, or jobs of a SLURM queue. The same tasks, so the same tables.

Every task reads the store itself and returns data frames in the order asked for; numerical libraries run on one thread everywhere, so that
no sum depends on where it was made. A task whose worker dies is given to another one; one that ends several workers ends the analysis.
Workers end with the analysis, also when it fails or is told to stop (SIGTERM); when it is killed outright, they notice within a minute.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import dask
from dask.base import compute
from dask.delayed import delayed
from threadpoolctl import threadpool_limits

from nqf_pipeline.errors import InputError, WorkError
from nqf_pipeline.study.config import DaskSettings

MANY_CELLS = 4000
"""Cells from which on starting processes pays."""
CODE_FOLDER = Path(__file__).parents[2]
DEATHS = 3
"""Workers that one task may end before it is given up."""
Task = TypeVar("Task")
Result = TypeVar("Result")
Map = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""Runs a function on many tasks; results in the order of the tasks."""


@contextmanager
def workers(settings: DaskSettings, cells: int, results: Path) -> Iterator[Map]:
    """A map over tasks, for as long as the block lasts. `cells` of the study decide what `auto` means;
    SLURM workers are named after `results` and log into it."""
    kind: str = settings.kind
    if kind == "auto":
        kind = "processes" if cells >= MANY_CELLS and _cores(settings) > 1 else "threads"
    with threadpool_limits(1):
        if kind == "threads":
            yield lambda function, tasks: _threads(function, tasks, _cores(settings))
            return
        with _stoppable(), _cluster(kind, settings, results) as client:
            yield lambda function, tasks: _gather(client, function, tasks)


def granted() -> list[int]:
    """Cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def _cores(settings: DaskSettings) -> int:
    return min(settings.workers, len(granted()))


def _threads(function: Callable[[Task], Result], tasks: Sequence[Task], cores: int) -> list[Result]:
    work = delayed(function, pure=False, traverse=False)
    return list(compute(*[work(task) for task in tasks], scheduler="threads" if cores > 1 else "synchronous", num_workers=cores))


def _gather(client: Any, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    futures = client.map(function, tasks, pure=False)
    try:
        return list(client.gather(futures))
    except KilledWorker as error:
        raise WorkError(
            f"the analysis lost {DEATHS + 1} workers over one of its tasks ({error.task}). Give them more memory with "
            "`engine: {dask: {memory: ...}}`, or see their logs; finished training is kept, so start the workflow again"
        ) from error
    except FutureCancelledError as error:
        raise WorkError(f"the analysis lost its workers ({error}); finished training is kept, so start the workflow again") from error
    finally:
        client.cancel(futures)


@contextmanager
def _cluster(kind: str, settings: DaskSettings, results: Path) -> Iterator[Any]:
    """A client of workers that end with the block. No dashboard, and locally no port beyond loopback."""
    from distributed import Client

    quiet = {
        "distributed.scheduler.allowed-failures": DEATHS,
        "distributed.worker.memory.spill": False,
        "distributed.admin.large-graph-warning-threshold": "1GB",
        "distributed.comm.timeouts.connect": "30s",
    }
    make = _processes if kind == "processes" else _slurm
    with dask.config.set(quiet), make(settings, results) as cluster, Client(cluster, set_as_default=False) as client:
        if kind == "processes":
            client.register_plugin(_pinned(granted()[: _cores(settings)]))
        else:
            cluster.scale(jobs=settings.workers)
            _await(client, settings)
        yield client


def _processes(settings: DaskSettings, _: Path) -> Any:
    from distributed import LocalCluster

    cores = granted()[: _cores(settings)]
    loopback = "127.0.0.1:0"
    return LocalCluster(
        n_workers=len(cores),
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=loopback,
        worker_dashboard_address=loopback,
        memory_limit=settings.memory,
        silence_logs="ERROR",
    )


def _pinned(cores: list[int]) -> Any:
    """A plugin that keeps worker k on core k, also after a restart."""
    from distributed import WorkerPlugin

    class Pinned(WorkerPlugin):
        def setup(self, worker: Any) -> None:
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, {cores[int(worker.name) % len(cores)]})

    return Pinned()


def _slurm(settings: DaskSettings, results: Path) -> Any:
    try:
        from dask_jobqueue.slurm import SLURMCluster
    except ImportError:
        raise InputError(
            "engine.dask: `slurm` needs the package dask-jobqueue, which is not installed. Install it with "
            "pip install 'nqf-pipeline[cluster]', or set `engine: {dask: processes}`"
        ) from None

    for name in [name for name in os.environ if name.startswith("SLURM_") and name != "SLURM_CONF"]:
        del os.environ[name]  # of the job that this process may run in: sbatch would hand its limits on to the workers
    logs = results / "logs" / "dask"
    logs.mkdir(parents=True, exist_ok=True)
    site: dict[str, Any] = {"queue": settings.queue, "account": settings.account, "interface": settings.interface}
    return SLURMCluster(
        **{name: value for name, value in site.items() if value},
        cores=1,
        processes=1,
        memory=settings.memory,
        walltime=f"{settings.minutes // 60:02d}:{settings.minutes % 60:02d}:00",
        job_name=f"nqf.{results.name}.dask",  # by which `nqf orphans` finds it
        job_extra_directives=["--comment=dask", *settings.options],
        job_script_prologue=[f"export PYTHONPATH={shlex.quote(str(CODE_FOLDER))}"],
        python=shlex.quote(sys.executable),
        log_directory=str(logs),
        scheduler_options={"dashboard_address": "127.0.0.1:0"},
        silence_logs="ERROR",
    )


def _await(client: Any, settings: DaskSettings) -> None:
    """Wait for the first worker."""
    try:
        client.wait_for_workers(1, timeout=60 * settings.patience)
    except TimeoutError:
        raise WorkError(
            f"engine.dask: no SLURM worker has started within {settings.patience} minutes. See `squeue` for the reason (queue, account, "
            "memory), set them in `engine: {dask: {...}}`, give more `patience`, or set `engine: {dask: processes}`"
        ) from None


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM ends the block as an exception, so that workers are cancelled."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
