"""Small studies of several buckets that grow, shrink and change their names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nqf_pipeline.store.carry import RECORD, list_files
from nqf_pipeline.store.merge import LISTING, STORE, merge
from nqf_pipeline.store.shards import Summary, shard_records, write_shard
from tests.store.datasets import Row, theory, training

ROOT = {"study": {"name": "tiny"}, "package_version": "0.1.0", "git_commit": "abc"}
PARTS = (LISTING, RECORD)
"""What a merge writes beside the store."""


def cell(bucket: str, seed: int, label: str = "main") -> Row:
    """A cell of a bucket."""
    return Row(f"{sum(map(ord, bucket)):08x}{seed:08x}", bucket, {"seed": seed, "sigma": 0.1 ** (1 + seed % 3), "experiment": label})


def write(results: Path, rows: Iterable[Row]) -> None:
    """One shard of results and one of predictions for the cells of each bucket that no shard holds yet."""
    rows = list(rows)
    held = {name for _, record in shard_records(results / "shards") for name in record.cells}
    for bucket in sorted({row.bucket for row in rows}):
        ids = [row.id for row in rows if row.bucket == bucket and row.id not in held]
        if ids:
            name = f"{ids[0]}_{len(ids)}.zarr.zip"
            write_shard(results / "shards" / name, training(ids), Summary(bucket=bucket, precision="float32"))
            write_shard(results / "theory" / name, theory(ids), Summary(bucket=bucket), "theory")


def started() -> list[Row]:
    """Two buckets."""
    return [cell(bucket, seed) for bucket in ("cnn_8", "mlp_8") for seed in range(2)]


def extended() -> list[Row]:
    """A new seed in one of them, and a new bucket."""
    return [*started(), cell("mlp_8", 2), cell("new_8", 0)]


def contents(results: Path) -> dict[str, object]:
    """The store and what is written beside it."""
    return {"store": list_files(results / STORE), **{name: (results / name).read_bytes() for name in PARTS}}


def from_nothing(results: Path, rows: list[Row], folder: Path) -> dict[str, object]:
    """What a merge of the same shards makes in a folder without a store."""
    folder.mkdir()
    for name in ("shards", "theory"):
        (folder / name).symlink_to(results / name)
    merge(folder, rows, ROOT)
    return contents(folder)
