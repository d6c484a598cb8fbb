"""One bucket of the merged store, written one variable at a time and large ones in parts along `cell`: memory does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from nqf_pipeline.errors import InputError
from nqf_pipeline.store.carry import Files, save
from nqf_pipeline.store.encoding import cell_bytes, cells_in_file, new_array, new_group, take, write
from nqf_pipeline.store.members import Members
from nqf_pipeline.store.schema import ENTRIES, TIERS, Entry, empty, normalise, validate
from nqf_pipeline.store.sources import Source

PART_BYTES = 128 * 2**20
"""Of a large variable, about as much as this is in memory."""
UNKNOWN = "unknown"


class MergeError(InputError):
    """Shards contradict each other."""


@dataclass(frozen=True)
class Bucket:
    """The cells of a bucket with the shards that hold them."""

    members: Members
    predicted: Sequence[Source]
    trained: Sequence[Source]
    """They have the last word."""

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        return (*self.predicted, *self.trained)

    def write(self, folder: Path) -> Files:
        """Write the bucket as a zarr group; size and checksum of its files. Raises MergeError, SchemaError, OSError."""
        sizes, files = self._sizes(), Files()
        large = {entry.name: entry for entry in self._entries(sizes) if {"step", "mode"} & set(entry.dims)}
        dataset = self._dataset(sizes, large)
        validate(dataset, "store", f"bucket {self.members.bucket}")
        memory: dict[str, Any] = {}
        group = new_group(memory, dataset)
        arrays = {str(name): new_array(group, str(name), variable) for name, variable in dataset.variables.items()}
        for name in arrays.keys() - large.keys():
            write(arrays[name], dataset.variables[name])
        files |= save(folder, take(memory))
        for name, entry in large.items():
            for part in self._parts(entry, dataset.variables[name]):
                arrays[name][tuple(part if dim == "cell" else slice(None) for dim in entry.dims)] = self._part(entry, sizes, part).values
                files |= save(folder, take(memory))
        return files

    def _dataset(self, sizes: dict[str, int], large: dict[str, Entry]) -> xr.Dataset:
        """Coordinates and numbers of each cell; of large variables only what they will be."""
        variables = self.members.variables()
        for entry in self._entries(sizes):
            if entry.name not in variables:
                everything = slice(0, sizes["cell"])
                variables[entry.name] = _promise(entry, sizes) if entry.name in large else self._part(entry, sizes, everything)
        if "tier" in sizes:
            variables["tier"] = xr.Variable(("tier",), np.array(self._tiers, object))
        for name in ("regime", "standing"):
            values = variables[name].values if name in variables else np.full(sizes["cell"], "", object)
            variables[name] = xr.Variable(("cell",), np.where(values == "", UNKNOWN, values).astype(object))
        return normalise(xr.Dataset(variables))

    def _entries(self, sizes: dict[str, int]) -> Iterator[Entry]:
        """What the bucket has: what every store has, and what some shard holds; no tier where no closed regime holds."""
        for entry in ENTRIES.values():
            held = "store" in entry.required or any(entry.name in source.metadata for source in self.sources)
            if held and entry.name != "tier" and all(dim in sizes for dim in entry.dims):
                yield entry

    @cached_property
    def _tiers(self) -> list[str]:
        present = {tier for source in self.predicted for tier in source.tiers}
        return [tier for tier in TIERS if tier in present]

    def _sizes(self) -> dict[str, int]:
        sizes = {"cell": len(self.members.cells), "step": len(self.members.cells[0].step_grid())}
        for source in (*self.trained, *self.predicted):
            for dim, length in source.sizes().items():
                if dim in ("step", "mode") and sizes.setdefault(dim, length) != length:
                    raise MergeError(
                        f"{source.path}: {length} entries along `{dim}`, {sizes[dim]} in other shards of bucket {self.members.bucket}: "
                        "they come from different versions of the study. Way out: delete the shard with its .json, rerun."
                    )
        sizes.setdefault("mode", 0)  # no cell ran, so the number of watched modes is unknown
        return sizes | ({"tier": len(self._tiers)} if self._tiers else {})

    def _parts(self, entry: Entry, variable: xr.Variable) -> Iterator[slice]:
        """Rows to write at a time: whole files. None where there is nothing but NaN, which is what zarr gives where no chunk is."""
        if np.dtype(entry.dtype).kind == "f" and not any(entry.name in source.metadata for source in self.sources):
            return
        file, cells = cells_in_file(variable), variable.sizes["cell"]
        step = max(PART_BYTES // (file * cell_bytes(variable)), 1) * file
        yield from (slice(start, min(start + step, cells)) for start in range(0, cells, step))

    def _part(self, entry: Entry, sizes: dict[str, int], part: slice) -> xr.Variable:
        """Some rows of a variable; fill values where no shard holds it."""
        values = empty(entry, tuple(part.stop - part.start if dim == "cell" else sizes[dim] for dim in entry.dims))
        target = np.moveaxis(values, entry.dims.index("cell"), 0)
        for source in self.sources:
            rows = np.flatnonzero((source.places >= part.start) & (source.places < part.stop))
            if entry.name in source.metadata and len(rows):
                self._place(target, entry, source, rows, part.start)
        if entry.name == "step_number":  # steps of cells that did not run are known all the same
            for k in np.flatnonzero(values[:, -1] < 0):
                values[k] = self.members.cells[part.start + k].step_grid()
        return xr.Variable(entry.dims, values)

    def _place(self, target: np.ndarray, entry: Entry, source: Source, rows: np.ndarray, start: int) -> None:
        values = np.moveaxis(source.read(entry.name), entry.dims.index("cell"), 0)[rows]
        places = source.places[rows] - start
        if "tier" in entry.dims:
            target[np.ix_(places, [self._tiers.index(tier) for tier in source.tiers])] = values
        else:
            target[places] = values


def _promise(entry: Entry, sizes: dict[str, int]) -> xr.Variable:
    """A variable whose values come later, without memory."""
    return xr.Variable(entry.dims, np.broadcast_to(np.zeros((), entry.dtype), tuple(sizes[dim] for dim in entry.dims)))
