"""One core a worker: claims of living processes exclude each other, claims of dead ones do not count."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

from nqf_pipeline.errors import WorkError
from nqf_pipeline.stages.cores import _CPU_FLAGS, check_grant, require_gpu

CLAIM = """
import os, sys
from nqf_pipeline.stages.cores import prepare_worker
core = prepare_worker()
assert "jax" not in sys.modules
print(core, ",".join(map(str, sorted(os.sched_getaffinity(0)))), os.environ["XLA_FLAGS"], sep=";", flush=True)
sys.stdin.read()
"""
ROOT = Path(__file__).parents[2]
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
"""Read before any test runs: one that trains in this process claims a core for it."""
needs_two = pytest.mark.skipif(len(CORES) < 2, reason="one core has nothing to share")


@pytest.fixture(autouse=True)
def _all_cores() -> Iterator[None]:
    """Children inherit the cores of this process."""
    if not CORES:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES)
    yield
    os.sched_setaffinity(0, before)


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
    if len(CORES) > 8:
        pytest.skip("too many cores to fill")
    pinned = [worker() for _ in CORES]
    assert {int(one.core) for one in pinned} == CORES
    late = worker()
    assert late.core == "None"
    assert late.affinity == CORES


def test_xla_flags_are_added_to_the_users_own(worker: Any) -> None:
    given = "--xla_cpu_enable_fast_math=true --xla_cpu_multi_thread_eigen=true"
    flags = worker(XLA_FLAGS=given).flags
    assert flags.startswith(given)
    names = [flag.split("=")[0] for flag in flags.split()]
    assert sorted(names) == sorted({*names}), "the user's choice is not overwritten"
    assert {flag.split("=")[0] for flag in _CPU_FLAGS} <= set(names)


def test_fewer_cores_than_asked_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", str(len(os.sched_getaffinity(0)) + 1))
    with pytest.raises(WorkError, match="set-threads"):
        check_grant()
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    check_grant()


def environment_of(device: str, tmp_path: Path, **given: str) -> dict[str, str]:
    """What `prepare_worker` leaves for JAX to read, in a process of its own."""
    code = (
        "import json, os, sys; from nqf_pipeline.stages.cores import prepare_worker; before = os.sched_getaffinity(0); "
        f"core = prepare_worker({device!r}); assert 'jax' not in sys.modules; "
        "print(json.dumps({**os.environ, 'pinned': str(os.sched_getaffinity(0) != before or len(before) == 1), 'core': str(core)}))"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT), **given},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_a_worker_on_the_cpu_leaves_an_accelerator_alone(tmp_path: Path) -> None:
    assert environment_of("cpu", tmp_path)["JAX_PLATFORMS"] == "cpu"


def test_workers_on_an_accelerator_share_it_and_claim_no_core(tmp_path: Path) -> None:
    found = environment_of("gpu", tmp_path)
    assert found["core"] == "None"
    assert "JAX_PLATFORMS" not in found
    assert found["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert "--xla_gpu_deterministic_ops=true" in found["XLA_FLAGS"]
    assert environment_of("gpu", tmp_path, XLA_PYTHON_CLIENT_PREALLOCATE="true")["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"


def test_without_an_accelerator_the_message_names_the_ways_out() -> None:
    if jax.default_backend() == "gpu":
        pytest.skip("JAX finds an accelerator here")
    with pytest.raises(WorkError, match=r"JAX finds no GPU here .*nqf-pipeline\[gpu\].*device: cpu"):
        require_gpu()
