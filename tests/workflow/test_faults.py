"""Damage on purpose: what is said, with which exit code, and that the way out in the message is one."""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nqf_pipeline.errors import InputError
from nqf_pipeline.store.open import open_study
from tests.workflow.runs import SHARDS, Workspace, jobs, new, said

Damage = Callable[[Path], None]


@pytest.fixture
def workspace(finished: Workspace, tmp_path: Path) -> Workspace:
    return finished.copy(tmp_path)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(bytes(data))


def refused(done: subprocess.CompletedProcess[str], *words: str) -> str:
    """A message for the user with exit code 2, and no traceback."""
    assert done.returncode == 2, said(done)
    assert "Traceback" not in said(done)
    for word in words:
        assert re.search(word, said(done)), f"{word!r} is not in: {said(done)}"
    return said(done)


# ---- shards and store


@pytest.mark.parametrize(
    ("folder", "damage"),
    [
        ("shards", truncate),
        ("theory", flip_a_bit),
        pytest.param("shards", flip_a_bit, marks=pytest.mark.faults),
        pytest.param("theory", truncate, marks=pytest.mark.faults),
    ],
)
def test_a_damaged_shard_is_found_by_the_merge_and_made_anew(workspace: Workspace, damage: Damage, folder: str) -> None:
    shard = workspace.shards[0]
    path = workspace.results / folder / f"{shard}.zarr.zip"
    before = workspace.files("shards/*", "theory/*.zip", "trajectories.zarr/**/*")
    damage(path)
    refused(workspace.nqf("merge", "results/tiny"), rf"{folder}/{shard}.zarr.zip: the file is (truncated|damaged)", r"Way out: delete")
    after = workspace.files("shards/*", "theory/*.zip", "trajectories.zarr/**/*")
    assert {name for name in before if after[name] != before[name]} == {f"{folder}/{shard}.zarr.zip"}

    # The way out, word for word: delete both files and start again.
    path.unlink()
    path.with_name(f"{shard}.json").unlink()
    expected = {"train": 1} if folder == "shards" else {"theory": 1}
    assert jobs(workspace.finish("--until", "merge")) == expected | {"merge": 1}
    assert workspace.contents("shards/*.zip", "theory/*.zip") == {name: data for name, (data, _) in before.items() if name.endswith(".zip")}
    open_study(workspace.results, verify=True)


def test_the_reason_of_a_failed_job_is_shown(workspace: Workspace) -> None:
    """Through Snakemake: its own exit code is 1, and the job's message stands in its output."""
    truncate(workspace.results / "shards" / f"{workspace.shards[0]}.zarr.zip")
    done = workspace.snakemake("--forcerun", "merge")
    assert done.returncode == 1
    assert re.search(r"Error in rule merge", said(done))
    assert re.search(rf"shards/{workspace.shards[0]}.zarr.zip: the file is truncated", said(done))
    assert re.search(r"Way out: delete", said(done))


def test_a_shard_deleted_without_its_summary_is_trained_again(workspace: Workspace) -> None:
    (workspace.results / "shards" / f"{workspace.shards[0]}.zarr.zip").unlink()
    refused(workspace.nqf("merge", "results/tiny"), "the file is absent although its summary exists")
    assert json.loads(workspace.nqf("plan", "config/tiny.yaml", "--json").stdout)["to_run"] == 1
    assert workspace.planned_jobs() == {"train": 1, "merge": 1, "analyse": 1, "figures": 1, "report": 1}


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ("cells.csv", {"analyse": 1, "figures": 1, "report": 1}),
        ("figures/figures.json", {"figures": 1, "report": 1}),
        ("report.html", {"report": 1}),
    ],
)
def test_a_deleted_file_and_what_is_made_from_it_are_made_again(workspace: Workspace, lost: str, expected: dict[str, int]) -> None:
    (workspace.results / lost).unlink()
    assert workspace.planned_jobs() == expected


def test_a_damaged_summary_is_named(workspace: Workspace) -> None:
    shard = workspace.shards[0]
    truncate(workspace.results / "shards" / f"{shard}.json")
    refused(workspace.nqf("merge", "results/tiny"), rf"its summary {shard}.json is damaged")
    refused(workspace.nqf("status", "results/tiny"), rf"its summary {shard}.json is damaged")


def test_half_written_files_of_a_killed_job_are_replaced(workspace: Workspace, finished: Workspace) -> None:
    shard = workspace.shards[0]
    for name in (f"shards/.{shard}.zarr.zip.tmp", f"theory/.{shard}.json.tmp", ".study.json.tmp"):
        (workspace.results / name).write_bytes(b"half a")
    for name in (".trajectories.zarr.tmp", ".trajectories.zarr.old"):
        (workspace.results / name).mkdir()
        (workspace.results / name / "zarr.json").write_text("{")
    for kind in ("zarr.zip", "json"):
        (workspace.results / "shards" / f"{shard}.{kind}").unlink()
        (workspace.results / "theory" / f"{shard}.{kind}").unlink()
    workspace.finish("--until", "merge")
    assert workspace.lasting() == finished.lasting()
    assert not [path for path in workspace.results.rglob("*") if path.suffix in (".tmp", ".old")]


def test_a_failed_job_keeps_what_it_has_predicted(workspace: Workspace, finished: Workspace) -> None:
    """Snakemake would delete all that the job was to write."""
    shutil.rmtree(workspace.results / "theory")
    *good, blocked = workspace.shards
    (workspace.results / "theory" / f"{blocked}.zarr.zip").mkdir(parents=True)
    failed = workspace.snakemake("--until", "theory")
    assert failed.returncode == 1, said(failed)
    assert re.search(rf"{blocked}\.zarr\.zip\S*: cannot be written", said(failed)), said(failed)
    kept = workspace.files("theory/*")
    assert set(kept) == {f"theory/{shard}.{kind}" for shard in good for kind in ("zarr.zip", "json")}
    (workspace.results / "theory" / f"{blocked}.zarr.zip").rmdir()
    assert jobs(workspace.finish("--until", "merge")) == {"theory": 1, "merge": 1}
    arrays = {name: state for name, state in kept.items() if name.endswith(".zip")}
    assert {name: state for name, state in workspace.files("theory/*").items() if name in arrays} == arrays
    assert workspace.lasting() == finished.lasting()


@pytest.mark.parametrize("lost", ["trajectories.zarr", "trajectories.json"])
def test_a_lost_store_is_merged_again(workspace: Workspace, finished: Workspace, lost: str) -> None:
    path = workspace.results / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(InputError, match="Start the workflow") as refusal:
        open_study(workspace.results)
    for name in re.findall(r"[Dd]elete \S*?(trajectories\.\w+)", str(refusal.value)):
        (workspace.results / name).unlink()
    assert jobs(workspace.finish("--until", "merge")) == {"merge": 1}
    assert workspace.lasting() == finished.lasting()


def test_a_truncated_store_is_named_and_merged_again(workspace: Workspace, finished: Workspace) -> None:
    file = max((workspace.results / "trajectories.zarr").rglob("c.*"), key=lambda path: path.stat().st_size)
    truncate(file)
    text = refused(workspace.nqf("analyse", "results/tiny"), "truncated or replaced", "Delete")
    (name,) = re.findall(r"Delete \S*?(trajectories\.\w+)", text)
    path = workspace.results / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert jobs(workspace.finish("--until", "merge")) == {"merge": 1}
    assert workspace.lasting() == finished.lasting()


# ---- manifest, study, versions


def edit_lines(path: Path, edit: Callable[[list[str]], list[str]]) -> None:
    path.write_text("".join(edit(path.read_text().splitlines(keepends=True))))


def another(**changes: object) -> Callable[[list[str]], list[str]]:
    return lambda lines: [json.dumps(json.loads(line) | changes) + "\n" for line in lines]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda lines: [lines[0][:100] + "\n", *lines[1:]], r"manifest.jsonl, line 1: not a manifest line"),
        (lambda lines: [lines[0], lines[1].replace('"sigma":0.', '"sigma":0.7'), *lines[2:]], r"line 2: the cells do not match"),
        (another(study="other"), r"line 1: these results belong to study `other`, not to `tiny`"),
        (another(schema=0), r"line 1: written with manifest schema 0, and this version reads schema 1 and 2"),
    ],
    ids=["cut line", "edited cell", "another study", "another version"],
)
def test_a_manifest_that_cannot_be_trusted_stops_everything(
    workspace: Workspace, edit: Callable[[list[str]], list[str]], words: str
) -> None:
    edit_lines(workspace.results / "manifest.jsonl", edit)
    before = workspace.files()
    refused(workspace.nqf("plan", "config/tiny.yaml"), words)
    refused(workspace.snakemake(), words)
    assert workspace.files() == before


def test_a_last_manifest_line_cut_by_a_kill_costs_nothing(workspace: Workspace) -> None:
    """Its shard is formed again, under the same name, and is found finished."""
    manifest = workspace.results / "manifest.jsonl"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-50])
    found = json.loads(workspace.nqf("plan", "config/tiny.yaml", "--json").stdout)
    assert (found["new"], found["to_run"], found["shards"]) == (1, 0, SHARDS)
    workspace.change(lambda study: study["experiments"].update(other=study["experiments"].pop("wild")))
    assert jobs(workspace.finish("--until", "merge")) == {"merge": 1}
    assert manifest.read_bytes().replace(b'"experiment":"other"', b'"experiment":"wild"') == whole


def test_a_renamed_results_folder_is_refused(workspace: Workspace) -> None:
    workspace.results.rename(workspace.results.with_name("mine"))
    refused(workspace.nqf("status", "results/mine"), "belongs to study `tiny`, and its folder is called `mine`")


@pytest.mark.parametrize(("version", "words"), [(0, "Older stores are not converted"), (99, "by a newer program")])
def test_a_store_of_another_version(workspace: Workspace, version: int, words: str) -> None:
    listing = workspace.results / "trajectories.json"
    listing.write_text(json.dumps(json.loads(listing.read_text()) | {"schema_version": version}))
    refused(workspace.nqf("analyse", "results/tiny"), words)
    with pytest.raises(InputError, match=words):
        open_study(workspace.results)


def test_an_unreadable_study_file_says_how_to_get_it_back(workspace: Workspace) -> None:
    (workspace.results / "study.json").write_text('{"name": "tiny", "experiments": {}, "colour": 1}')
    refused(workspace.nqf("status", "results/tiny"), "study.json: cannot be read by this version", "run the workflow again")


def test_a_data_file_changed_behind_the_plan_is_noticed(workspace: Workspace) -> None:
    """Its cells would get results of other data."""
    table = next(shard for shard in workspace.shards if b"points.csv" in manifest_line(workspace, shard))
    for kind in ("zarr.zip", "json"):
        (workspace.results / "shards" / f"{table}.{kind}").unlink()
    data = workspace.config.parent / "points.csv"
    data.write_text(data.read_text() + "1,1,1,1\n")
    refused(workspace.nqf("train", "results/tiny", table), "data file .*points.csv has changed since the study was planned")


def manifest_line(workspace: Workspace, shard: str) -> bytes:
    return next(line for line in (workspace.results / "manifest.jsonl").read_bytes().splitlines() if shard.encode() in line)


# ---- folders and disks


@pytest.mark.parametrize("place", ["results", "results/tiny", "results/tiny/running"])
def test_a_file_where_a_folder_should_be(tmp_path: Path, place: str) -> None:
    fresh = new(tmp_path)
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("in the way")
    refused(fresh.snakemake(), place, "Not a directory|File exists")
    assert path.read_text() == "in the way"


def small_files(limit: int) -> Callable[[], None]:
    """No file may grow beyond `limit` bytes: what the kernel then says is treated like a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


@pytest.mark.parametrize("stage", ["merge", "analyse", "figures", "report"])
def test_a_full_disk_keeps_the_old_results(workspace: Workspace, stage: str) -> None:
    before = workspace.files()
    refused(workspace.nqf(stage, "results/tiny", preexec_fn=small_files(4096)), "no space left", "finished work is untouched")
    after = workspace.files()
    assert {name: after[name] for name in before if not name.startswith("running/")} == {
        name: before[name] for name in before if not name.startswith("running/")
    }
    assert not list(workspace.results.rglob("*.tmp"))


def test_a_full_disk_while_training(workspace: Workspace) -> None:
    shard = workspace.shards[0]
    for kind in ("zarr.zip", "json"):
        (workspace.results / "shards" / f"{shard}.{kind}").unlink()
    before = workspace.files("shards/*")
    refused(workspace.nqf("train", "results/tiny", shard, preexec_fn=small_files(4096)), rf"{shard}.zarr.zip: no space left")
    assert workspace.files("shards/*") == before
    assert workspace.planned_jobs()["train"] == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace whose results lie on a disk of their own."""
    fresh = new(tmp_path)
    disk = tmp_path / "results"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "none", str(disk)], capture_output=True, check=False)
    if mount.returncode:
        pytest.skip("may not mount a file system here")
    yield fresh
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.faults
def test_a_run_on_a_full_disk_goes_on_after_space_is_made(small_disk: Workspace, finished: Workspace) -> None:
    done = small_disk.snakemake()
    assert done.returncode == 1
    # Whatever the jobs could still write into their logs, which are on the full disk too.
    assert re.search(r"warning: results/tiny: no space left on its disk \([\d,]+ bytes are free\)", said(done)), said(done)
    subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk.results.parent)], check=True)
    kept = small_disk.files("shards/*.json")
    assert len(kept) < SHARDS
    text = small_disk.finish()
    assert jobs(text).get("train", 0) == SHARDS - len(kept)
    assert small_disk.lasting() == finished.lasting()


@pytest.mark.faults
def test_a_read_only_results_folder(finished: Workspace, tmp_path: Path) -> None:
    """By a read-only mount: permissions do not bind an administrator."""
    workspace = finished.copy(tmp_path)
    folder = str(workspace.results)
    if subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        workspace.change(lambda study: study["report"].update(dpi=70))
        done = workspace.snakemake()
        assert done.returncode == 1
        assert "Write-protected output files" in said(done), "Snakemake looks before it starts a job"
        refused(workspace.nqf("merge", "results/tiny"), "Read-only file system")
        assert workspace.nqf("status", "results/tiny").returncode == 0, "reading is possible"
        assert workspace.nqf("query", "results/tiny", "cells").returncode == 0
        assert workspace.nqf("plan", "config/tiny.yaml").returncode == 0
    finally:
        subprocess.run(["umount", folder], check=True)
