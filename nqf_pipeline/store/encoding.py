"""How arrays lie in zarr: chunks along `cell`, large arrays sharded, every chunk with a checksum of its own.

Numbers are shuffled by bits: float32 numbers in float64 arrays then take no more space than in float32 ones, because zero bits of many
numbers lie together. One thread a chunk (blosc's own threads would write their blocks in the order in which they finish).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

Members = dict[str, Any]
"""Files of a store in memory, as zarr's buffers."""

CHUNK_BYTES = 4 * 2**20
"""Most that a chunk holds, the least that a lazy read loads."""
SHARD_BYTES = 64 * 2**20
"""Most that one file holds; one file holds many chunks."""
_NUMBERS = (BloscCodec(cname="zstd", clevel=1, shuffle="bitshuffle"), Crc32cCodec())
_FLAT: Any = {"name": "default", "configuration": {"separator": "."}}
"""Chunks beside the metadata, without a folder for each dimension."""
_STRINGS = (BloscCodec(cname="zstd", clevel=1, shuffle="noshuffle"), Crc32cCodec())


def pack(dataset: xr.Dataset) -> dict[str, bytes]:
    """The files of a zarr v3 store that holds the dataset, in name order. Equal data give equal bytes."""
    members: Members = {}
    group = new_group(members, dataset)
    for name, variable in dataset.variables.items():
        write(new_array(group, str(name), variable), variable)
    return take(members)


def new_group(members: Members, dataset: xr.Dataset) -> zarr.Group:
    """A group in memory that says which arrays are coordinates, as xarray reads it (xarray's own writer takes five times as long)."""
    coordinates = " ".join(sorted(str(name) for name in dataset.coords if name not in dataset.dims))
    attributes = {str(name): value for name, value in dataset.attrs.items()} | ({"coordinates": coordinates} if coordinates else {})
    return zarr.create_group(MemoryStore(members), zarr_format=3, attributes=attributes)


def new_array(group: zarr.Group, name: str, variable: xr.Variable) -> zarr.Array[Any]:
    """The array of a variable, with fill values only."""
    text = variable.dtype.kind in "OUT"
    fill = _constant(variable)
    if fill is None:
        fill = np.nan if variable.dtype.kind == "f" else "" if text else np.zeros((), variable.dtype)[()]
    return group.create_array(
        name,
        shape=variable.shape,
        dtype=str if text else variable.dtype,
        compressors=_STRINGS if text else _NUMBERS,
        chunk_key_encoding=_FLAT,
        fill_value=fill,
        dimension_names=[str(dim) for dim in variable.dims],
        attributes=dict(variable.attrs),
        **_layout(variable),
    )


def write(array: zarr.Array[Any], variable: xr.Variable) -> None:
    """All values of a variable; nothing where the fill value says them already."""
    if _constant(variable) is None and variable.size:
        array[...] = variable.values


def take(members: Members) -> dict[str, bytes]:
    """The files written so far, in name order; they leave the store."""
    return {name: members.pop(name).to_bytes() for name in sorted(members)}


def memory_store(files: Mapping[str, bytes]) -> MemoryStore:
    """What `pack` gave as a store to read."""
    make = default_buffer_prototype().buffer.from_bytes
    return MemoryStore({name: make(data) for name, data in files.items()}, read_only=True)


def unpack(files: Mapping[str, bytes]) -> xr.Dataset:
    """The dataset in memory; the inverse of `pack`."""
    with xr.open_zarr(memory_store(files), consolidated=False, chunks=None) as opened:
        return opened.load()


def _constant(variable: xr.Variable) -> Any:
    """The one value of a small array, else None: such an array is its fill value, with no chunk and no file."""
    if variable.dims != ("cell",) or variable.size == 0:
        return None
    first = variable.values[0]
    return first if (variable.values == first).all() else None


def cell_bytes(variable: xr.Variable) -> int:
    """Bytes of one cell's row."""
    size = 16 if variable.dtype.kind in "OUT" else np.dtype(variable.dtype).itemsize
    return size * math.prod(length for dim, length in variable.sizes.items() if dim != "cell") or 1


def cells_in_file(variable: xr.Variable) -> int:
    """Cells whose rows share one file; the last file may hold fewer."""
    layout = _layout(variable)
    return int(layout.get("shards", layout["chunks"])[variable.dims.index("cell")])


def _layout(variable: xr.Variable) -> dict[str, Any]:
    """Chunks of a power of two of cells, so that the chunks of one array lie within those of another."""
    shape = tuple(max(size, 1) for size in variable.shape)
    if "cell" not in variable.dims:
        return {"chunks": shape}
    axis = variable.dims.index("cell")
    cells, row = shape[axis], cell_bytes(variable)
    inner = 2 ** (max(CHUNK_BYTES // row, 1).bit_length() - 1)
    if inner >= cells:
        return {"chunks": shape}
    outer = inner * min(max(SHARD_BYTES // (inner * row), 1), math.ceil(cells / inner))
    return {
        "chunks": tuple(inner if k == axis else length for k, length in enumerate(shape)),
        "shards": tuple(outer if k == axis else length for k, length in enumerate(shape)),
    }
