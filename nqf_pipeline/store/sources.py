"""Shards as the merge reads them: checksum first, then one variable at a time, so that a bucket need not fit into memory."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from nqf_pipeline.store.encoding import memory_store
from nqf_pipeline.store.shards import ShardRecord, checked

Metadata = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A shard whose bytes are those of its summary."""

    path: Path
    metadata: dict[str, Metadata]
    """What zarr says of each array: shape, `dimension_names`, ..."""
    places: np.ndarray = field(repr=False)
    """For each of its cells the row in the bucket, or -1 where the study does not want it."""

    def sizes(self) -> dict[str, int]:
        """Length of each dimension."""
        return {dim: n for meta in self.metadata.values() for dim, n in zip(meta["dimension_names"], meta["shape"], strict=True)}

    @cached_property
    def tiers(self) -> list[str]:
        """The tiers it predicts."""
        return [str(tier) for tier in _read(self.path, "tier")] if "tier" in self.metadata else []

    def read(self, name: str) -> np.ndarray:
        """One variable, all cells."""
        return _read(self.path, name)


def open_source(path: Path, record: ShardRecord, place: dict[str, int]) -> Source:
    """Raises ShardError when the shard is absent or damaged. `place`: the rows of the wanted cells."""
    checked(path, record)
    with zipfile.ZipFile(path) as archive:
        suffix = "/zarr.json"
        names = [name.removesuffix(suffix) for name in archive.namelist() if name.endswith(suffix)]
        metadata = {name: json.loads(archive.read(name + suffix)) for name in names}
    return Source(path, metadata, np.array([place.get(str(cell), -1) for cell in _read(path, "cell")], int))


def _read(path: Path, name: str) -> np.ndarray:
    with zipfile.ZipFile(path) as archive:
        files = {member: archive.read(member) for member in archive.namelist() if member.startswith(f"{name}/")}
    return np.asarray(zarr.open_array(memory_store(files), path=name, mode="r")[...])
