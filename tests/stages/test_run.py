"""What fixes a plan before the first job, and what later commands read of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nqf_pipeline.errors import InputError
from nqf_pipeline.stages import locks
from nqf_pipeline.stages.run import begin, planned, recorded_plan, recorded_study, shard_named
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
    for shard in wish.shards:
        for cell in shard_named(workspace.results, shard.id).cells:
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
