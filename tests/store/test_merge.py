"""Merging is deterministic, complete or refused, and readable with plain xarray."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import nqf_pipeline
from nqf_pipeline.errors import InputError
from nqf_pipeline.store.carry import RECORD, list_files
from nqf_pipeline.store.merge import LISTING, STORE, MergeError, MergeReport, MissingCellsError, merge
from nqf_pipeline.store.open import OpenError, open_study
from nqf_pipeline.store.schema import Status
from nqf_pipeline.store.shards import Summary, write_shard
from tests.store.datasets import Row, theory, training

ROOT = {"study": {"name": "tiny"}, "package_version": "0.1.0", "git_commit": "abc"}


def rows(cells: list[str], bucket: str = "mlp_64", **extra: Any) -> list[Row]:
    return [Row(cell, bucket, {"seed": k % 2, "sigma": 0.1 ** (1 + k // 2), **extra}) for k, cell in enumerate(cells)]


def write(results: Path, cells: list[str], bucket: str = "mlp_64", shuffle: int = 0, modes: int = 2) -> None:
    """Two shards of training and one of theory for the first half."""
    mixed = random.Random(shuffle).sample(cells, len(cells))
    summary = Summary(bucket=bucket, device="cpu", precision="float32", threads=1, lane_width=8, versions={"jax": "1"})
    for number, part in enumerate((mixed[:1], mixed[1:])):
        write_shard(results / f"shards/{bucket}{shuffle}{number}.zarr.zip", training(part, modes), summary)
    write_shard(results / f"theory/{bucket}{shuffle}.zarr.zip", theory(sorted(cells)[:2], modes), Summary(bucket=bucket), kind="theory")


@pytest.fixture
def results(tmp_path: Path, cells: list[str]) -> Path:
    write(tmp_path, cells)
    merge(tmp_path, rows(cells), ROOT)
    return tmp_path


def test_values_reach_the_right_cell(results: Path, cells: list[str]) -> None:
    node = open_study(results).trajectories["mlp_64"]
    for cell in cells:
        row = node.dataset.sel(cell=cell)
        np.testing.assert_array_equal(row["network_mode"].values, training([cell])["network_mode"].values[0])
        assert float(row["sigma"]) == rows(cells)[cells.index(cell)].coordinates()["sigma"]
    predicted = theory(sorted(cells)[:2])
    for cell in sorted(cells)[:2]:
        np.testing.assert_array_equal(node.dataset.sel(cell=cell)["theory_ignition"], predicted["theory_ignition"].sel(cell=cell))
    assert np.isnan(node.dataset.sel(cell=sorted(cells)[2:])["theory_loss"].values).all()
    assert sorted(set(node["regime"].values.tolist())) == ["unknown", "whitened_feedforward"]


def test_same_bytes_whatever_the_shards_and_their_order(tmp_path: Path, cells: list[str]) -> None:
    stores = []
    for shuffle in (1, 2):
        results = tmp_path / str(shuffle)
        write(results, cells, shuffle=shuffle)
        write(results, [f"{k:016x}" for k in range(20, 24)], bucket="cnn_64", shuffle=shuffle)
        wanted = rows(cells) + rows([f"{k:016x}" for k in range(20, 24)], bucket="cnn_64")
        merge(results, random.Random(shuffle).sample(wanted, len(wanted)), ROOT)
        stores.append(list_files(results / STORE))
    assert stores[0] == stores[1]


@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_any_split_into_shards_gives_the_same_store(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    cells = [f"{k:016x}" for k in range(9)]
    order = data.draw(st.permutations(cells))
    cuts = sorted(data.draw(st.sets(st.integers(1, 8), max_size=4)))
    results = tmp_path_factory.mktemp("split")
    for start, end in zip([0, *cuts], [*cuts, 9], strict=True):
        write_shard(results / f"shards/{order[start]}.zarr.zip", training(order[start:end]), Summary(bucket="b"))
    merge(results, rows(cells, "b"), ROOT)
    whole = tmp_path_factory.mktemp("whole")
    write_shard(whole / "shards/a.zarr.zip", training(cells), Summary(bucket="b"))
    merge(whole, rows(cells, "b"), ROOT)
    assert list_files(results / STORE) == list_files(whole / STORE)


def test_cells_of_one_bucket_may_have_different_tiers(tmp_path: Path, cells: list[str]) -> None:
    write_shard(tmp_path / "shards/a.zarr.zip", training(cells), Summary(bucket="mlp_64"))
    halves = {"a": theory(cells[:2]), "b": theory(cells[2:]).isel(tier=[0]).assign_coords(tier=["event"])}
    for name, part in halves.items():
        write_shard(tmp_path / f"theory/{name}.zarr.zip", part, Summary(bucket="mlp_64"), kind="theory")
    merge(tmp_path, rows(cells), ROOT)
    node = open_study(tmp_path).trajectories["mlp_64"].to_dataset()
    assert node["tier"].values.tolist() == ["asymptote", "event", "discrete"]
    for part in halves.values():
        own = node["theory_ignition"].sel(cell=part["cell"].values)
        np.testing.assert_array_equal(own.sel(tier=part["tier"].values), part["theory_ignition"])
        assert np.isnan(own.drop_sel(tier=part["tier"].values)).all()


def test_full_disk_keeps_the_old_store(results: Path, cells: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = list_files(results / STORE)

    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match=r"trajectories\.zarr: no space left"):
        merge(results, rows(cells), ROOT)
    assert list_files(results / STORE) == before
    assert open_study(results).trajectories["mlp_64"].sizes["cell"] == 4
    assert not (results / f".{STORE}.tmp").exists()


def test_plain_xarray_opens_it_without_a_warning(results: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = xr.open_datatree(results / STORE, engine="zarr")
    assert list(tree.children) == ["mlp_64"]
    assert tree["mlp_64"]["sigma"].dims == ("cell",)
    assert tree.attrs["study"] == {"name": "tiny"}
    assert tree.attrs["precision"] == ["float32"]
    assert tree["mlp_64"]["status"].dtype == np.int8
    assert {"sigma", "seed", "status", "learning_rate"} <= set(tree["mlp_64"].coords)


def test_metadata_in_one_place_are_those_that_zarr_puts_there(results: Path) -> None:
    written = json.loads((results / STORE / "zarr.json").read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(results / STORE, zarr_format=3)
    assert json.loads((results / STORE / "zarr.json").read_text()) == written


def test_trajectories_are_lazy(results: Path) -> None:
    data = nqf_pipeline.open_study(results).trajectories["mlp_64"]["network_loss"]
    assert data.chunks is not None


def test_cells_follow_their_coordinates(results: Path) -> None:
    node = open_study(results).trajectories["mlp_64"]
    order = list(zip(node["sigma"].values.tolist(), node["seed"].values.tolist(), strict=True))
    assert order == sorted(order)


def test_missing_cells_are_refused_unless_allowed(results: Path, cells: list[str]) -> None:
    wanted = rows([*cells, "f" * 16])
    before = list_files(results / STORE)
    with pytest.raises(MissingCellsError, match=r"1 of 5 cells have no finished shard: ffffffffffffffff \(mlp_64\)"):
        merge(results, wanted, ROOT)
    assert list_files(results / STORE) == before
    report = merge(results, wanted, ROOT, allow_partial=True)
    assert report == MergeReport(5, 1, 1, 3, report.files, report.bytes)
    with pytest.raises(MissingCellsError, match=r"1 cells have status `missing`, first ffffffffffffffff"):
        open_study(results)
    row = open_study(results, allow_partial=True).trajectories["mlp_64"].dataset.sel(cell="f" * 16).load()
    assert int(row["status"]) == Status.missing
    assert np.isnan(row["network_loss"].values).all()
    np.testing.assert_array_equal(row["step_number"], [0, 1, 3, 10, 30])
    assert float(row["learning_rate"]) == 0.1


def test_all_cells_of_a_bucket_missing(results: Path, cells: list[str]) -> None:
    merge(results, [*rows(cells), Row("e" * 16, "cnn_64")], ROOT, allow_partial=True)
    node = open_study(results, allow_partial=True).trajectories["cnn_64"]
    assert node["status"].values.tolist() == [Status.missing]


def test_theory_that_says_nothing_has_no_tier(tmp_path: Path, cells: list[str]) -> None:
    write_shard(tmp_path / "shards/a.zarr.zip", training(cells), Summary(bucket="mlp_64"))
    silent = theory(cells).isel(tier=[]).assign_coords(regime=("cell", np.array(["weights"] * 4, object)))
    write_shard(tmp_path / "theory/a.zarr.zip", silent, Summary(bucket="mlp_64"), kind="theory")
    merge(tmp_path, rows(cells), ROOT)
    node = open_study(tmp_path).trajectories["mlp_64"]
    assert "tier" not in node.dims
    assert set(node["regime"].values.tolist()) == {"weights"}


def test_fewer_cells_wanted_than_run(results: Path, cells: list[str]) -> None:
    merge(results, rows(cells)[:3], ROOT)
    assert open_study(results).trajectories["mlp_64"].sizes["cell"] == 3


def test_one_cell_in_two_shards(results: Path, cells: list[str]) -> None:
    write_shard(results / "shards/extra.zarr.zip", training(cells[:1]), Summary(bucket="mlp_64"))
    with pytest.raises(MergeError, match="in two shards"):
        merge(results, rows(cells), ROOT)


def test_all_shards_that_hold_the_same_cells_are_named_and_which_to_delete(tmp_path: Path, cells: list[str]) -> None:
    more = [f"{k:x}" * 16 for k in (12, 13)]
    for name, ids in {"old": cells, "left": cells[:2], "right": cells[2:], "lost": more, "new": more}.items():
        write_shard(tmp_path / f"shards/{name}.zarr.zip", training(ids), Summary(bucket="mlp_64"))
    wanted, shards = rows([*cells, *more]), tmp_path / "shards"
    with pytest.raises(MergeError) as raised:
        merge(tmp_path, wanted, ROOT, known={"left", "right", "new"})
    assert re.findall(r"delete (\S+) and (\w+\.json)", str(raised.value)) == [
        (f"{shards}/lost.zarr.zip", "lost.json"),
        (f"{shards}/old.zarr.zip", "old.json"),
    ]
    for known in ({"left", "right"}, {"old", "left", "right", "new"}, set()):
        with pytest.raises(MergeError, match="cannot be known: delete all but one") as raised:
            merge(tmp_path, wanted, ROOT, known=known)
        assert "shards/new.zarr.zip" in str(raised.value)
        assert "shards/old.zarr.zip" in str(raised.value)
    for name in ("old", "lost"):
        (shards / f"{name}.zarr.zip").unlink()
        (shards / f"{name}.json").unlink()
    merge(tmp_path, wanted, ROOT, allow_partial=True, known={"left", "right", "new"})


def test_shards_of_different_shapes(results: Path, cells: list[str]) -> None:
    write_shard(results / "shards/other.zarr.zip", training(["d" * 16], modes=3), Summary(bucket="mlp_64"))
    with pytest.raises(MergeError, match=r"3 entries along `mode`, 2 in other shards|2 entries along `mode`, 3 in other shards"):
        merge(results, rows([*cells, "d" * 16]), ROOT)


def test_attributes_must_be_strict_json(results: Path, cells: list[str]) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        merge(results, rows(cells), {**ROOT, "study": {"sigma": float("nan")}})
    assert not (results / f".{STORE}.tmp" / "mlp_64").exists()


def test_large_arrays_are_sharded_in_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nqf_pipeline.store import encoding

    monkeypatch.setattr(encoding, "CHUNK_BYTES", 800)
    monkeypatch.setattr(encoding, "SHARD_BYTES", 3000)
    cells = [f"{k:016x}" for k in range(100)]
    write_shard(tmp_path / "shards/a.zarr.zip", training(cells), Summary(bucket="b"))
    merge(tmp_path, rows(cells, "b"), ROOT)
    node = open_study(tmp_path).trajectories["b"]
    assert node["network_mode"].variable.chunksizes["cell"] == (8,) * 12 + (4,)
    assert node["network_loss"].variable.chunksizes["cell"] == (16,) * 6 + (4,), "chunks of one array lie within those of another"
    assert len(list((tmp_path / STORE / "b/network_mode").glob("c.*"))) == 4
    for cell in (cells[0], cells[57], cells[-1]):
        np.testing.assert_array_equal(node["network_mode"].sel(cell=cell), training([cell])["network_mode"][0])


def damage(store: Path, how: str) -> None:
    chunk = next(store.glob("mlp_64/network_loss/c.0.0"))
    if how == "truncate":
        chunk.write_bytes(chunk.read_bytes()[:-7])
    elif how == "remove":
        chunk.unlink()
    else:
        data = bytearray(chunk.read_bytes())
        data[len(data) // 2] ^= 4
        chunk.write_bytes(bytes(data))


@pytest.mark.parametrize(("how", "message"), [("truncate", "truncated or replaced"), ("remove", "absent although")])
def test_damaged_store_names_the_file_and_the_way_out(results: Path, how: str, message: str) -> None:
    damage(results / STORE, how)
    with pytest.raises(OpenError, match=rf"network_loss/c\.0\.0: {message}.*merges the finished shards without training"):
        open_study(results)


def test_a_flipped_bit_never_becomes_data(results: Path) -> None:
    damage(results / STORE, "flip")
    with pytest.raises(OpenError, match="checksum"):
        open_study(results, verify=True)
    with pytest.raises(ValueError, match="checksum"):
        open_study(results).trajectories["mlp_64"]["network_loss"].load()


@pytest.mark.parametrize(("version", "message"), [(0, "Older stores are not converted"), (99, "newer program"), (None, "did not write it")])
def test_other_schema_versions(results: Path, version: int | None, message: str) -> None:
    listing = json.loads((results / LISTING).read_text())
    (results / LISTING).write_text(json.dumps({**listing, "schema_version": version}))
    with pytest.raises(OpenError, match=message):
        open_study(results)


def test_folders_that_are_not_studies(results: Path, tmp_path: Path) -> None:
    cases = {
        tmp_path / "nowhere": "no such folder",
        results / STORE: "this is a zarr store",
        results / "shards": "not the results of a study",
    }
    for path, message in cases.items():
        with pytest.raises(InputError, match=message):
            open_study(path)
    (results / LISTING).unlink()
    with pytest.raises(OpenError, match="merge was not finished"):
        open_study(results)
    shutil.rmtree(results / STORE)
    with pytest.raises(OpenError, match="not merged yet"):
        open_study(results)


def test_a_killed_merge_is_cleaned_up_by_the_next(results: Path, cells: list[str]) -> None:
    before = list_files(results / STORE)
    for leftover in (f".{STORE}.tmp", f".{STORE}.old"):
        shutil.copytree(results / STORE, results / leftover)
    merge(results, rows(cells), ROOT)
    assert list_files(results / STORE) == before
    assert sorted(path.name for path in results.iterdir()) == [RECORD, "shards", "theory", LISTING, STORE]


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        ((None,) * 4, "squared error: mean"),
        (("squared_error",) * 4, "squared error: mean"),
        (("logistic",) * 4, "logistic: mean"),
        (
            ("softmax_cross_entropy", "softmax_cross_entropy", None, None),
            "squared error: .*; softmax cross-entropy: mean",
        ),
    ],
)
def test_the_store_says_which_losses_its_curves_are(tmp_path: Path, cells: list[str], losses: tuple[str | None, ...], says: str) -> None:
    for bucket, part in (("mlp_64", slice(0, 2)), ("mlp_65", slice(2, 4))):
        write_shard(tmp_path / f"shards/{bucket}.zarr.zip", training(sorted(cells[part])), Summary(bucket=bucket))
    named = [
        Row(cell, f"mlp_{64 + k // 2}", {} if loss is None else {"loss": loss})
        for k, (cell, loss) in enumerate(zip(cells, losses, strict=True))
    ]
    merge(tmp_path, named, ROOT)
    found = open_study(tmp_path).trajectories.attrs["loss_convention"]
    assert re.match(says, found)
    assert ("squared" in found) == (None in losses or "squared_error" in losses)


def test_accuracy_is_there_where_it_was_measured(tmp_path: Path, cells: list[str]) -> None:
    """Shards of one bucket from before and after accuracy was recorded."""
    with_labels = training(cells[2:]).assign(network_test_accuracy=(("cell", "step"), np.full((2, 5), 0.9)))
    for name, data in (("old", training(cells[:2])), ("new", with_labels)):
        write_shard(tmp_path / f"shards/{name}.zarr.zip", data, Summary(bucket="mlp_64"))
    merge(tmp_path, rows(cells), ROOT)
    found = open_study(tmp_path).trajectories["mlp_64"].dataset
    for cell in cells:
        values = found.sel(cell=cell)["network_test_accuracy"].values
        np.testing.assert_array_equal(values, 0.9 if cell in cells[2:] else np.nan)
    assert "twin_test_accuracy" not in found


def test_the_store_says_which_versions_predicted_it(tmp_path: Path, cells: list[str]) -> None:
    """An extension renews only the predictions of shards that share a job with new ones."""
    write(tmp_path, cells)
    for number, commit in enumerate(("new", "old")):
        part, summary = cells[number : number + 1], Summary(bucket="mlp_64", versions={"jax": "1", "commit": commit})
        write_shard(tmp_path / f"theory/more{number}.zarr.zip", theory(part, 2), summary, kind="theory")
    (tmp_path / "theory" / "mlp_640.json").unlink()
    write_shard(
        tmp_path / "theory/other.zarr.zip",
        theory([f"{99:016x}"], 2),
        Summary(bucket="mlp_64", versions={"commit": "unused"}),
        kind="theory",
    )
    merge(tmp_path, rows(cells), ROOT)
    attributes = open_study(tmp_path).trajectories.attrs
    assert attributes["theory_versions"] == {"commit": ["new", "old"], "jax": ["1"]}
    assert attributes["versions"] == {"jax": ["1"]}
