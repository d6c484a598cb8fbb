"""Cells of a store by their coordinates, and the curves of chosen cells, loaded one bucket at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from nqf_pipeline.store.schema import SCALARS, TIERS


@dataclass(frozen=True)
class Curves:
    """The trajectories of one cell."""

    cell: pd.Series
    data: xr.Dataset

    def of(self, name: str) -> np.ndarray | None:
        """One variable over (step[, mode]); None where the study did not record it."""
        if name not in self.data:
            return None
        values = self.data[name].to_numpy()
        return values if np.isfinite(values).any() else None

    def theory(self, name: str, tier: str) -> np.ndarray | None:
        """A prediction at one tier, None where it makes no statement."""
        if name not in self.data or tier not in list(self.data["tier"].to_numpy()):
            return None
        values = self.data[name].sel(tier=tier).to_numpy()
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


def index_of(tree: xr.DataTree) -> pd.DataFrame:
    """One row a cell: its node, its position there, its coordinates."""
    frames = [frame for node in tree.subtree if (frame := _coordinates(node)) is not None]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["node", "position", "task", "status"])


def _coordinates(node: xr.DataTree) -> pd.DataFrame | None:
    if "cell" not in node.dims:
        return None
    names = [str(name) for name, array in node.coords.items() if array.dims == ("cell",)]
    frame = pd.DataFrame({name: node.coords[name].to_numpy() for name in names})
    for name in SCALARS:
        if name not in frame and name in node.data_vars:
            frame[name] = node[name].to_numpy()
    return frame.assign(node=node.path, position=np.arange(len(frame)))


def curves_of(tree: xr.DataTree, rows: pd.DataFrame, *names: str) -> Iterator[Curves]:
    """The named variables of the cells in some rows of the index, in their order; each bucket is read once."""
    loaded: dict[Any, Curves] = {}
    for node, group in rows.groupby("node", sort=False):
        dataset = tree[str(node)].to_dataset()
        present = [name for name in (*names, "step_number", "time") if name in dataset]
        part = dataset[present].isel(cell=group["position"].to_list()).load()
        for i, (key, row) in enumerate(group.iterrows()):
            loaded[key] = Curves(row, part.isel(cell=i))
    for key in rows.index:
        yield loaded[key]


def where(frame: pd.DataFrame, **conditions: Any) -> pd.DataFrame:
    """Rows that equal every condition; floats within rounding. An absent column matches nothing."""
    for name, value in conditions.items():
        if name not in frame:
            return frame.iloc[:0]
        column = frame[name]
        frame = frame[np.isclose(column.astype(float), value, rtol=1e-9, atol=0.0)] if isinstance(value, float) else frame[column == value]
    return frame
