"""Merge: every shard of a study into one store, by one writer.

`trajectories.zarr` (zarr v3) has one node per bucket, cells in the order of their coordinates, so that it is the same bytes whatever
the order in which shards finished and whatever was merged before. It is built beside the old one, from which buckets that did not
change are carried over, and swapped in by rename; `trajectories.json`, written last, lists its files, by which a truncated store is
recognised. A kill at any moment leaves the old store whole or the new one, and the next merge goes on from there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.losses import convention
from nqf_pipeline.store.atomic import sync_folder, to_json, unwritable, write_json
from nqf_pipeline.store.bucket import Bucket, MergeError
from nqf_pipeline.store.carry import Files, Made, Record, carry_over, inputs_of, read_record_of_merge, save
from nqf_pipeline.store.members import CellRow, Members, members_of
from nqf_pipeline.store.schema import ENTRIES, SCHEMA_VERSION, Status
from nqf_pipeline.store.shards import AND, SUFFIX, ShardRecord, shard_records, summary_path
from nqf_pipeline.store.sources import Source, open_source
from nqf_pipeline.theory.ignition import FRACTION

STORE, LISTING = "trajectories.zarr", "trajectories.json"
CONVENTIONS = "CF-1.11"


class MissingCellsError(InputError):
    """Cells of the study have no results."""


@dataclass(frozen=True)
class MergeReport:
    """What was merged."""

    cells: int
    buckets: int
    missing: int
    without_theory: int
    files: int
    bytes: int
    carried_over: int = 0
    """Buckets that did not change."""


@dataclass(frozen=True)
class Shards:
    """The finished shards of one kind."""

    of_cell: dict[str, Path]
    """The shard that holds each cell."""
    records: dict[Path, ShardRecord]

    def doubled(self) -> list[list[Path]]:
        """Shards that share cells with others, those together that share the same ones."""
        holders: dict[str, list[Path]] = {}
        for path, record in self.records.items():
            for cell in record.cells:
                holders.setdefault(cell, []).append(path)
        return sorted(map(list, {tuple(paths) for paths in holders.values() if len(paths) > 1}))

    def used(self, cells: Iterable[CellRow]) -> list[ShardRecord]:
        """The records of the shards that hold any of these cells."""
        paths = {self.of_cell[cell.id] for cell in cells if cell.id in self.of_cell}
        return [record for path, record in self.records.items() if path in paths]

    def holding(self, members: Members) -> list[Path]:
        """The shards that hold cells of a bucket, in name order."""
        return sorted({self.of_cell[cell.id] for cell in members.cells if cell.id in self.of_cell})

    def open(self, members: Members) -> list[Source]:
        place = {cell.id: k for k, cell in enumerate(members.cells)}
        return [open_source(path, self.records[path], place) for path in self.holding(members)]


def merge(
    results: Path, wanted: Iterable[CellRow], attributes: Mapping[str, Any], allow_partial: bool = False, known: Collection[str] = ()
) -> MergeReport:
    """Write `trajectories.zarr` from `shards/` and `theory/`.

    `wanted` are the cells of the study; further cells found in shards stay there. `attributes` are the root attributes that the shards
    do not know: study (the config), package_version, git_commit. `known` are the ids of the study's shards.
    """
    results = Path(results)
    buckets = list(members_of(wanted))
    cells = [cell for members in buckets for cell in members.cells]
    trained, predicted = _shards(results / "shards", "training"), _shards(results / "theory", "theory")
    if doubled := [*trained.doubled(), *predicted.doubled()]:
        raise _doubled(results, doubled, known)
    missing = [cell for cell in cells if cell.id not in (trained if cell.trained else predicted).of_cell]
    if missing and not allow_partial:
        raise _missing(results, missing, len(cells))
    provenance = {**_provenance(trained.used(cells)), "theory_versions": _versions(predicted.used(cells))}
    root = json.loads(to_json({**_conventions(), "loss_convention": _loss_convention(buckets), **provenance, **attributes}))
    files, carried_over = _replace(results, buckets, trained, predicted, root)
    return MergeReport(
        cells=len(cells),
        buckets=len(buckets),
        missing=len(missing),
        without_theory=sum(cell.id not in predicted.of_cell for cell in cells),
        files=len(files),
        bytes=sum(size for size, _ in files.values()),
        carried_over=carried_over,
    )


# ---- what there is


def _shards(folder: Path, kind: str) -> Shards:
    records = {path: record for path, record in shard_records(folder) if record.kind == kind}
    return Shards({cell: path for path, record in records.items() for cell in record.cells}, records)


def _doubled(results: Path, doubled: list[list[Path]], known: Collection[str]) -> MergeError:
    """Where the manifest lost lines, its cells were planned again, in other shards."""
    together = "; ".join(" and ".join(f"{path.parent.name}/{path.name}" for path in paths) for paths in doubled)
    every = sorted({path for paths in doubled for path in paths})
    lost = [path for path in every if path.name.removesuffix(SUFFIX) not in known]
    if all(0 < len({*paths} & {*lost}) < len(paths) for paths in doubled):
        delete = ", ".join(f"delete {path} and {summary_path(path).name}" for path in lost)
        remedy = f"the manifest knows all but these, whose cells were planned again: {delete}"
    else:
        remedy = "which of them is right cannot be known: delete all but one of each with its .json"
    return MergeError(f"{results}: the same cells are in two shards: {together}. Way out: {remedy}; then start the workflow again.")


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


def _loss_convention(buckets: list[Members]) -> str:
    return convention({str(loss) for members in buckets for loss in members.columns.get("loss", ["squared_error"])})


def _provenance(records: list[ShardRecord]) -> dict[str, Any]:
    """Where the numbers come from: every value found among the merged training shards."""

    def found(name: str) -> list[Any]:
        values = {one for record in records for one in _apart(getattr(record, name))}
        return sorted(value for value in values if value not in {None, ""})

    return {name: found(name) for name in ("device", "precision", "threads", "lane_width")} | {"versions": _versions(records)}


def _versions(records: list[ShardRecord]) -> dict[str, list[str]]:
    """By package, and `commit`: more than one where shards of another version were kept."""
    packages = sorted({name for record in records for name in record.versions})
    return {name: sorted({one for record in records for one in _apart(record.versions.get(name, ""))} - {""}) for name in packages}


def _apart(value: Any) -> list[Any]:
    """What the attempts of one shard differed in."""
    return value.split(AND) if isinstance(value, str) else [value]


# ---- the file


def _replace(results: Path, buckets: list[Members], trained: Shards, predicted: Shards, root: dict[str, Any]) -> tuple[Files, int]:
    """Build the store beside the old one and put it in its place. Returns its files and how many buckets were carried over."""
    store, beside = _recover(results)
    made, carried = Record(), 0
    last = read_record_of_merge(results)
    try:
        beside.mkdir(parents=True)
        for members in buckets:
            bucket = Bucket(members, predicted.open(members), trained.open(members))  # checksums are compared in any case
            holders = [shards.records[path].sha256 for shards in (trained, predicted) for path in shards.holding(members)]
            known, inputs, place = last.buckets.get(members.bucket), inputs_of(members, holders), beside / members.bucket
            same = known is not None and known.inputs == inputs and carry_over(known, store / members.bucket, place)
            files = known.files if known and same else dict(sorted(bucket.write(place).items()))
            made.buckets[members.bucket] = Made(inputs=inputs, files=files)
            carried += same
        listing = save(beside, {"zarr.json": _root(beside, root, buckets)})
        listing |= {f"{name}/{file}": entry for name, bucket in made.buckets.items() for file, entry in bucket.files.items()}
        _swap(results)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise unwritable(store, error) or error from error
    made.write(results)
    write_json(results / LISTING, {"schema_version": SCHEMA_VERSION, "files": dict(sorted(listing.items()))})
    shutil.rmtree(_old(results), ignore_errors=True)
    return listing, carried


def _old(results: Path) -> Path:
    return results / f".{STORE}.old"


def _beside(results: Path) -> Path:
    return results / f".{STORE}.tmp"


def _recover(results: Path) -> tuple[Path, Path]:
    """What a killed merge left: the old store back in its place if the new one did not get there. Returns the places of old and new."""
    store, beside, old = results / STORE, _beside(results), _old(results)
    if not store.exists() and old.exists():
        old.rename(store)
    for leftover in (beside, old):
        shutil.rmtree(leftover, ignore_errors=True)
    return store, beside


def _swap(results: Path) -> None:
    """From the first step to the last there is no listing, so that nothing takes one store's for the other's."""
    store = results / STORE
    (results / LISTING).unlink(missing_ok=True)
    if store.exists():
        store.rename(_old(results))
    _beside(results).rename(store)
    sync_folder(results)


def _root(folder: Path, attributes: dict[str, Any], buckets: list[Members]) -> bytes:
    """`zarr.json` of the group of all buckets, with their metadata in one place and in name order."""
    metadata: dict[str, Any] = {}
    for members in buckets:
        group = folder / members.bucket
        files = [group / "zarr.json", *sorted(group.glob("*/zarr.json"))]
        metadata |= {file.parent.relative_to(folder).as_posix(): json.loads(file.read_bytes()) for file in files}
        metadata[members.bucket]["consolidated_metadata"] = _consolidated({})
    root = {"zarr_format": 3, "node_type": "group", "attributes": attributes, "consolidated_metadata": _consolidated(metadata)}
    return json.dumps(root, allow_nan=False, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()  # megabytes


def _consolidated(metadata: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "inline", "must_understand": False, "metadata": metadata}
