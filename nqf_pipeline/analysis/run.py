"""The analysis of a study: every table from the merged store, one batch of cells at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from pandas.api.types import infer_dtype

from nqf_pipeline.analysis.claims.registry import claims_about
from nqf_pipeline.analysis.claims.table import claim_rows
from nqf_pipeline.analysis.collapse import collapse_rows
from nqf_pipeline.analysis.departure import departure
from nqf_pipeline.analysis.drops.table import drop_rows
from nqf_pipeline.analysis.exponents import exponent_rows, has_scaling
from nqf_pipeline.analysis.extrapolation import write_extrapolation
from nqf_pipeline.analysis.ignition import valid_records
from nqf_pipeline.analysis.kernel import kernel_drift
from nqf_pipeline.analysis.plateaus import plateau_rows
from nqf_pipeline.analysis.sources import SOURCES, sources_of
from nqf_pipeline.analysis.tradeoffs import write_tradeoffs
from nqf_pipeline.analysis.window_scan import scan_rows
from nqf_pipeline.analysis.workers import workers
from nqf_pipeline.errors import WorkError
from nqf_pipeline.store.merge import LISTING
from nqf_pipeline.store.open import Study, open_trajectories
from nqf_pipeline.store.schema import SCALARS, Status
from nqf_pipeline.store.shards import shard_records
from nqf_pipeline.store.tables import TABLES, write_table
from nqf_pipeline.study.config import AnalysisSettings, DaskSettings

BATCH_BYTES = 64 * 2**20
"""Trajectories that one task holds in memory; a setting with all its seeds is never split."""
_SAME_SETTING = frozenset({"cell", "seed", "steps", "experiment", "regime", "standing", *SCALARS})
"""Coordinates in which the cells of one setting may differ."""
CARRIED = ("network_gradients", "gradient_gap")
READ = (
    *(
        "network_loss",
        "twin_loss",
        "divergence",
        "network_mode",
        "twin_mode",
        "twin_kernel_change",
        "twin_kernel_turn",
        *CARRIED,
        "step_number",
        "time",
        "mode_number",
    ),
    *("theory_loss", "theory_mode", "theory_ignition", "ignition_low", "ignition_high", "expected_loss"),
)
BATCHED = ("exponents", "window_scan", "plateaus", "drops", "cells", "collapse")
TABLES_WRITTEN = (*BATCHED, "timings")
Frames = dict[str, pd.DataFrame]


@dataclass(frozen=True)
class Batch:
    """Some settings of one bucket: positions of their cells in the node, one array a setting. What a worker needs to measure them."""

    results: Path
    written: int
    """When the store was written: a worker that has read an older one opens it anew."""
    bucket: str
    settings: list[np.ndarray]
    analysis: AnalysisSettings


@dataclass(frozen=True)
class Across:
    """What compares cells of all buckets: as long as several batches, so it is begun first and runs beside them."""

    results: Path
    written: int
    confidence: float


def analyse(results: Path, settings: AnalysisSettings | None = None, where: DaskSettings | None = None) -> Frames:
    """Write the tables of a study from its merged store; returns them. Cells without numbers are rows with their status."""
    results = Path(results).resolve()
    settings = settings or AnalysisSettings()
    written = (results / LISTING).stat().st_mtime_ns if (results / LISTING).exists() else 0
    study = Study(results, _opened(results, written))
    tasks: list[Batch | Across] = [Across(results, written, settings.confidence)]
    for name, tree in study.arrays.children.items():
        node = tree.to_dataset()
        parts = batches(measured_variables(node), cell_coordinates(node, name))
        tasks += [Batch(results, written, name, part, settings) for part in parts]
    with workers(where or DaskSettings(kind="threads"), len(study.index), results) as spread:
        try:
            frames = _collected(spread(_measured, tasks))
        except (ValueError, OSError) as error:
            raise WorkError(
                f"{results}: the analysis failed ({error}). If the store is damaged, open_study(path, verify=True) names the file; "
                "deleting trajectories.json and starting the workflow again merges the shards anew."
            ) from error
        tables = {name: write_table(results, name, frames.pop(name)) for name in BATCHED}
        tables["timings"] = write_table(results, "timings", timings(results))
        tables["extrapolation"] = write_extrapolation(study, settings.confidence)
        tables["tradeoffs"] = write_tradeoffs(study, settings.confidence)
        return {**tables, "claims": write_claims(study)}


@lru_cache(maxsize=1)
def _opened(results: Path, _: int) -> xr.DataTree:
    return open_trajectories(results, allow_partial=True)


def _collected(parts: list[Frames]) -> Frames:
    """The tables of all parts, which are given up on the way: at 100,000 cells both would be gigabytes."""
    return {name: _together([part.pop(name) for part in parts if name in part]) for name in BATCHED}


def write_claims(study: Study) -> pd.DataFrame:
    """Measure the claims about a study, named like its folder, on its other tables and its store; writes and returns their table."""
    claims = claims_about(study.path.resolve().name)
    return write_table(study.path, "claims", claim_rows(study, claims) if claims else pd.DataFrame())


def _together(parts: list[pd.DataFrame]) -> pd.DataFrame:
    filled = [part for part in parts if len(part)]
    for name in dict.fromkeys(column for part in filled for column in part if part[column].dtype == "category"):
        _unite(filled, name)
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame()


def _unite(parts: list[pd.DataFrame], name: str) -> None:
    """Give the categories of a column in all parts one dtype, so that they stay codes; texts again where a part has something else."""
    own = [part[name] for part in parts if name in part]
    if all(column.dtype == "category" or column.isna().all() for column in own):
        known = {text for column in own if column.dtype == "category" for text in column.cat.categories}
        dtype: Any = pd.CategoricalDtype(sorted(known))
    else:
        dtype = object
    for part in parts:
        part[name] = part[name].astype(dtype) if name in part else pd.Series(None, part.index, dtype=dtype)


def _compact(frame: pd.DataFrame) -> pd.DataFrame:
    """Texts as codes: tables of millions of rows repeat few of them."""
    texts = [name for name in frame if frame[name].dtype == object and infer_dtype(frame[name], skipna=True) == "string"]
    return frame.astype(dict.fromkeys(texts, "category"))


def cell_coordinates(node: xr.Dataset, bucket: str) -> pd.DataFrame:
    """Coordinates of the cells of a node, one row each, in order; status and other scalars are left to the tables."""
    names = [name for name, array in node.coords.items() if array.dims == ("cell",) and name not in {*SCALARS, "regime", "standing"}]
    loaded = node.coords.to_dataset()[names].load()
    columns: dict[str, Any] = {}
    for name in names:
        values = loaded[name].to_numpy()
        columns[str(name)] = values.astype(object) if values.dtype.kind in "OUT" else values
    return pd.DataFrame(columns).assign(bucket=bucket)


def measured_variables(node: xr.Dataset) -> xr.Dataset:
    """The part of a node that measurements read."""
    kept = {*READ, *SCALARS, "regime", "standing", "cell", "tier", "train"}
    return node.drop_vars([name for name in node.variables if name not in kept])


def batches(node: xr.Dataset, coordinates: pd.DataFrame) -> Iterator[list[np.ndarray]]:
    """Settings of a node, as many together as `BATCH_BYTES` allow."""
    keys = [name for name in coordinates.columns if name not in _SAME_SETTING]
    groups = coordinates.groupby(keys, dropna=False, sort=False).indices if len(coordinates) else {}
    most = max(BATCH_BYTES * node.sizes["cell"] // max(node.nbytes, 1), 1)
    batch: list[np.ndarray] = []
    for cells in groups.values():
        if batch and sum(map(len, batch)) + len(cells) > most:
            yield batch
            batch = []
        batch.append(np.sort(cells))
    if batch:
        yield batch


def _measured(task: Batch | Across) -> Frames:
    if isinstance(task, Batch):
        return _analyse_batch(task)
    return {"collapse": collapse_rows(Study(task.results, _opened(task.results, task.written)), task.confidence)}


def _analyse_batch(batch: Batch) -> Frames:
    node, settings = _opened(batch.results, batch.written)[batch.bucket].to_dataset(), batch.analysis
    order = np.concatenate(batch.settings)
    cells = np.sort(order)
    part = node.isel(cell=cells)
    loaded, own = measured_variables(part).load(), cell_coordinates(part, batch.bucket)
    places = [np.searchsorted(cells, setting) for setting in batch.settings] if has_scaling(loaded, settings.window) else []
    groups = [(loaded.isel(cell=p), own.iloc[p].reset_index(drop=True), settings) for p in places]
    exponents, windows = [exponent_rows(*group) for group in groups], [scan_rows(*group) for group in groups]
    run = np.flatnonzero([Status(int(status)).has_numbers for status in loaded["status"].to_numpy()])
    ran, known = (loaded, own) if len(run) == len(own) else (loaded.isel(cell=run), own.iloc[run].reset_index(drop=True))
    return {
        "exponents": _together(exponents),
        "window_scan": _together(windows),
        "plateaus": _compact(plateau_rows(ran, known, settings.rho)) if len(run) else pd.DataFrame(),
        "drops": _compact(drop_rows(ran, known)) if len(run) else pd.DataFrame(),
        "cells": cell_rows(loaded, own),
    }


def cell_rows(dataset: xr.Dataset, coordinates: pd.DataFrame) -> pd.DataFrame:
    """One row per cell: what became of it, and where its twin left it."""
    found = departure(dataset)
    status = [Status(int(value)) for value in dataset["status"].to_numpy()]
    columns: dict[str, Any] = {
        "status": [value.name for value in status],
        "remedy": [value.remedy for value in status],
        "diverged_step": dataset["diverged_step"].to_numpy(),
        "regime": dataset["regime"].to_numpy().astype(object),
        "standing": dataset["standing"].to_numpy().astype(object),
        "departure_step": found.step,
        "largest_divergence": found.largest_divergence,
        "largest_mode_gap": found.largest_mode_gap,
        **_final(dataset),
    }
    return pd.concat([coordinates, pd.DataFrame(columns)], axis=1)


def _final(dataset: xr.Dataset) -> dict[str, np.ndarray]:
    """Losses and kernel drift at the last step at which all that is trained is finite."""
    losses = {f"{source}_loss": dataset[f"{source}_loss"].to_numpy() for source in SOURCES}
    trained = [valid_records(losses[f"{source}_loss"]) for source in sources_of(dataset)]
    valid = np.logical_and.reduce(trained) if trained else np.zeros(losses["twin_loss"].shape, bool)
    last = np.maximum(valid.sum(1, keepdims=True) - 1, 0)
    ran = valid[:, 0]
    steps = dataset["step_number"].to_numpy().astype(float)
    values = {"last_step": steps, **losses, **kernel_drift(dataset), **_carried(dataset, steps)}
    return {name: np.where(ran, np.take_along_axis(array, last, 1)[:, 0], np.nan) for name, array in values.items()}


def _carried(dataset: xr.Dataset, steps: np.ndarray) -> dict[str, np.ndarray]:
    """Of gradients carried on from step to step; NaN where every one was computed."""
    computed, gap = (dataset[name].to_numpy() if name in dataset else np.full(steps.shape, np.nan) for name in CARRIED)
    return {"gradient_share": computed / np.maximum(steps, 1.0), "gradient_gap": gap}


def timings(results: Path) -> pd.DataFrame:
    """Seconds by shard and stage, from the summaries that jobs wrote."""
    rows = []
    for folder in ("shards", "theory"):
        for path, record in shard_records(results / folder):
            shared = {
                "bucket": record.bucket,
                "shard": path.name.removesuffix(".zarr.zip"),
                "kind": record.kind,
                "cells": len(record.cells),
                "bytes": record.bytes,
                "device": record.device,
                "precision": record.precision,
                "threads": np.nan if record.threads is None else record.threads,
                "lane_width": np.nan if record.lane_width is None else record.lane_width,
            }
            rows += [{**shared, "stage": stage, "seconds": seconds} for stage, seconds in record.timings.items()]
    return pd.DataFrame(rows, columns=[column.name for column in TABLES["timings"]])
