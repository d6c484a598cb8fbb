"""Every step of every write refused by the system, or the last thing that a process does: finished work stays, and asking again helps."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from nqf_pipeline.errors import InputError
from nqf_pipeline.stages import locks
from nqf_pipeline.stages.run import recorded_study
from nqf_pipeline.store.open import open_study
from nqf_pipeline.store.shards import read_shard
from nqf_pipeline.store.tables import TableError, read_table
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.manifest import read_manifest
from tests.faults.ledger import ledger, told
from tests.faults.operations import OPERATIONS, base
from tests.faults.steps import at_step, fails
from tests.workflow.runs import PATIENCE, ROOT

CODES = (errno.ENOSPC, errno.EIO, errno.EACCES)
LONG = {"merge one more shard"}
"""Operations of some hundred steps: not each of them is tried."""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("writers") / "base" / "small"
    base(folder)
    return folder


@pytest.fixture(autouse=True)
def _no_run(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(locks, "_runs", {})
    yield
    for handle in locks._runs.values():
        os.close(handle)


def contents(results: Path) -> dict[str, bytes]:
    """Everything but locks, and the record that only says which buckets need not be written again."""
    files = {path.relative_to(results).as_posix(): path for path in results.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not name.startswith((".trajectories.inputs", "running"))}


def whole_so_far(results: Path, before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """In between: finished shards are there; store, table and manifest are the old ones, the new ones, or say what is wrong."""
    for name in ("one", "two"):
        with told(f"{name}.zarr.zip") as said:
            read_shard(results / "shards" / f"{name}.zarr.zip")
        assert not said or name == "one", said  # `one` is what one of the operations replaces
    with told("small", "trajectories.json") as said:
        open_study(results, verify=True)
    with told("timings.parquet"):
        table = read_table(results, "timings")
        assert len(table) in (1, 3)
    shards = [shard.id for shard in read_manifest(Layout(results).manifest, "small").shards]
    assert 2 <= len(shards) <= 4
    with told("study.json"):
        recorded_study(results)
    for name in before:
        if name.startswith(("shards/two", "theory/two")):
            assert contents(results)[name] == before[name]
    assert after, "something is written"


def outcome(results: Path, operation: str, before: dict[str, bytes], after: dict[str, bytes]) -> str:
    whole_so_far(results, before, after)
    OPERATIONS[operation](results)
    found = contents(results)
    assert found.keys() == after.keys(), sorted(found.keys() ^ after.keys())
    assert not (differ := [name for name in after if found[name] != after[name]]), differ
    return "the same files after asking again"


@pytest.fixture
def truth(start: Path, tmp_path: Path) -> Callable[[str], dict[str, bytes]]:
    def make(operation: str) -> dict[str, bytes]:
        results = tmp_path / "truth" / "small"
        shutil.copytree(start, results)
        OPERATIONS[operation](results)
        _forget()
        return contents(results)

    return make


def _forget() -> None:
    """The lock of a run ends with its process; here each trial stands for one."""
    for handle in locks._runs.values():
        os.close(handle)
    locks._runs.clear()


def refused(results: Path, operation: str, number: int, code: int) -> bool:
    """Whether the operation had such a step. What it says must help."""
    with at_step(results, number, fails(code)) as steps, told("small", "zarr", "json", "parquet", "csv", "late"):
        OPERATIONS[operation](results)
    _forget()
    return steps.happened()


def inject(start: Path, tmp_path: Path, operation: str, code: int, after: dict[str, bytes], stride: int) -> None:
    before = contents(start)
    with ledger() as book:
        for number in count(1, stride):
            results = tmp_path / str(number) / "small"
            shutil.copytree(start, results)
            happened = False

            def trial(results: Path = results, number: int = number) -> str:
                nonlocal happened
                happened = True
                happened = refused(results, operation, number, code)
                return outcome(results, operation, before, after)

            seen = len(book.faults)
            book.judge(f"{errno.errorcode[code]} at a step", operation, trial, number)
            _forget()
            if not happened:
                del book.faults[seen:]
                break
        assert book.faults, "an operation has steps"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_step_that_the_system_refuses(start: Path, tmp_path: Path, truth: Callable[[str], dict[str, bytes]], operation: str) -> None:
    inject(start, tmp_path, operation, errno.ENOSPC, truth(operation), 80 if operation in LONG else 9)


@pytest.mark.faults
@pytest.mark.parametrize("code", CODES, ids=[errno.errorcode[code] for code in CODES])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_step_that_the_system_refuses(
    start: Path, tmp_path: Path, truth: Callable[[str], dict[str, bytes]], operation: str, code: int
) -> None:
    inject(start, tmp_path, operation, code, truth(operation), 9 if operation in LONG else 1)


@pytest.mark.faults
@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_before_its_steps(start: Path, truth: Callable[[str], dict[str, bytes]], tmp_path: Path, operation: str) -> None:
    folder = tmp_path / "killed"
    shutil.copytree(start, folder / "base" / "small")
    command = [sys.executable, "-m", "tests.faults.killed", str(folder), operation]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    left: dict[str, list[int]] = json.loads(done.stdout)
    assert sum(map(len, left.values())) > 6, "an operation has steps"
    before, after = contents(start), truth(operation)
    with ledger() as book:
        for name, killed in left.items():
            kind = f"SIGKILL before a step{', twice' * (len(killed) > 1)}"
            results = folder / name / "small"
            book.judge(kind, operation, lambda results=results: outcome(results, operation, before, after), killed[-1])  # type: ignore[misc]
            _forget()


def test_what_is_said_of_an_absent_table(start: Path) -> None:
    with pytest.raises(TableError, match="start the workflow") as error:
        read_table(start, "plateaus")
    assert isinstance(error.value, InputError)
