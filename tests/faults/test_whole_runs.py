"""Faults in whole runs: the same command (and what its message says) ends with the results of an undisturbed run, byte for byte."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nqf_pipeline.store.tables import TableError, read_table
from tests.faults.damage import flipped
from tests.faults.ledger import ledger, way_out
from tests.faults.whole import (
    WHOLE,
    cell_status,
    ended,
    finished_work,
    follow,
    heal,
    kept,
    same,
    silence,
    small,
    stop_all,
)
from tests.workflow.runs import PATIENCE, Workspace, jobs, living, said, training, wait_until

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = small(tmp_path_factory.mktemp("undisturbed"))
    begun = time.monotonic()
    workspace.finish("--until", WHOLE)
    (workspace.folder / "seconds").write_text(f"{time.monotonic() - begun}")
    return workspace


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Workspace]:
    workspace = small(tmp_path)
    yield workspace
    stop_all(workspace)


@pytest.fixture
def done(undisturbed: Workspace, tmp_path: Path) -> Workspace:
    return undisturbed.copy(tmp_path)


# ---- processes


def begin(workspace: Workspace) -> subprocess.Popen[str]:
    """A run up to the moment at which a shard is in training."""
    process = workspace.start(*workspace.snakemake_command("--until", "merge"))
    wait_until(lambda: training(workspace), process)
    return process


def send(number: signal.Signals, to: Callable[[Workspace, subprocess.Popen[str]], list[int]]) -> Callable[[Workspace], str]:
    def disturb(workspace: Workspace) -> str:
        process = begin(workspace)
        for target in to(workspace, process):
            os.kill(target, number)
        ended(process, "results/tiny")
        return f"the run ended with {process.returncode}"

    return disturb


def controller(_: Workspace, process: subprocess.Popen[str]) -> list[int]:
    return [process.pid]


def worker(workspace: Workspace, _: subprocess.Popen[str]) -> list[int]:
    return list(training(workspace).values())[:1]


def everyone(workspace: Workspace, _: subprocess.Popen[str]) -> list[int]:
    return living(workspace)


def stopped_and_continued(workspace: Workspace) -> str:
    process = begin(workspace)
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(2)
    os.killpg(process.pid, signal.SIGCONT)
    text = ended(process, "results/tiny")
    assert process.returncode == 0, text
    return "the run went on"


def results_moved_away(workspace: Workspace) -> str:
    process = begin(workspace)
    away = workspace.results.with_name("away")
    workspace.results.rename(away)
    time.sleep(1)
    ended(process, "results/tiny")
    silence(workspace)
    if workspace.results.exists():  # what the run made meanwhile
        workspace.results.rename(workspace.results.with_name("left"))
    away.rename(workspace.results)
    return f"the run ended with {process.returncode}"


def config_edited(workspace: Workspace) -> str:
    process = begin(workspace)
    workspace.change(lambda study: study["experiments"]["tracks"].update(seeds=3))
    text = ended(process, "results/tiny")
    assert process.returncode == 0, text
    workspace.change(lambda study: study["experiments"]["tracks"].update(seeds=2))
    return "the run kept its plan"


def second_run(workspace: Workspace) -> str:
    process = begin(workspace)
    second = workspace.snakemake("--until", "merge")
    assert second.returncode == 2, said(second)
    way_out(said(second), "results/tiny")
    ended(process, "results/tiny")
    assert process.returncode == 0
    return "the second run was refused"


def limited(what: int, most: int) -> Callable[[Workspace], str]:
    """A run whose processes may not pass a limit of the kernel."""

    def disturb(workspace: Workspace) -> str:
        done = workspace.snakemake("--until", "merge", preexec_fn=lambda: resource.setrlimit(what, (most, most)))
        assert done.returncode != 0, "the limit bites"
        silence(workspace)
        return f"the run ended with {done.returncode}"

    return disturb


def file_for_logs(workspace: Workspace) -> str:
    workspace.results.mkdir(parents=True)
    (workspace.results / "logs").write_text("in the way")
    done = workspace.snakemake("--until", "merge")
    assert done.returncode != 0
    assert "logs" in said(done)
    (workspace.results / "logs").unlink()
    return f"the run ended with {done.returncode}"


def bad_number(workspace: Workspace) -> str:
    data = workspace.config.parent / "points.csv"
    whole = data.read_text()
    data.write_text(whole + "0.5,nan,0.5,0.5\n")
    done = workspace.snakemake("--until", "merge")
    assert done.returncode == 2, said(done)
    way_out(said(done), "points.csv")
    data.write_text(whole)
    return "refused before anything ran"


RUNS: dict[str, Callable[[Workspace], str]] = {
    "SIGKILL of a worker": send(signal.SIGKILL, worker),
    "SIGKILL of the controller": send(signal.SIGKILL, controller),
    "SIGKILL of all": send(signal.SIGKILL, everyone),
    "SIGSEGV of a worker": send(signal.SIGSEGV, worker),
    "SIGTERM of the controller": send(signal.SIGTERM, controller),
    "SIGTERM of a worker": send(signal.SIGTERM, worker),
    "SIGINT of all": send(signal.SIGINT, everyone),
    "SIGSTOP, then SIGCONT": stopped_and_continued,
    "results moved during a run": results_moved_away,
    "config edited during a run": config_edited,
    "two runs at once": second_run,
    "no memory (RLIMIT_AS)": limited(resource.RLIMIT_AS, 900 * 2**20),
    "disk full (RLIMIT_FSIZE)": limited(resource.RLIMIT_FSIZE, 6000),
    "a file in place of the log folder": file_for_logs,
    "NaN in a user's data": bad_number,
}


@pytest.mark.parametrize("kind", RUNS)
def test_a_disturbed_run(fresh: Workspace, undisturbed: Workspace, kind: str) -> None:
    def trial() -> str:
        outcome = RUNS[kind](fresh)
        before = finished_work(fresh)
        heal(fresh)
        silence(fresh)
        kept(fresh, before)
        same(fresh, undisturbed)
        return f"{outcome}; healed by the same command"

    with ledger("whole run") as book:
        book.judge(kind, "run", trial)


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_a_random_moment(fresh: Workspace, undisturbed: Workspace, seed: int) -> None:
    def trial() -> str:
        moment = random.Random(seed).uniform(0.15, 0.9) * float((undisturbed.folder / "seconds").read_text())
        process = fresh.start(*fresh.snakemake_command("--until", WHOLE))
        try:
            process.wait(timeout=moment)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
        silence(fresh)
        before = finished_work(fresh)
        heal(fresh, until=WHOLE)
        kept(fresh, before)
        same(fresh, undisturbed)
        return f"killed after {moment:.1f} s with {len(before)} shards finished; healed by the same command"

    with ledger("whole run") as book:
        book.judge("SIGKILL of all at a random moment", "run", trial, seed)


def only_the_rest(study: dict[str, Any]) -> None:
    del study["experiments"]["endless"], study["engine"]


def test_a_cell_that_never_ends(fresh: Workspace, undisturbed: Workspace) -> None:
    """It costs its own row; without it the study is that of an undisturbed run."""

    def trial() -> str:
        fresh.change(lambda study: study.update(engine={"limit_hours": 45 / 3600}))
        endless = {"optimizers": [{"kind": "gd", "learning_rate": 1e-6}], "sigma": [0.3], "seeds": 1, "steps": 2 * 10**9}
        fresh.change(lambda study: study["experiments"].update(endless=study["experiments"]["table"] | endless))
        text = heal(fresh, until=WHOLE)
        assert "1 cells have status `timed_out`" in text, text
        assert "nqf retry" in text
        assert (cell_status(fresh)["timed_out"], cell_status(fresh)["missing"]) == (1, 0)
        cells = read_table(fresh.results, "cells")
        assert cells["status"].value_counts()["timed_out"] == 1
        fresh.change(only_the_rest)
        heal(fresh, until=WHOLE)
        same(fresh, undisturbed)
        return "its row has status timed_out; the others are those of an undisturbed run"

    with ledger("whole run") as book:
        book.judge("a cell that never ends", "run", trial)


# ---- files of a finished study


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    path.write_bytes(flipped(path.read_bytes(), 11))


def remove(path: Path) -> None:
    path.unlink()


def cut_line(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])


def first_line(path: Path) -> None:
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])


FILES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a shard truncated": ("shards/*.zarr.zip", truncate, "merge"),
    "a shard bit-flipped": ("shards/*.zarr.zip", flip, "merge"),
    "a shard lost": ("shards/*.zarr.zip", remove, ""),
    "a summary lost": ("shards/*.json", remove, ""),
    "a summary bit-flipped": ("shards/*.json", flip, "merge"),
    "predictions bit-flipped": ("theory/*.zarr.zip", flip, "merge"),
    "the listing of the store lost": ("trajectories.json", remove, ""),
    "the listing of the store truncated": ("trajectories.json", truncate, "analyse"),
    "an array of the store bit-flipped": ("trajectories.zarr/*/network_loss/c*", flip, "analyse"),
    "metadata of the store bit-flipped": ("trajectories.zarr/zarr.json", flip, "analyse"),
    "the last line of the manifest cut": ("manifest.jsonl", cut_line, ""),
    "all but the first line of the manifest lost": ("manifest.jsonl", first_line, ""),
    "the recorded config damaged": ("study.json", truncate, "analyse"),
    "a table lost": ("cells.parquet", remove, ""),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_file_of_a_finished_study(done: Workspace, undisturbed: Workspace, kind: str) -> None:
    def trial() -> str:
        pattern, damage, rule = FILES[kind]
        path = min(done.results.glob(pattern))
        others = {name: data for name, data in finished_work(done).items() if Path(name).name.split(".")[0] not in path.name}
        damage(path)
        text = heal(done, *(("--forcerun", rule) if rule else ()), until=WHOLE)
        kept(done, others)
        same(done, undisturbed)
        noticed = "noticed, and " if "rror in rule" in text else ""
        return f"{noticed}healed by the same command ({', '.join(jobs(text)) or 'nothing to do'})"

    with ledger("whole run") as book:
        book.judge(kind, pattern_name(kind), trial)


def pattern_name(kind: str) -> str:
    return FILES[kind][0].split("/")[0]


@pytest.mark.parametrize("damage", [truncate, flip])
def test_a_damaged_table(done: Workspace, undisturbed: Workspace, damage: Callable[[Path], None]) -> None:
    def trial() -> str:
        damage(done.results / "plateaus.parquet")
        with pytest.raises(TableError) as refusal:
            read_table(done.results, "plateaus")
        way_out(str(refusal.value), "plateaus.parquet")
        assert follow(done, str(refusal.value)) == ["plateaus.parquet"]
        heal(done, until=WHOLE)
        same(done, undisturbed)
        return "noticed, and healed by what the message says"

    with ledger("whole run") as book:
        book.judge(f"a table damaged ({damage.__name__})", "tables", trial)


def test_a_clock_that_was_wrong(done: Workspace, undisturbed: Workspace) -> None:
    """Files from the future: the merge may be repeated, training must not."""

    def trial() -> str:
        future = time.time() + 10 * 86400
        for path in done.results.glob("shards/*"):
            os.utime(path, (future, future))
        text = heal(done, until=WHOLE)
        assert "train" not in jobs(text), text
        same(done, undisturbed)
        return f"nothing trained again ({', '.join(jobs(text)) or 'nothing to do'})"

    with ledger("whole run") as book:
        book.judge("clock set back (shards ten days from now)", "shards", trial)


def test_read_only_results(done: Workspace, undisturbed: Workspace) -> None:
    folder = str(done.results)
    if subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system here")

    def trial() -> str:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        done.change(lambda study: study["experiments"]["tracks"].update(seeds=3))
        refused = done.snakemake("--until", "merge")
        assert refused.returncode != 0
        way_out(said(refused), "results/tiny")
        subprocess.run(["umount", folder], check=True)
        done.change(lambda study: study["experiments"]["tracks"].update(seeds=2))
        heal(done, until=WHOLE)
        same(done, undisturbed)
        return "refused; healed by the same command"

    try:
        with ledger("whole run") as book:
            book.judge("read-only results", "results", trial)
    finally:
        subprocess.run(["umount", "--lazy", folder], capture_output=True, check=False)


def test_a_full_disk(tmp_path: Path, undisturbed: Workspace) -> None:
    workspace = small(tmp_path)
    disk = workspace.results.parent
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)], capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system here")

    def trial() -> str:
        full = workspace.snakemake("--until", "merge")
        assert full.returncode != 0
        way_out(said(full), "results/tiny")
        subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
        before = finished_work(workspace)
        heal(workspace)
        kept(workspace, before)
        same(workspace, undisturbed)
        return f"{len(before)} shards finished before; healed by the same command"

    try:
        with ledger("whole run") as book:
            book.judge("disk full (tmpfs)", "results", trial)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
