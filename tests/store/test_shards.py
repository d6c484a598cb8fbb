"""A shard is whole with its summary, or it does not count."""

from __future__ import annotations

import errno
import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

from nqf_pipeline.errors import InputError
from nqf_pipeline.store import atomic
from nqf_pipeline.store.schema import SchemaError, Status
from nqf_pipeline.store.shards import ShardError, Summary, read_record, read_shard, shard_records, summary_path, write_shard
from tests.store.datasets import theory, training

SUMMARY = Summary(bucket="b", timings={"run": 1.5}, device="cpu", precision="float32", threads=1, lane_width=8)


@pytest.fixture
def shard(tmp_path: Path, cells: list[str]) -> Path:
    path = tmp_path / "shards" / "abc.zarr.zip"
    write_shard(path, training(cells), SUMMARY)
    return path


def test_round_trip_keeps_every_value_and_widens_to_the_schema(tmp_path: Path, cells: list[str]) -> None:
    written = training(cells, dtype="float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_shard(tmp_path / "a.zarr.zip", written, SUMMARY)
        read = read_shard(tmp_path / "a.zarr.zip")
    for name in written.data_vars:
        np.testing.assert_array_equal(*np.broadcast_arrays(read[name].values, written[name].values))
    assert read["network_mode"].dtype == np.float64
    assert read["mode_number"].dims == ("cell", "mode")
    assert read["status"].dtype == np.int8
    assert list(read["cell"].values) == cells
    assert read["status"].attrs["flag_meanings"] == "missing done diverged timed_out killed not_predicted"


def test_summary_names_cells_status_and_checksum(shard: Path, cells: list[str]) -> None:
    record = read_record(shard)
    assert record.cells == dict.fromkeys(cells, "done")
    assert record.bytes == shard.stat().st_size
    assert record.timings == {"run": 1.5}
    assert record.kind == "training"
    assert [path for path, _ in shard_records(shard.parent)] == [shard]


def test_same_arrays_give_the_same_bytes(tmp_path: Path, cells: list[str]) -> None:
    first = write_shard(tmp_path / "a.zarr.zip", training(cells), SUMMARY)
    second = write_shard(tmp_path / "b.zarr.zip", training(cells), SUMMARY)
    assert first.sha256 == second.sha256


def test_a_shard_is_an_ordinary_zarr_zip(shard: Path) -> None:
    with zarr.storage.ZipStore(shard, mode="r") as store, xr.open_zarr(store, consolidated=False, chunks=None) as opened:
        np.testing.assert_array_equal(opened["network_loss"].values, read_shard(shard)["network_loss"].values)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_truncated_shard_is_named_with_the_way_out(shard: Path, share: float) -> None:
    data = shard.read_bytes()
    shard.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ShardError, match=r"abc\.zarr\.zip.*truncated.*delete.*finished work is untouched"):
        read_shard(shard)


def test_flipped_bit_is_found(shard: Path) -> None:
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(bytes(data))
    with pytest.raises(ShardError, match="checksum"):
        read_shard(shard)


def test_absent_shard_and_absent_summary(shard: Path) -> None:
    summary = summary_path(shard).read_bytes()
    shard_bytes = shard.read_bytes()
    shard.unlink()
    with pytest.raises(ShardError, match="absent although its summary exists"):
        read_shard(shard)
    shard.write_bytes(shard_bytes)
    summary_path(shard).unlink()
    with pytest.raises(ShardError, match="never finished"):
        read_shard(shard)
    summary_path(shard).write_bytes(summary[:40])
    with pytest.raises(ShardError, match=r"summary abc\.json is damaged"):
        read_shard(shard)


def test_shard_of_another_schema_version(shard: Path) -> None:
    values = json.loads(summary_path(shard).read_text())
    summary_path(shard).write_text(json.dumps({**values, "schema_version": 0}))
    with pytest.raises(ShardError, match="schema version 0"):
        read_shard(shard)


def test_full_disk_leaves_no_half_file_and_the_old_shard(shard: Path, cells: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = shard.read_bytes()

    def full(path: Path, data: bytes) -> None:
        path.write_bytes(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(atomic, "_write", full)
    with pytest.raises(InputError, match=r"abc\.zarr\.zip: no space left"):
        write_shard(shard, training(cells), SUMMARY)
    assert shard.read_bytes() == before
    assert [file.name for file in shard.parent.iterdir()] == ["abc.zarr.zip"]  # no summary vouches for a rewrite that failed


def test_wrong_arrays_are_reported_all_at_once(tmp_path: Path, cells: list[str]) -> None:
    wrong = training(cells).drop_vars("twin_loss").rename(network_loss="netwrok_loss")
    wrong["status"] = ("cell", np.full(len(cells), 9, "int8"))
    wrong["time"] = wrong["time"].astype(object)
    with pytest.raises(SchemaError) as caught:
        write_shard(tmp_path / "a.zarr.zip", wrong, SUMMARY)
    message = str(caught.value)
    for part in (
        "twin_loss: is absent",
        "did you mean `network_loss`?",
        "status: has an unknown value",
        "time: has the wrong dtype",
        "a.zarr.zip",
    ):
        assert part in message
    assert not list(tmp_path.iterdir())


def test_theory_shard(tmp_path: Path, cells: list[str]) -> None:
    path = tmp_path / "t.zarr.zip"
    write_shard(path, theory(cells), Summary(bucket="b"), kind="theory")
    read = read_shard(path)
    assert read["theory_ignition"].dims == ("tier", "cell", "mode")
    assert list(read["regime"].values) == ["whitened_feedforward"] * 4
    with pytest.raises(SchemaError, match="regime: is absent"):
        write_shard(path, theory(cells).drop_vars("regime"), Summary(bucket="b"), kind="theory")


def test_every_status_has_a_remedy() -> None:
    assert all(len(status.remedy) > 5 for status in Status)
