"""A study that changes: what is merged anew, and that the store is the one of a merge from nothing, byte for byte."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from nqf_pipeline.errors import InputError
from nqf_pipeline.store import bucket as bucket_module
from nqf_pipeline.store import encoding
from nqf_pipeline.store.carry import RECORD, list_files
from nqf_pipeline.store.merge import STORE, merge
from nqf_pipeline.store.open import open_study
from nqf_pipeline.store.schema import Status
from nqf_pipeline.store.shards import Summary, write_shard
from tests.store.datasets import Row, theory, training
from tests.store.studies import ROOT, cell, contents, extended, from_nothing, started, write


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write(tmp_path / "results", started())
    merge(tmp_path / "results", started(), ROOT)
    return tmp_path / "results"


def inodes(folder: Path) -> dict[str, int]:
    return {file.relative_to(folder).as_posix(): file.stat().st_ino for file in folder.rglob("*") if file.is_file()}


def test_only_buckets_that_changed_are_written(results: Path, tmp_path: Path) -> None:
    before, shards = inodes(results / STORE), list_files(results / "shards")
    write(results, extended())
    assert merge(results, extended(), ROOT).carried_over == 1
    after = inodes(results / STORE)
    same = {name for name in before if after.get(name) == before[name]}
    assert same == {name for name in before if name.startswith("cnn_8/")}
    assert {name: entry for name, entry in list_files(results / "shards").items() if name in shards} == shards
    assert contents(results) == from_nothing(results, extended(), tmp_path / "nothing")
    open_study(results, verify=True)


def test_old_cells_keep_their_bits(results: Path) -> None:
    old = open_study(results).trajectories["mlp_8"].to_dataset().load()
    write(results, extended())
    merge(results, extended(), ROOT)
    new = open_study(results).trajectories["mlp_8"].to_dataset().load().sel(cell=old["cell"].values)
    for name, array in old.variables.items():
        assert new.variables[name].values.tobytes() == array.values.tobytes() or array.dtype.kind not in "fiu", name


@pytest.mark.parametrize("record", [None, "", "{", '{"buckets": {"cnn_8": 3}}', "\xff"])
def test_without_a_record_all_is_written(results: Path, record: str | None) -> None:
    before = contents(results)
    (results / RECORD).unlink()
    if record is not None:
        (results / RECORD).write_text(record, encoding="latin-1")
    assert merge(results, started(), ROOT).carried_over == 0
    assert contents(results) == before


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "add"])
def test_a_damaged_bucket_is_written_anew(results: Path, damage: str) -> None:
    before = contents(results)
    file = results / STORE / "cnn_8/network_mode/c.0.0.0"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 8
    if damage == "remove":
        file.unlink()
    else:
        target = file.with_name("more") if damage == "add" else file
        target.write_bytes(data[:20] if damage == "truncate" else data)
    assert merge(results, started(), ROOT).carried_over == 1
    assert contents(results) == before


def test_a_damaged_shard_is_found_although_its_bucket_did_not_change(results: Path) -> None:
    path = next((results / "shards").glob("*.zip"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(InputError, match="checksum differs"):
        merge(results, started(), ROOT)


def test_other_programs_write_anew(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "CHUNK_BYTES", 2**21)
    assert merge(results, started(), ROOT).carried_over == 0


def test_where_files_cannot_be_linked_they_are_copied(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: object) -> None:
        raise OSError(1, "Operation not permitted")

    before = contents(results)
    monkeypatch.setattr(os, "link", refuse)
    assert merge(results, started(), ROOT).carried_over == 2
    assert contents(results) == before


@pytest.mark.parametrize("part", [1, 2000, 10**6])
def test_the_size_of_parts_changes_nothing(tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets larger than memory are written in parts along `cell`."""
    monkeypatch.setattr(encoding, "CHUNK_BYTES", 400)
    monkeypatch.setattr(encoding, "SHARD_BYTES", 1000)
    rows = [cell("mlp_8", seed) for seed in range(30)]
    write(tmp_path / "whole", rows[::2])
    write(tmp_path / "whole", rows)
    merge(tmp_path / "whole", rows, ROOT)
    monkeypatch.setattr(bucket_module, "PART_BYTES", part)
    assert from_nothing(tmp_path / "whole", rows, tmp_path / "parts")["store"] == list_files(tmp_path / "whole" / STORE)
    assert len(list((tmp_path / "parts" / STORE / "mlp_8/network_mode").glob("c.*"))) == 3
    node = open_study(tmp_path / "parts").trajectories["mlp_8"].to_dataset()
    for row in rows:
        np.testing.assert_array_equal(node["network_mode"].sel(cell=row.id), training([row.id])["network_mode"][0])


def test_cells_that_are_only_predicted_have_what_theory_says(tmp_path: Path) -> None:
    """Beside trained cells of the same bucket, which have the last word on their own."""
    rows = [cell("mlp_8", 0), Row(**{**vars(cell("mlp_8", 1)), "trained": False})]
    ids = [row.id for row in rows]
    said = theory(ids).assign(status=("cell", np.array([Status.not_predicted, Status.done], "int8")), loss_floor=("cell", [7.0, 8.0]))
    measured = training(ids[:1]).assign(loss_floor=("cell", [0.5]))
    write_shard(tmp_path / "shards/a.zarr.zip", measured, Summary(bucket="mlp_8"))
    write_shard(tmp_path / "theory/a.zarr.zip", said, Summary(bucket="mlp_8"), "theory")
    assert merge(tmp_path, rows, ROOT).missing == 0
    node = open_study(tmp_path).trajectories["mlp_8"].to_dataset().load()
    assert [node["status"].sel(cell=name).item() for name in ids] == [Status.done, Status.done]
    assert [node["loss_floor"].sel(cell=name).item() for name in ids] == [0.5, 8.0]
    assert np.isnan(node["network_mode"].sel(cell=ids[1])).all()
