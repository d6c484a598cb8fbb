"""Shards: what one job writes, one file with its summary.

`<id>.zarr.zip` holds the arrays (zarr v3); `<id>.json`, written last, holds its checksum, its cells and their status, timings and
versions. A shard counts as done when its summary exists. The same arrays give the same bytes: the archive has no time stamps.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import xarray as xr
from pydantic import BaseModel, ConfigDict, Field

from nqf_pipeline.errors import InputError
from nqf_pipeline.store.atomic import sealed, unsealed, write_bytes, write_json
from nqf_pipeline.store.encoding import pack, unpack
from nqf_pipeline.store.schema import SCHEMA_VERSION, Status, normalise, validate

SUFFIX = ".zarr.zip"
_EPOCH = (1980, 1, 1, 0, 0, 0)


class ShardError(InputError):
    """A shard is absent or damaged; the message names the file and how to get it back."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}. Its cells cannot be merged. Way out: delete {path.name} and {summary_path(path).name} "
            "and start the workflow again; only this shard runs again, finished work is untouched."
        )


class Summary(BaseModel):
    """What the job knows about a shard besides its arrays. `timings` never enter the dataset, so that results compare byte for byte."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="strings")

    bucket: str = Field(description="bucket whose cells these are")
    timings: dict[str, float] = Field(default_factory=dict, description="seconds by stage (compile, run, ...)")
    device: str = Field(default="", description="where it ran")
    precision: str = Field(default="", description="floating-point format of network and twin")
    threads: int | None = Field(default=None, description="threads of the kernels")
    lane_width: int | None = Field(default=None, description="cells in one compiled program")
    versions: dict[str, str] = Field(default_factory=dict, description="versions of packages, and the git commit")


AND = " and "
"""Between values that differ from one attempt to the next."""


def joined(earlier: Summary, later: Summary) -> Summary:
    """The summary of a shard that took two attempts: seconds added, and every device and version that made a part of it."""
    stages = [*earlier.timings, *(stage for stage in later.timings if stage not in earlier.timings)]
    packages = sorted({*earlier.versions, *later.versions})
    return later.model_copy(
        update={
            "timings": {stage: round(earlier.timings.get(stage, 0.0) + later.timings.get(stage, 0.0), 6) for stage in stages},
            "device": _each(earlier.device, later.device),
            "threads": earlier.threads if later.threads is None else later.threads,
            "lane_width": earlier.lane_width if later.lane_width is None else later.lane_width,
            "versions": {name: _each(earlier.versions.get(name, ""), later.versions.get(name, "")) for name in packages},
        }
    )


def _each(*values: str) -> str:
    return AND.join(dict.fromkeys(one for value in values for one in value.split(AND) if one))


class ShardRecord(Summary):
    """`<id>.json`: the summary with what `write_shard` adds."""

    schema_version: int = SCHEMA_VERSION
    kind: Literal["training", "theory"]
    file: str
    sha256: str
    bytes: int
    cells: dict[str, str] = Field(description="status of each cell by its id")


def summary_path(path: Path) -> Path:
    """`shards/<id>.json` of `shards/<id>.zarr.zip`."""
    return path.with_name(path.name.removesuffix(SUFFIX) + ".json")


def write_shard(path: Path, dataset: xr.Dataset, summary: Summary, kind: Literal["training", "theory"] = "training") -> ShardRecord:
    """Write a shard, then its summary; a kill at any moment leaves either a whole shard with its summary or none that counts."""
    path = Path(path)
    if not path.name.endswith(SUFFIX):
        raise ValueError(f"{path}: a shard's name must end in {SUFFIX}")
    dataset = normalise(dataset)
    validate(dataset, kind, str(path))
    data = _zip(dataset)
    record = ShardRecord(
        **summary.model_dump(),
        kind=kind,
        file=path.name,
        sha256=hashlib.sha256(data).hexdigest(),
        bytes=len(data),
        cells=_statuses(dataset),
    )
    summary_path(path).unlink(missing_ok=True)  # an old summary must not vouch for the new bytes
    write_bytes(path, data)
    write_json(summary_path(path), sealed(record.model_dump(mode="json")))
    return record


def read_record(path: Path) -> ShardRecord:
    """The summary of a shard; `path` is the shard or its summary."""
    path = Path(path)
    file = path if path.suffix == ".json" else summary_path(path)
    shard = file.with_name(file.stem + SUFFIX)
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if values.get("schema_version") != SCHEMA_VERSION:
            raise ShardError(shard, f"it has schema version {values.get('schema_version')}, this program writes version {SCHEMA_VERSION}")
        return ShardRecord.model_validate(unsealed(values))
    except FileNotFoundError:
        raise ShardError(shard, f"its summary {file.name} is absent, so the shard was never finished") from None
    except ShardError:
        raise
    except (ValueError, AttributeError) as error:
        raise ShardError(shard, f"its summary {file.name} is damaged ({_first_line(error)})") from None


def read_shard(path: Path) -> xr.Dataset:
    """The arrays of a shard, in memory, after its checksum was compared."""
    path = Path(path)
    record = read_record(path)
    dataset = _unzip(checked(path, record))
    validate(dataset, record.kind, str(path))
    return dataset


def checked(path: Path, record: ShardRecord) -> bytes:
    """The bytes of a shard, after size and checksum were compared with its summary."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ShardError(path, "the file is absent although its summary exists") from None
    if len(data) != record.bytes:
        raise ShardError(path, f"the file is truncated or was replaced: {len(data)} bytes, {record.bytes} expected")
    if hashlib.sha256(data).hexdigest() != record.sha256:
        raise ShardError(path, "the file is damaged: its checksum differs from the one in its summary")
    return data


def shard_records(folder: Path) -> Iterator[tuple[Path, ShardRecord]]:
    """Every finished shard of a folder with its summary, in name order."""
    for file in sorted(Path(folder).glob("*.json")):
        yield file.with_name(file.stem + SUFFIX), read_record(file)


def _statuses(dataset: xr.Dataset) -> dict[str, str]:
    cells = [str(cell) for cell in dataset["cell"].values]
    values = dataset["status"].values if "status" in dataset.variables else np.full(len(cells), Status.done)
    return {cell: Status(int(value)).name for cell, value in zip(cells, values, strict=True)}


def _zip(dataset: xr.Dataset) -> bytes:
    """A zipped zarr v3 store, members in order and without time stamps."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, data in pack(dataset).items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
    return stream.getvalue()


def _unzip(data: bytes) -> xr.Dataset:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return normalise(unpack({name: archive.read(name) for name in archive.namelist()}))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
