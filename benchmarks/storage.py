"""The store: shards merged into one sharded zarr store, against one zarr store per cell."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
import xarray as xr

from benchmarks.rows import Row, cost_row, rate_row
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP
from nqf_pipeline.store.merge import merge
from nqf_pipeline.store.open import open_study
from nqf_pipeline.store.schema import CURVE, MODES, Status
from nqf_pipeline.store.shards import Summary, write_shard
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.tasks import Teacher

CELLS, PER_SHARD, MODE_COUNT = 256, 32, 4
CURVES = ("network_loss", "twin_loss", "network_test_loss", "twin_test_loss", "divergence")
STRENGTHS = ("network_mode", "twin_mode", "order_parameter")


def storage_rows(scratch: Path, repeats: int) -> list[Row]:
    """Writing (shards and merge, all synced to disk) and opening (lazily, then one loss of every cell)."""
    cells = [Cell(architecture=MLP(), task=Teacher(), optimizer=Optimizer(), sigma=0.01, seed=seed, steps=10_000) for seed in range(CELLS)]
    shards = [(part, trajectories(part)) for part in (cells[i : i + PER_SHARD] for i in range(0, CELLS, PER_SHARD))]
    megabytes = sum(dataset.nbytes for _, dataset in shards) / 1e6
    seconds: dict[str, list[float]] = {"write": [], "write_peer": [], "open": [], "open_peer": [], "disk": []}
    ours, peers = scratch / "store", scratch / "cells"
    for _ in range(repeats):
        for folder in (ours, peers):
            shutil.rmtree(folder, ignore_errors=True)
        seconds["write"].append(timed(lambda: _write(ours, shards)))
        seconds["write_peer"].append(timed(lambda: _write_each(peers, shards)))
        written = [path.read_bytes() for path in ours.rglob("*") if path.is_file()]
        seconds["disk"].append(timed(partial(_write_bytes, scratch / "disk", written)))
        seconds["open"].append(timed(lambda: _open(ours)))
        seconds["open_peer"].append(timed(lambda: _open_each(peers)))
    files = {folder: sum(path.is_file() for path in folder.rglob("*")) for folder in (ours, peers)}
    rates = {name: [megabytes / s for s in seconds[name]] for name in ("write", "write_peer")}
    times = {name: [1e3 * s for s in seconds[name]] for name in ("open", "open_peer")}
    note = f"{megabytes:.0f} MB, {CELLS} cells; {files[ours]} files with the shards, peer {files[peers]}"
    disk = min(seconds["disk"]) / min(seconds["write"])
    limits = (
        f"the disk: the same files as plain bytes, each synced, take {disk:.0%} of the time; compression, checksums and checks the rest"
    )
    return [
        rate_row("store_write", rates["write"], "one zarr store per cell", rates["write_peer"], "MB/s", note=note, limits=limits),
        cost_row(
            "store_open", times["open"], "open_mfdataset of these", times["open_peer"], "ms", note="open, then one loss of every cell"
        ),
    ]


def trajectories(cells: list[Cell]) -> xr.Dataset:
    """Smooth curves in the schema of a training shard."""
    rng = np.random.default_rng(len(cells))
    steps = cells[0].step_grid()
    decay = np.exp(-np.outer(rng.random(len(cells)), steps / steps[-1]))
    modes = decay[..., None] * rng.random((len(cells), 1, MODE_COUNT))
    return xr.Dataset(
        {
            **{name: (CURVE, decay * (1 + i)) for i, name in enumerate(CURVES)},
            **{name: (MODES, modes * (1 + i)) for i, name in enumerate(STRENGTHS)},
            "step_number": (CURVE, np.tile(steps, (len(cells), 1))),
            "time": (CURVE, np.tile(0.02 * steps, (len(cells), 1))),
            "mode_number": (("cell", "mode"), np.tile(np.arange(1, MODE_COUNT + 1), (len(cells), 1))),
            "mode_target": (("cell", "mode"), np.ones((len(cells), MODE_COUNT))),
            "loss_floor": ("cell", np.zeros(len(cells))),
            "status": ("cell", np.full(len(cells), Status.done, np.int8)),
            "diverged_step": ("cell", np.full(len(cells), -1)),
        },
        coords={"cell": [cell.id for cell in cells]},
    )


def timed(work: Callable[[], object]) -> float:
    """Seconds of wall time."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _write(folder: Path, shards: list[tuple[list[Cell], xr.Dataset]]) -> None:
    write_shards(folder, shards)
    merge(folder, [cell for cells, _ in shards for cell in cells], {})


def write_shards(folder: Path, shards: Iterable[tuple[list[Cell], xr.Dataset]], first: int = 0) -> None:
    """One file a shard, numbered from `first`."""
    layout = Layout(folder)
    for number, (cells, dataset) in enumerate(shards, first):
        path = layout.shard(f"{number:016x}")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_shard(path, dataset, Summary(bucket=cells[0].bucket))


def _write_bytes(folder: Path, contents: list[bytes]) -> None:
    folder.mkdir(exist_ok=True)
    for number, data in enumerate(contents):
        with (folder / str(number)).open("wb") as file:
            file.write(data)
            os.fsync(file.fileno())


def _write_each(folder: Path, shards: list[tuple[list[Cell], xr.Dataset]]) -> None:
    for _, dataset in shards:
        for position, cell in enumerate(dataset["cell"].to_numpy()):
            dataset.isel(cell=[position]).drop_vars("cell").to_zarr(folder / f"{cell}.zarr", consolidated=False)


def _open(folder: Path) -> None:
    for node in open_study(folder).trajectories.children.values():
        node["network_loss"].load()


def _open_each(folder: Path) -> None:
    paths = sorted(folder.glob("*.zarr"))
    with xr.open_mfdataset(paths, engine="zarr", combine="nested", concat_dim="cell", consolidated=False) as dataset:
        dataset["network_loss"].load()
