"""Every file of a study, damaged in many ways: what is read equals the truth, or a message names the file and the way out."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nqf_pipeline.stages.run import recorded_study
from nqf_pipeline.store.open import open_study
from nqf_pipeline.store.query import query
from nqf_pipeline.store.shards import read_record, read_shard
from nqf_pipeline.store.tables import read_table
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.manifest import read_manifest
from tests.faults.damage import Damage, damages
from tests.faults.ledger import ledger, told
from tests.workflow.runs import Workspace

Read = Callable[[Path], Any]
"""From a results folder to something that can be compared."""


def chosen(results: Path) -> str:
    """The same shard every time, whatever is damaged: locks are named after shards."""
    return min(path.name for path in (results / "running").iterdir() if len(path.name) == 16)


def shard_contents(folder: str) -> Read:
    def read(results: Path) -> Any:
        path = results / folder / f"{chosen(results)}.zarr.zip"
        record, dataset = read_record(path), read_shard(path)
        return record.model_dump_json(), dataset.to_dict()

    return read


def manifest_shards(results: Path) -> list[Any]:
    return [(shard.id, [cell.id for cell in shard.cells]) for shard in read_manifest(Layout(results).manifest, results.name).shards]


def arrays(verify: bool) -> Read:
    def read(results: Path) -> Any:
        study = open_study(results, verify=verify)
        return {name: node.to_dataset().load().to_dict() for name, node in study.trajectories.children.items()}, study.trajectories.attrs

    return read


def table(name: str) -> Read:
    return lambda results: read_table(results, name).to_csv()


def queried(results: Path) -> str:
    return query(results, "plateaus", where="mode > 0").to_csv()


def largest_chunk(results: Path) -> Path:
    return max((results / "trajectories.zarr").rglob("c.*"), key=lambda path: (path.stat().st_size, path.name))


def of_shard(folder: str, ending: str) -> Callable[[Path], Path]:
    return lambda results: results / folder / f"{chosen(results)}{ending}"


FILES: dict[str, tuple[Callable[[Path], Path], Read]] = {
    "shard": (of_shard("shards", ".zarr.zip"), shard_contents("shards")),
    "summary of a shard": (of_shard("shards", ".json"), shard_contents("shards")),
    "predictions": (of_shard("theory", ".zarr.zip"), shard_contents("theory")),
    "summary of predictions": (of_shard("theory", ".json"), shard_contents("theory")),
    "manifest": (lambda results: results / "manifest.jsonl", manifest_shards),
    "config of the run": (lambda results: results / "study.json", lambda results: recorded_study(results).as_given()),
    "listing of the store": (lambda results: results / "trajectories.json", arrays(verify=True)),
    "metadata of the store": (lambda results: results / "trajectories.zarr" / "zarr.json", arrays(verify=False)),
    "array of the store": (largest_chunk, arrays(verify=True)),
    "table of cells": (lambda results: results / "cells.parquet", table("cells")),
    "table of plateaus": (lambda results: results / "plateaus.parquet", queried),
}


def equal(kind: str, found: Any, truth: Any) -> bool:
    """Lines that a manifest lost at its end are no lie: their shards are formed again, under the same names."""
    return repr(found) == repr(truth[: len(found)] if kind == "manifest" else truth)


@pytest.fixture(scope="module")
def workspace(finished: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return finished.copy(tmp_path_factory.mktemp("damaged"))


def trial(workspace: Workspace, kind: str, path: Path, left: bytes | None, truth: Any) -> str:
    whole = path.read_bytes()
    names = (path.name, path.name.split(".")[0], "trajectories.json")
    try:
        if left is None:
            path.unlink()
        else:
            path.write_bytes(left)
        with told(*names) as said:
            found = FILES[kind][1](workspace.results)
            assert equal(kind, found, truth), f"{path.name}: something else than the truth was read without a word"
        lines_lost = kind == "manifest" and not said and len(found) < len(truth)
        return "noticed" if said else "the lines lost are planned again" if lines_lost else "read as it was"
    finally:
        path.write_bytes(whole)


def inject(workspace: Workspace, kind: str, flips: int) -> None:
    path = FILES[kind][0](workspace.results)
    truth = FILES[kind][1](workspace.results)
    with ledger() as book:
        for what, seed, left in _all(path.read_bytes(), flips, kind):
            book.judge(what, kind, lambda left=left: trial(workspace, kind, path, left, truth), seed)  # type: ignore[misc]


def _all(data: bytes, flips: int, kind: str) -> list[Damage]:
    return list(damages(data, flips, zlib.crc32(kind.encode())))


@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_file(workspace: Workspace, kind: str) -> None:
    inject(workspace, kind, 4)


@pytest.mark.faults
@pytest.mark.parametrize("kind", FILES)
def test_a_file_damaged_in_many_places(workspace: Workspace, kind: str) -> None:
    inject(workspace, kind, 40)
