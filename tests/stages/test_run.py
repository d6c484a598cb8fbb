"""What fixes a plan before the first job, and what later commands read of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nqf_pipeline.errors import InputError
from nqf_pipeline.stages import locks, run
from nqf_pipeline.stages.locks import running_since
from nqf_pipeline.stages.run import begin, planned, predict_shards, recorded_plan, recorded_study, shards_named
from nqf_pipeline.study.plan import freeze
from tests.workflow.runs import CELLS, SHARDS, STUDY, Workspace, new


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """The folder in which a workflow starts; its lock is given up afterwards, as if the process had ended."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(locks, "_runs", {})
    yield new(tmp_path)
    for handle in locks._runs.values():
        locks.os.close(handle)


def changed(**tracks: Any) -> dict[str, Any]:
    return STUDY | {"experiments": STUDY["experiments"] | {"tracks": STUDY["experiments"]["tracks"] | tracks}}


def test_what_is_begun_is_what_later_commands_read(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    wish = planned(STUDY, [workspace.config])
    assert not workspace.results.exists(), "planning writes nothing"
    begin(wish)
    read = recorded_plan(workspace.results)
    assert [cell.id for cell in read.cells] == [cell.id for cell in wish.cells]
    assert [shard.id for shard in read.shards] == [shard.id for shard in wish.shards]
    assert read.new_shards == ()
    assert len(read.cells) == CELLS
    assert len(read.shards) == SHARDS
    # From anywhere: data files are found relative to what was recorded.
    monkeypatch.chdir("/")
    assert [cell.id for cell in recorded_plan(workspace.results).cells] == [cell.id for cell in wish.cells]
    named = shards_named(workspace.results, [shard.id for shard in wish.shards])
    assert [shard.id for shard in named] == [shard.id for shard in wish.shards]
    for shard in named:
        for cell in shard.cells:
            assert not cell.fingerprint or cell.task.fingerprint == cell.fingerprint


def test_nothing_recorded_depends_on_where_the_checkout_is(workspace: Workspace) -> None:
    begin(planned(STUDY, [workspace.config]))
    for path in workspace.results.iterdir():
        if path.is_file():
            assert str(workspace.folder) not in path.read_text()


def test_a_config_outside_the_working_directory(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = new(tmp_path_factory.mktemp("elsewhere"))
    (workspace.config.parent / "points.csv").unlink()
    begin(planned(STUDY, [elsewhere.config]))
    assert len(recorded_plan(workspace.results).cells) == CELLS


def test_a_plan_that_another_run_has_overtaken_is_refused(workspace: Workspace) -> None:
    """Its jobs would carry names of shards that will never be."""
    old, other = planned(changed(seeds=2), [workspace.config]), planned(changed(seeds=3), [workspace.config])
    freeze(other)
    before = (workspace.results / "manifest.jsonl").read_bytes()
    with pytest.raises(InputError, match="another run has added shards since this one was planned; start the same command again"):
        begin(old)
    assert (workspace.results / "manifest.jsonl").read_bytes() == before
    assert not (workspace.results / "study.json").exists()
    begin(planned(changed(seeds=2), [workspace.config]))


def test_a_cell_asked_for_twice_keeps_the_label_of_the_plan(workspace: Workspace) -> None:
    """The first experiment in the file names it, for the plan and for the jobs, which read what was recorded."""
    tracks = STUDY["experiments"]["tracks"]
    wish = planned(STUDY | {"experiments": {"zeta": tracks, "alpha": tracks | {"seeds": 3}}}, [workspace.config])
    begin(wish)
    label = {cell.id: cell.experiment for cell in wish.cells}
    assert {cell.id: cell.experiment for cell in recorded_plan(workspace.results).cells} == label
    assert sorted(label.values()) == ["alpha"] * 4 + ["zeta"] * 8


def test_settings_are_recorded_with_their_values(workspace: Workspace) -> None:
    begin(planned(STUDY | {"analysis": {"rho": 0.4}}, [workspace.config]))
    assert recorded_study(workspace.results).analysis.rho == 0.4
    written = json.loads((workspace.results / "study.json").read_text())
    assert written["analysis"]["confidence"] == recorded_study(workspace.results).analysis.confidence


def test_a_job_of_many_shards_reads_manifest_and_plan_once(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of data files need the plan, which costs seconds in a large study."""
    study = STUDY | {"engine": {"minutes_per_job": 1e-9, "lane_width": 1}}
    study = study | {"experiments": {"table": STUDY["experiments"]["table"] | {"seeds": 6}}}
    wish = begin(planned(study, [workspace.config]))
    assert len(wish.shards) == 6
    calls = []

    def counted(results: Path) -> Any:
        calls.append(results)
        return recorded_plan(results)

    monkeypatch.setattr(run, "recorded_plan", counted)
    names = [shard.id for shard in wish.shards]
    assert [shard.id for shard in shards_named(workspace.results, names)] == names
    assert len(calls) == 1
    with pytest.raises(InputError, match="no shard ffff"):
        shards_named(workspace.results, [wish.shards[0].id, "ffff"])


def test_jobs_that_share_shards_lock_each_one(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """However shards are cut into jobs, no two processes write one file at a time."""
    wish = begin(planned(STUDY, [workspace.config]))
    monkeypatch.setattr(run, "prepare_worker", lambda: None)
    held: dict[str, list[str]] = {}

    def write(path: Path, *_: Any) -> None:
        names = [shard.id for shard in wish.shards]
        held[path.name.split(".")[0]] = [name for name in names if running_since(wish.layout, f"theory-{name}") is not None]

    monkeypatch.setattr(run, "write_shard", write)
    predict_shards(workspace.results, wish.shards)
    assert held == {shard.id: [shard.id] for shard in wish.shards}
