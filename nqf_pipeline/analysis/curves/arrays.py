"""Arrays: .npy, .npz and zarr (a folder or a .zip). One-dimensional arrays are columns; a matrix of losses is one run a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nqf_pipeline.analysis.curves.table import CurveError, Table

RUNS = 64
"""Most rows of a matrix taken as runs."""


def numpy_table(path: Path) -> Table:
    """The columns of a .npy or .npz file."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return _single(path, loaded)
        with loaded:
            return _named(path, {name: loaded[name] for name in loaded.files})
    except CurveError:
        raise
    except Exception as error:  # numpy raises whatever a damaged archive makes it raise
        raise CurveError(f"{path}: is not a readable NumPy file ({error}); write it with numpy.savez(path, step=..., loss=...)") from error


def zarr_table(path: Path) -> Table:
    """The columns of a zarr array or of the arrays of a group."""
    import zarr
    from zarr.storage import ZipStore

    try:
        store: Any = ZipStore(path, mode="r") if path.is_file() else str(path)
        node = zarr.open(store, mode="r")
        if isinstance(node, zarr.Array):
            return _single(path, np.asarray(node[...]))
        return _named(path, {name: np.asarray(array[...]) for name, array in node.arrays()})
    except CurveError:
        raise
    except Exception as error:  # stores and codecs each have their own errors
        raise CurveError(f"{path}: is not a readable zarr array or group ({error}); save step and loss as arrays of one group") from error


def _single(path: Path, array: np.ndarray) -> Table:
    if array.dtype.names:
        return _named(path, {name: array[name] for name in array.dtype.names})
    _check(path, "the array", array)
    table = Table()
    if array.ndim == 1:
        table.add("loss", array.tolist())
        return table
    columns = array.T if array.shape[0] >= array.shape[1] else array
    for position, values in enumerate(columns[:RUNS]):
        table.add(f"column {position + 1}", values.tolist())
    return table


def _named(path: Path, arrays: dict[str, np.ndarray]) -> Table:
    usable = {name: array for name, array in arrays.items() if array.dtype.kind in "buif" and array.ndim in (1, 2) and array.size}
    if not usable:
        found = ", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in list(arrays.items())[:6]) or "none"
        raise CurveError(f"{path}: has no array of numbers with one or two dimensions (found: {found}); save step and loss as such arrays")
    length = _length(path, usable)
    table = Table()
    for name, array in usable.items():
        if array.ndim == 1 and len(array) == length:
            table.add(name, array.tolist())
        elif array.ndim == 2 and length in array.shape:
            rows = array if array.shape[1] == length else array.T
            for position, values in enumerate(rows[:RUNS]):
                table.add(f"{name}[{position}]", values.tolist())
    return table


def _length(path: Path, arrays: dict[str, np.ndarray]) -> int:
    """The common number of records: that of the vectors."""
    lengths = {len(array) for array in arrays.values() if array.ndim == 1}
    if len(lengths) > 1:
        found = ", ".join(f"{name}: {len(array)}" for name, array in arrays.items() if array.ndim == 1)
        raise CurveError(f"{path}: its arrays have different lengths ({found}), so it is unclear which loss belongs to which time")
    return lengths.pop() if lengths else max(next(iter(arrays.values())).shape)


def _check(path: Path, what: str, array: np.ndarray) -> None:
    if array.dtype.kind not in "buif" or array.ndim not in (1, 2) or not array.size:
        raise CurveError(
            f"{path}: {what} has type {array.dtype} and shape {list(array.shape)}, but one or two dimensions of real numbers are needed"
        )
