"""The cells of a study, bucket by bucket, in the order of their coordinates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import xarray as xr
from jaxtyping import Int

KEYS, LAST = ("architecture", "task", "optimizer"), ("experiment", "seed")
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


@dataclass(frozen=True)
class Members:
    """The wanted cells of one bucket."""

    bucket: str
    cells: tuple[CellRow, ...]
    columns: dict[str, list[Any]]
    """Their coordinates by name, in the order of the cells."""

    def variables(self) -> dict[str, xr.Variable]:
        """Coordinates come from the study, not from shards: a changed label must not need new training."""
        variables = {"cell": xr.Variable(("cell",), np.array([cell.id for cell in self.cells], object))}
        for name, values in self.columns.items():
            array = np.array(values)
            dtype = {"U": "object", "O": "object", "i": "int64", "b": "bool"}.get(array.dtype.kind, "float64")
            variables[name] = xr.Variable(("cell",), array.astype(dtype))
        return variables


def members_of(wanted: Iterable[CellRow]) -> Iterator[Members]:
    """The cells of each bucket, buckets by name."""
    buckets: dict[str, list[CellRow]] = defaultdict(list)
    for cell in wanted:
        buckets[cell.bucket].append(cell)
    for bucket in sorted(buckets):
        yield _members(bucket, buckets[bucket])


def _members(bucket: str, cells: list[CellRow]) -> Members:
    rows = [cell.coordinates() for cell in cells]
    names = [name for name in rows[0] if name not in _LABELS]
    columns = {name: [row.get(name) for row in rows] for name in names}
    order = _order([cell.id for cell in cells], columns)
    return Members(bucket, tuple(cells[k] for k in order), {name: [values[k] for k in order] for name, values in columns.items()})


def _order(ids: list[str], columns: dict[str, list[Any]]) -> list[int]:
    """Cells in the order of their coordinates; numbers by value, texts by alphabet, the id last. What is the same in all tells nothing."""
    middle = [name for name in columns if name not in {*KEYS, *LAST}]
    names = [name for name in (*KEYS, *middle, *LAST) if name in columns]
    ranks = [[_rank(value) for value in columns[name]] for name in names if len(set(columns[name])) > 1]
    keys = list(zip(*ranks, ids, strict=True))
    return sorted(range(len(ids)), key=keys.__getitem__)


def _rank(value: Any) -> tuple[int, float, str]:
    if isinstance(value, str):
        return 1, 0.0, value
    number = float("nan") if value is None else float(value)
    return (0, number, "") if number == number else (-1, 0.0, "")
