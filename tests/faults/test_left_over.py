"""What a kill leaves besides half-done work goes with the next command."""

from __future__ import annotations

from pathlib import Path

import pytest

from nqf_pipeline.stages import locks
from nqf_pipeline.store.atomic import remove, write_bytes
from nqf_pipeline.study.layout import Layout
from tests.faults.operations import plan_cells, planned, skip_a_shard, train_a_shard


def test_a_kill_between_the_shard_and_the_end_of_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_runs", {})
    results = tmp_path / "small"
    plan_cells(results, 1)
    layout, shard = Layout(results), planned(results)[0]
    train_a_shard(results)
    whole = layout.shard(shard.id).read_bytes()
    stopped = layout.stopped(shard.id)
    for path in (layout.attempts(shard.id), stopped, stopped.with_name(f".{stopped.name}.tmp")):
        write_bytes(path, b"process 1 on a machine\n")
    train_a_shard(results)
    assert layout.shard(shard.id).read_bytes() == whole, "not trained again"
    assert not [*layout.attempts("").iterdir(), *stopped.parent.iterdir()]


def test_a_shard_is_skipped_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_runs", {})
    results = tmp_path / "small"
    plan_cells(results, 1)
    record = Layout(results).attempts(planned(results)[0].id)
    skip_a_shard(results)
    once = record.read_bytes()
    skip_a_shard(results)
    assert record.read_bytes() == once


def test_a_file_is_removed_with_its_half_written_successor(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    (tmp_path / ".file.tmp").write_bytes(b"ne")
    remove(path)
    remove(path)
    assert not [*tmp_path.iterdir()]
