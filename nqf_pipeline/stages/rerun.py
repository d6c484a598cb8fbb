"""Replay one cell alone, to debug it and to see what its lane companions changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nqf_pipeline.errors import InputError
from nqf_pipeline.stages.cores import enable_double_precision, flag_early, prepare_worker
from nqf_pipeline.stages.run import relocated
from nqf_pipeline.store.schema import Status
from nqf_pipeline.store.shards import read_shard
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.manifest import read_manifest
from nqf_pipeline.study.shards import Shard

COMPARED = ("network_loss", "twin_loss", "network_mode", "twin_mode")


def rerun_cell(results: Path, cell_id: str) -> dict[str, Any]:
    """Trains one cell by itself (lane width 1). Returns its ends, and the largest difference from the stored run where there is one."""
    flag_early()
    cell, shard = find_cell(results, cell_id)
    if not cell.trained:
        raise InputError(f"cell {cell.id} is only predicted (`train: nothing`), so there is nothing to train again")
    prepare_worker()
    enable_double_precision()
    from nqf_pipeline.stages.train import Stopwatch, run_cells

    watch = Stopwatch()
    alone = run_cells([cell], 1, watch).isel(cell=0)
    found: dict[str, Any] = {
        "cell": cell.id,
        "bucket": cell.bucket,
        "status": Status(int(alone["status"])).name,
        "diverged_step": int(alone["diverged_step"]),
        "steps": cell.steps,
        "network_loss": float(alone["network_loss"][-1]),
        "twin_loss": float(alone["twin_loss"][-1]),
        "seconds": round(sum(watch.seconds.values()), 3),
    }
    path = Layout(Path(results)).shard(shard.id)
    if path.exists():
        stored = read_shard(path).sel(cell=cell.id)
        for name in COMPARED:
            with np.errstate(invalid="ignore"):
                gap = np.abs(alone[name].values - stored[name].values)
            found[f"largest_difference_{name}"] = float(np.nanmax(gap)) if np.isfinite(gap).any() else float("nan")
    return found


def find_cell(results: Path, cell_id: str) -> tuple[Cell, Shard]:
    """The cell whose id begins so, with its shard."""
    layout = Layout(Path(results))
    shards = read_manifest(layout.manifest, layout.root.name).shards
    found = [(position, shard) for shard in shards for position, cell in enumerate(shard.cells) if cell.id.startswith(cell_id)]
    if len(found) != 1:
        what = f"{len(found)} cells begin" if found else "no cell begins"
        raise InputError(
            f"{layout.manifest}: {what} with {cell_id!r}; `nqf query {results} cells --columns cell,architecture,sigma,seed` lists them"
        )
    ((position, shard),) = found
    (moved,) = relocated(results, [shard])
    return moved.cells[position], shard
