"""One core a worker: claims of living processes exclude each other, claims of dead ones do not count."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nqf_pipeline.errors import WorkError
from nqf_pipeline.stages.cores import _XLA_FLAGS, check_grant

CLAIM = """
import os, sys
from nqf_pipeline.stages.cores import prepare_worker
core = prepare_worker()
assert "jax" not in sys.modules
print(core, ",".join(map(str, sorted(os.sched_getaffinity(0)))), os.environ["XLA_FLAGS"], sep=";", flush=True)
sys.stdin.read()
"""
ROOT = Path(__file__).parents[2]
needs_two = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="one core has nothing to share"
)


class Worker:
    """A process that claims a core and holds it until it is told to end."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLAIM],
            env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        self.core, affinity, self.flags = self.process.stdout.readline().strip().split(";")
        self.affinity = set(map(int, affinity.split(",")))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Any]:
    started = []

    def start(**environment: str) -> Worker:
        started.append(Worker(tmp_path, **environment))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@needs_two
def test_two_workers_get_two_cores(worker: Any) -> None:
    first, second = worker(), worker()
    assert first.core != second.core
    assert first.affinity == {int(first.core)}
    assert second.affinity == {int(second.core)}


@needs_two
def test_a_killed_worker_gives_its_core_back(worker: Any) -> None:
    first, second = worker(), worker()
    first.kill()
    assert worker().core == first.core
    assert second.affinity == {int(second.core)}


@needs_two
def test_workers_beyond_the_cores_stay_unpinned(worker: Any) -> None:
    cores = os.sched_getaffinity(0)
    if len(cores) > 8:
        pytest.skip("too many cores to fill")
    pinned = [worker() for _ in cores]
    assert {int(one.core) for one in pinned} == cores
    late = worker()
    assert late.core == "None"
    assert late.affinity == cores


def test_xla_flags_are_added_to_the_users_own(worker: Any) -> None:
    given = "--xla_cpu_enable_fast_math=true --xla_cpu_multi_thread_eigen=true"
    flags = worker(XLA_FLAGS=given).flags
    assert flags.startswith(given)
    names = [flag.split("=")[0] for flag in flags.split()]
    assert sorted(names) == sorted({*names}), "the user's choice is not overwritten"
    assert {flag.split("=")[0] for flag in _XLA_FLAGS} <= set(names)


def test_fewer_cores_than_asked_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", str(len(os.sched_getaffinity(0)) + 1))
    with pytest.raises(WorkError, match="cpus_per_task"):
        check_grant()
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    check_grant()
