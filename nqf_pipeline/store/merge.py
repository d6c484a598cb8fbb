"""Merge: every shard of a study into one store, by one writer.

`trajectories.zarr` (zarr v3) has one node per bucket, cells in the order of their coordinates, so that it is the same bytes whatever
the order in which shards finished. It is built beside the old one and swapped in by rename; `trajectories.json`, written last,
lists its files, by which a truncated store is recognised. Memory: one bucket at a time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xarray as xr
import zarr
from jaxtyping import Int

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.losses import convention
from nqf_pipeline.store.atomic import sync_folder, to_json, unwritable, write_json
from nqf_pipeline.store.encoding import pack
from nqf_pipeline.store.schema import (
    COORDINATES,
    ENTRIES,
    SCHEMA_VERSION,
    TIERS,
    Status,
    empty,
    normalise,
    validate,
)
from nqf_pipeline.store.shards import ShardRecord, read_shard, shard_records
from nqf_pipeline.theory.ignition import FRACTION

STORE, LISTING = "trajectories.zarr", "trajectories.json"
CONVENTIONS = "CF-1.11"
UNKNOWN = "unknown"
_LABELS = {"cell", "bucket"}
"""Entries of `coordinates()` that the layout of the store says already."""


class CellRow(Protocol):
    """What the store needs to know of a cell of the study."""

    @property
    def id(self) -> str: ...
    @property
    def bucket(self) -> str: ...
    @property
    def trained(self) -> bool: ...
    def coordinates(self) -> dict[str, Any]: ...
    def step_grid(self) -> Int[np.ndarray, "records"]: ...


class MissingCellsError(InputError):
    """Cells of the study have no results."""


class MergeError(InputError):
    """Shards contradict each other."""


@dataclass(frozen=True)
class MergeReport:
    """What was merged."""

    cells: int
    buckets: int
    missing: int
    without_theory: int
    files: int
    bytes: int


Sources = dict[str, Path]
"""The shard that holds each cell."""


def merge(results: Path, wanted: Iterable[CellRow], attributes: Mapping[str, Any], allow_partial: bool = False) -> MergeReport:
    """Write `trajectories.zarr` from `shards/` and `theory/`.

    `wanted` are the cells of the study; further cells found in shards stay there. `attributes` are the root attributes that the shards
    do not know: study (the config), package_version, git_commit.
    """
    results = Path(results)
    cells = sorted(wanted, key=_order)
    trained, records = _sources(results / "shards", "training")
    predicted, _ = _sources(results / "theory", "theory")
    missing = [cell for cell in cells if cell.id not in (trained if cell.trained else predicted)]
    if missing and not allow_partial:
        raise _missing(results, missing, len(cells))
    used = {trained[cell.id] for cell in cells if cell.id in trained}
    provenance = _provenance([record for path, record in records.items() if path in used])
    root = {**_conventions(), "loss_convention": _loss_convention(cells), **provenance, **attributes}
    files = _swap(results, _by_bucket(cells), trained, predicted, root)
    return MergeReport(
        cells=len(cells),
        buckets=len({cell.bucket for cell in cells}),
        missing=len(missing),
        without_theory=sum(cell.id not in predicted for cell in cells),
        files=len(files),
        bytes=sum(size for size, _ in files.values()),
    )


# ---- what there is


def _order(cell: CellRow) -> tuple[Any, ...]:
    """Cells in the order of their coordinates; numbers by value, texts by alphabet, the id last."""
    values = cell.coordinates()
    keys = [name for name in ("architecture", "task", "optimizer") if name in values]
    last = ("experiment", "seed")
    middle = [name for name in values if name not in {*keys, *last, *_LABELS}]
    return (cell.bucket, *(_rank(values[name]) for name in (*keys, *middle, *last) if name in values), cell.id)


def _rank(value: Any) -> tuple[int, float, str]:
    if isinstance(value, str):
        return 1, 0.0, value
    number = float(value)
    return (0, number, "") if number == number else (-1, 0.0, "")


def _by_bucket(cells: list[CellRow]) -> dict[str, list[CellRow]]:
    buckets: dict[str, list[CellRow]] = defaultdict(list)
    for cell in cells:
        buckets[cell.bucket].append(cell)
    return buckets


def _sources(folder: Path, kind: str) -> tuple[Sources, dict[Path, ShardRecord]]:
    sources: Sources = {}
    records = {path: record for path, record in shard_records(folder) if record.kind == kind}
    for path, record in records.items():
        for cell in record.cells:
            if cell in sources:
                raise MergeError(
                    f"cell {cell} is in two shards, {sources[cell]} and {path}: which one is right cannot be known. "
                    f"Way out: delete one of them with its .json and start the workflow again."
                )
            sources[cell] = path
    return sources, records


def _missing(results: Path, missing: list[CellRow], total: int) -> MissingCellsError:
    named = ", ".join(f"{cell.id} ({cell.bucket})" for cell in missing[:5])
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    return MissingCellsError(
        f"{results}: {len(missing)} of {total} cells have no finished shard: {named}{more}. {Status.missing.remedy} "
        "To merge what there is, allow partial results; the absent cells then have status `missing`."
    )


def _conventions() -> dict[str, Any]:
    return {
        "title": "Trajectories of networks and their quadratic twins",
        "conventions": CONVENTIONS,
        "schema_version": SCHEMA_VERSION,
        "time_convention": ENTRIES["time"].meaning,
        "epsilon_convention": "sigma: standard deviation of the weights; epsilon = degrees * sigma^2: scale of the order parameter",
        "ignition_convention": f"first step at which the recovered strength reaches rho; predictions are stored for rho = {FRACTION:g}",
        "units": {entry.name: entry.units for entry in ENTRIES.values() if entry.units},
    }


def _loss_convention(cells: list[CellRow]) -> str:
    return convention({str(cell.coordinates().get("loss", "squared_error")) for cell in cells})


def _provenance(records: list[ShardRecord]) -> dict[str, Any]:
    """Where the numbers come from: every value found among the merged shards."""

    def found(name: str) -> list[Any]:
        values = {getattr(record, name) for record in records}
        return sorted(value for value in values if value not in {None, ""})

    packages = sorted({name for record in records for name in record.versions})
    versions = {name: sorted({record.versions[name] for record in records if name in record.versions}) for name in packages}
    return {name: found(name) for name in ("device", "precision", "threads", "lane_width")} | {"versions": versions}


# ---- one bucket


def _assemble(cells: list[CellRow], trained: Sources, predicted: Sources) -> xr.Dataset:
    """All cells of a bucket with their coordinates, trained and predicted variables; absent ones are fill values."""
    parts = [_gather(cells, trained), _gather(cells, predicted)]
    sizes = _sizes(cells, parts)
    variables: dict[str, xr.Variable] = _coordinates(cells)
    for entry in ENTRIES.values():
        if entry.name in variables or entry.name == "tier":
            continue
        holders = [part for part in parts if any(entry.name in dataset.variables for dataset in part)]
        placed = all(dim in sizes for dim in entry.dims)  # no tier at all where no closed regime holds in the bucket
        if placed and (holders or "store" in entry.required):
            variables[entry.name] = _fill(entry.name, sizes, cells, holders[0] if holders else [])
    for name in ("regime", "standing"):
        values = variables[name].values if name in variables else np.full(len(cells), "", object)
        variables[name] = xr.Variable(("cell",), np.where(values == "", UNKNOWN, values).astype(object))
    if "tier" in sizes:
        variables["tier"] = xr.Variable(("tier",), np.array(_tiers(parts[1]), object))
    _complete_steps(variables, cells)
    return normalise(xr.Dataset(variables))


def _gather(cells: list[CellRow], sources: Sources) -> list[xr.Dataset]:
    """The rows of these cells, one dataset a shard."""
    wanted = {cell.id for cell in cells}
    rows = []
    for path in sorted({sources[cell.id] for cell in cells if cell.id in sources}):
        dataset = read_shard(path)
        dataset.attrs["path"] = str(path)
        keep = np.flatnonzero([cell in wanted for cell in dataset["cell"].values])
        rows.append(dataset.isel(cell=keep))
    return rows


def _tiers(parts: list[xr.Dataset]) -> list[str]:
    present = {str(tier) for part in parts for tier in part["tier"].values}
    return [tier for tier in TIERS if tier in present]


def _sizes(cells: list[CellRow], parts: list[list[xr.Dataset]]) -> dict[str, int]:
    sizes = {"cell": len(cells), "step": len(cells[0].step_grid())}
    for part in (dataset for group in parts for dataset in group):
        for dim in ("step", "mode"):
            if sizes.setdefault(dim, part.sizes[dim]) != part.sizes[dim]:
                raise MergeError(
                    f"{part.attrs['path']}: {part.sizes[dim]} entries along `{dim}`, {sizes[dim]} in other shards of bucket "
                    f"{cells[0].bucket}: they come from different versions of the study. Way out: delete the shard with its .json, rerun."
                )
    sizes.setdefault("mode", 0)  # no cell ran, so the number of watched modes is unknown
    tiers = _tiers(parts[1])
    return sizes | ({"tier": len(tiers)} if tiers else {})


def _coordinates(cells: list[CellRow]) -> dict[str, xr.Variable]:
    """Coordinates come from the study, not from shards: a changed label must not need new training."""
    rows = [cell.coordinates() for cell in cells]
    names = [name for name in rows[0] if name not in _LABELS]
    columns = {name: np.array([row.get(name) for row in rows]) for name in names}
    variables = {"cell": xr.Variable(("cell",), np.array([cell.id for cell in cells], object))}
    for name, values in columns.items():
        dtype = {"U": "object", "O": "object", "i": "int64", "b": "bool"}.get(values.dtype.kind, "float64")
        variables[name] = xr.Variable(("cell",), values.astype(dtype))
    return variables


def _fill(name: str, sizes: dict[str, int], cells: list[CellRow], parts: list[xr.Dataset]) -> xr.Variable:
    """One variable of the whole bucket, rows in the order of `cells`."""
    entry = ENTRIES[name]
    values = empty(entry, tuple(sizes[dim] for dim in entry.dims))
    place = {cell.id: k for k, cell in enumerate(cells)}
    axis = entry.dims.index("cell")
    target = np.moveaxis(values, axis, 0)
    for part in parts:
        if name not in part.variables:
            continue
        rows = np.array([place[str(cell)] for cell in part["cell"].values], int)
        source = np.moveaxis(part[name].values, axis, 0)
        if "tier" in entry.dims:
            columns = np.array([_tiers(parts).index(str(tier)) for tier in part["tier"].values])
            target[np.ix_(rows, columns)] = source
        else:
            target[rows] = source
    return xr.Variable(entry.dims, values)


def _complete_steps(variables: dict[str, xr.Variable], cells: list[CellRow]) -> None:
    """Steps of missing cells are known without a run."""
    steps = variables["step_number"].values
    for k in np.flatnonzero(steps[:, -1] < 0):
        steps[k] = cells[k].step_grid()


# ---- the file


def _swap(
    results: Path, buckets: dict[str, list[CellRow]], trained: Sources, predicted: Sources, root: dict[str, Any]
) -> dict[str, tuple[int, str]]:
    """Build the store beside the old one and put it in its place; then the listing. Returns size and checksum of each file."""
    store, beside, old = results / STORE, results / f".{STORE}.tmp", results / f".{STORE}.old"
    for leftover in (beside, old):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        _build(beside, buckets, trained, predicted, root)
        files = list_files(beside)
        (results / LISTING).unlink(missing_ok=True)
        if store.exists():
            store.rename(old)
        beside.rename(store)
        sync_folder(results)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise unwritable(store, error) or error from error
    write_json(results / LISTING, {"schema_version": SCHEMA_VERSION, "files": files})
    shutil.rmtree(old, ignore_errors=True)
    return files


def _build(folder: Path, buckets: dict[str, list[CellRow]], trained: Sources, predicted: Sources, root: dict[str, Any]) -> None:
    zarr.create_group(folder, zarr_format=3, attributes=json.loads(to_json(root)))
    for bucket in sorted(buckets):
        dataset = _assemble(buckets[bucket], trained, predicted)
        validate(dataset, "store", f"bucket {bucket}")
        for name, data in pack(dataset).items():
            file = folder / bucket / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    _consolidate(folder)


def _consolidate(folder: Path) -> None:
    """All metadata in one file, in name order (the order of a folder listing differs between file systems)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Consolidated metadata")
        zarr.consolidate_metadata(folder, zarr_format=3)
    file = folder / "zarr.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(to_json(values), encoding="utf-8")


def list_files(folder: Path) -> dict[str, tuple[int, str]]:
    """Size and SHA-256 of every file below a folder."""
    files = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            file = Path(parent, name)
            data = file.read_bytes()
            files[file.relative_to(folder).as_posix()] = (len(data), hashlib.sha256(data).hexdigest())
    return dict(sorted(files.items()))


def axis_names(dataset: xr.Dataset) -> list[str]:
    """Coordinates on `cell` that the schema does not name: what the study sweeps or sets."""
    named = {entry.name for entry in COORDINATES}
    return sorted(
        str(name) for name in dataset.coords if str(name) not in named and dataset[name].dims == ("cell",) and name not in ENTRIES
    )
