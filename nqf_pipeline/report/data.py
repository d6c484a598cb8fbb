"""What figures read: the tables, and the curves of chosen cells loaded one bucket at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from nqf_pipeline.models import ARCHITECTURES
from nqf_pipeline.store.open import Study
from nqf_pipeline.store.schema import SCALARS, TIERS, Status

DONE = int(Status.done)
_RANK = {name: rank for rank, name in enumerate((*ARCHITECTURES, "gd", "sgd", "momentum", "adam", *TIERS))}
# Coordinates that name, derive from or follow the swept ones: never what tells two settings apart.
_FOLLOWING = frozenset(
    {"cell", "bucket", "node", "position", "experiment", "epsilon", "steps", "records", "time_scale", "learning_rate", "degrees"}
    | {"regime", "standing", *SCALARS}
)


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


class Findings:
    """A finished study as figures read it: its tables, and an index of all cells in the trajectory store."""

    def __init__(self, study: Study) -> None:
        self.exponents = study.exponents
        self.plateaus = study.plateaus
        self.cells = study.cells
        self.timings = study.timings
        self.attributes = study.trajectories.attrs
        self._tree = study.trajectories

    @cached_property
    def index(self) -> pd.DataFrame:
        """One row a cell: its node, its position there, its coordinates."""
        frames = [frame for node in self._tree.subtree if (frame := _coordinates(node)) is not None]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["node", "position", "task", "status"])

    def select(self, **conditions: Any) -> pd.DataFrame:
        """Finished cells whose coordinates equal these; an absent coordinate matches nothing."""
        chosen = self.index[self.index["status"] == DONE] if "status" in self.index else self.index
        return where(chosen, **conditions)

    def curves(self, rows: pd.DataFrame, *names: str) -> Iterator[Curves]:
        """The named variables of the chosen cells, in the order of `rows`; each bucket is read once."""
        loaded: dict[Any, Curves] = {}
        for node, group in rows.groupby("node", sort=False):
            dataset = self._tree[str(node)].to_dataset()
            present = [name for name in (*names, "step_number", "time") if name in dataset]
            part = dataset[present].isel(cell=group["position"].to_list()).load()
            for i, (key, row) in enumerate(group.iterrows()):
                loaded[key] = Curves(row, part.isel(cell=i))
        for key in rows.index:
            yield loaded[key]


def _coordinates(node: xr.DataTree) -> pd.DataFrame | None:
    if "cell" not in node.dims:
        return None
    names = [str(name) for name, array in node.coords.items() if array.dims == ("cell",)]
    frame = pd.DataFrame({name: node.coords[name].to_numpy() for name in names})
    for name in SCALARS:
        if name not in frame and name in node.data_vars:
            frame[name] = node[name].to_numpy()
    return frame.assign(node=node.path, position=np.arange(len(frame)))


def where(frame: pd.DataFrame, **conditions: Any) -> pd.DataFrame:
    """Rows that equal every condition; floats within rounding."""
    for name, value in conditions.items():
        if name not in frame:
            return frame.iloc[:0]
        column = frame[name]
        frame = frame[np.isclose(column.astype(float), value, rtol=1e-9, atol=0.0)] if isinstance(value, float) else frame[column == value]
    return frame


def ordered(values: pd.Series) -> list[Any]:
    """Distinct values, in the registry's order for architectures and optimizers, else ascending."""
    found = [value for value in values.dropna().unique() if value != ""]
    return sorted(found, key=lambda value: (_RANK.get(value, len(_RANK)), value))


def sort(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of `ordered`: architecture, optimizer, then seed."""
    keys = [name for name in ("architecture", "optimizer", "seed") if name in frame]
    ranks = [frame[name].map({value: i for i, value in enumerate(ordered(frame[name]))}).to_numpy() for name in keys]
    return frame.iloc[np.lexsort(ranks[::-1])] if keys else frame


def typical(frame: pd.DataFrame, by: list[str], free: set[str]) -> pd.DataFrame:
    """Per group, the cells at the most common value of everything swept but `free`: one setting per panel, whatever a study sweeps."""
    swept = sorted(set(frame.columns) - _FOLLOWING - free - set(by))
    parts = [_most_common(group, swept) for _, group in frame.groupby(by, sort=False)]
    return sort(pd.concat(parts)) if parts else frame


def _most_common(group: pd.DataFrame, swept: list[str]) -> pd.DataFrame:
    for name in swept:
        if group[name].nunique(dropna=False) > 1:
            group = group[group[name] == group[name].mode().iloc[0]]
    return group
