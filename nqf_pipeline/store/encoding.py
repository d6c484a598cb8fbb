"""How arrays lie in zarr: chunks along `cell`, large arrays sharded, every chunk with a checksum of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

CHUNK_BYTES = 4 * 2**20
"""Least that a lazy read loads."""
SHARD_BYTES = 64 * 2**20
"""Most that one file holds; one file holds many chunks."""
_NUMBERS = (BloscCodec(cname="zstd", clevel=5, shuffle="shuffle"), Crc32cCodec())
_FLAT = {"name": "default", "configuration": {"separator": "."}}
"""Chunks beside the metadata, without a folder for each dimension."""
_STRINGS = (BloscCodec(cname="zstd", clevel=5, shuffle="noshuffle"), Crc32cCodec())


def pack(dataset: xr.Dataset) -> dict[str, bytes]:
    """The files of a zarr v3 store that holds the dataset, in name order."""
    members: dict[str, Any] = {}
    dataset.to_zarr(MemoryStore(members), mode="w", zarr_format=3, consolidated=False, encoding=encodings(dataset))
    return {name: members[name].to_bytes() for name in sorted(members)}


def unpack(files: Mapping[str, bytes]) -> xr.Dataset:
    """The dataset in memory; the inverse of `pack`."""
    make = default_buffer_prototype().buffer.from_bytes
    store = MemoryStore({name: make(data) for name, data in files.items()}, read_only=True)
    with xr.open_zarr(store, consolidated=False, chunks=None) as opened:
        return opened.load()


def encodings(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    """The encoding of every variable, from its values and shape only, so that equal data give equal bytes."""
    inner = max(CHUNK_BYTES // max(map(_cell_bytes, dataset.variables.values()), default=1), 1)
    return {str(name): _encoding(variable, inner) for name, variable in dataset.variables.items()}


def _encoding(variable: xr.Variable, inner: int) -> dict[str, Any]:
    text = variable.dtype.kind in "OUT"
    encoding: dict[str, Any] = {"compressors": _STRINGS if text else _NUMBERS, "chunk_key_encoding": _FLAT, **_layout(variable, inner)}
    constant = _constant(variable)
    if constant is not None:
        encoding["fill_value"] = constant  # such an array is its fill value: no chunk, no file
    if variable.dtype.kind in "iub":
        encoding["_FillValue"] = None  # a fill value attribute would turn integers into floats when read
    return encoding


def _constant(variable: xr.Variable) -> Any:
    """The one value of a small array, else None. NaN counts: it is the default fill value of floats already."""
    if variable.dims != ("cell",) or variable.size == 0:
        return None
    first = variable.values[0]
    return first if (variable.values == first).all() else None


def _cell_bytes(variable: xr.Variable) -> int:
    """Bytes of one cell's row."""
    size = 16 if variable.dtype.kind in "OUT" else np.dtype(variable.dtype).itemsize
    return size * math.prod(length for dim, length in variable.sizes.items() if dim != "cell") or 1


def _layout(variable: xr.Variable, inner: int) -> dict[str, Any]:
    """Chunks of `inner` cells, the same in every array of a bucket so that selections of cells stay aligned."""
    shape = tuple(max(size, 1) for size in variable.shape)
    if "cell" not in variable.dims:
        return {"chunks": shape}
    axis = variable.dims.index("cell")
    cells = shape[axis]
    if inner >= cells:
        return {"chunks": shape}
    chunks_in_shard = max(SHARD_BYTES // (inner * _cell_bytes(variable)), 1)
    outer = inner * min(chunks_in_shard, math.ceil(cells / inner))
    return {
        "chunks": tuple(inner if k == axis else length for k, length in enumerate(shape)),
        "shards": tuple(outer if k == axis else length for k, length in enumerate(shape)),
    }
