"""Cells of a store by their coordinates, and the curves of chosen cells, read many cells at a time and without dask's graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from nqf_pipeline.store.schema import TIERS

READ_BYTES = 64 * 2**20
"""Curves of several groups are read together up to this size."""


@dataclass(frozen=True, slots=True)
class Values:
    """One variable of one cell. An `xr.Variable` would say the same at thirty times the cost, which counts for every curve of a study."""

    dims: tuple[Any, ...]
    array: np.ndarray

    def to_numpy(self) -> np.ndarray:
        return self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype, copy=copy)


@dataclass(frozen=True)
class _Row(Mapping[str, Any]):
    """One cell of variables that were read for many."""

    block: Mapping[str, Values]
    place: int

    def __getitem__(self, name: str) -> Values:
        known = self.block[name]
        if "cell" not in known.dims:
            return known
        axis = known.dims.index("cell")
        return Values(known.dims[:axis] + known.dims[axis + 1 :], known.array[(slice(None),) * axis + (self.place,)])

    def __iter__(self) -> Iterator[str]:
        return iter(self.block)

    def __len__(self) -> int:
        return len(self.block)


@dataclass(frozen=True)
class Curves:
    """The trajectories of one cell."""

    cell: pd.Series
    data: Mapping[str, Any]
    """Variables of the cell by name (`to_numpy()` gives the array), as read: those asked for, `step_number` and `time`."""

    def of(self, name: str) -> np.ndarray | None:
        """One variable over (step[, mode]); None where the study did not record it."""
        if name not in self.data:
            return None
        values = self.data[name].to_numpy()
        return values if np.isfinite(values).any() else None

    def theory(self, name: str, tier: str) -> np.ndarray | None:
        """A prediction at one tier, None where it makes no statement."""
        if name not in self.data or "tier" not in self.data:
            return None
        tiers = self.data["tier"].to_numpy().tolist()
        if tier not in tiers:
            return None
        array = self.data[name]
        values = np.take(array.to_numpy(), tiers.index(tier), axis=array.dims.index("tier"))
        return values if np.isfinite(values).any() else None

    def finest(self, name: str) -> tuple[str, np.ndarray] | None:
        """The finest tier that predicts this cell."""
        for tier in reversed(TIERS):
            values = self.theory(name, tier)
            if values is not None:
                return tier, values
        return None

    def untrained(self, name: str) -> np.ndarray | None:
        """The values of `finest`, for curves that need no name."""
        finest = self.finest(name)
        return finest[1] if finest else None

    @property
    def time(self) -> np.ndarray:
        """Gradient-flow time, the axis on which exponents are fitted."""
        return self.data["time"].to_numpy()

    @property
    def steps(self) -> np.ndarray:
        return self.data["step_number"].to_numpy()


Nodes = Mapping[str, Mapping[Any, xr.Variable]]
"""Variables of every node of a store, by the node's path."""


def nodes_of(tree: xr.DataTree) -> Nodes:
    """The nodes that hold cells."""
    return {node.path: node.to_dataset().variables for node in tree.subtree if "cell" in node.dims}


def index_of(nodes: Nodes) -> pd.DataFrame:
    """One row a cell: its node, its position there, its coordinates."""
    frames = [_coordinates(path, variables) for path, variables in nodes.items()]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["node", "position", "task", "status"])


def _coordinates(path: str, variables: Mapping[Any, xr.Variable]) -> pd.DataFrame:
    frame = pd.DataFrame({str(name): values.to_numpy() for name, values in variables.items() if values.dims == ("cell",)})
    return frame.assign(node=path, position=np.arange(len(frame)))


def curves_of(nodes: Nodes, rows: pd.DataFrame, *names: str) -> Iterator[Curves]:
    """The named variables of the cells in some rows of the index, in their order."""
    for cells in curves_of_groups(nodes, [rows], *names):
        yield from cells


def curves_of_groups(nodes: Nodes, groups: Iterable[pd.DataFrame], *names: str) -> Iterator[list[Curves]]:
    """The same for many groups of rows: as many as `READ_BYTES` hold are read together."""
    wanted = tuple(dict.fromkeys((*names, "step_number", "time", "tier")))
    cost = {path: _bytes_per_cell(variables, wanted) for path, variables in nodes.items()}
    waiting: list[pd.DataFrame] = []
    size = 0.0
    for rows in groups:
        more = float(rows["node"].map(cost).sum())
        if waiting and size + more > READ_BYTES:
            yield from _read(nodes, waiting, wanted)
            waiting, size = [], 0.0
        waiting.append(rows)
        size += more
    yield from _read(nodes, waiting, wanted)


def _bytes_per_cell(variables: Mapping[Any, xr.Variable], names: Sequence[str]) -> float:
    sizes = [(variables[name].nbytes, variables[name].sizes.get("cell", 1)) for name in names if name in variables]
    return sum(size / max(cells, 1) for size, cells in sizes)


def _read(nodes: Nodes, groups: list[pd.DataFrame], names: Sequence[str]) -> Iterator[list[Curves]]:
    if not groups:
        return
    paths = np.concatenate([rows["node"].to_numpy(object) for rows in groups])
    positions = np.concatenate([rows["position"].to_numpy(int) for rows in groups])
    places = np.zeros(len(paths), int)
    blocks: dict[str, Mapping[str, Values]] = {}
    for path in dict.fromkeys(paths.tolist()):
        own = paths == path
        cells, places[own] = np.unique(positions[own], return_inverse=True)
        blocks[path] = _block(nodes[path], cells, names)
    first = 0
    for rows in groups:
        last = first + len(rows)
        found = zip(rows.iterrows(), paths[first:last].tolist(), places[first:last].tolist(), strict=True)
        yield [Curves(row, _Row(blocks[path], place)) for (_, row), path, place in found]
        first = last


def _block(variables: Mapping[Any, xr.Variable], cells: np.ndarray, names: Sequence[str]) -> Mapping[str, Values]:
    """Variables of some cells in memory, in ascending order of their positions."""
    stretch = slice(int(cells[0]), int(cells[-1]) + 1)
    wanted: Any = stretch if stretch.stop - stretch.start == len(cells) else cells
    chosen = {name: variables[name] for name in names if name in variables}
    parts = {name: values.isel(cell=wanted) if "cell" in values.dims else values for name, values in chosen.items()}
    return {name: Values(values.dims, values.to_numpy()) for name, values in parts.items()}


def where(frame: pd.DataFrame, **conditions: Any) -> pd.DataFrame:
    """Rows that equal every condition; floats within rounding. An absent column matches nothing."""
    for name, value in conditions.items():
        if name not in frame:
            return frame.iloc[:0]
        column = frame[name]
        frame = frame[np.isclose(column.astype(float), value, rtol=1e-9, atol=0.0)] if isinstance(value, float) else frame[column == value]
    return frame
