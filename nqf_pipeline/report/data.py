"""What figures read: the tables, and the curves of chosen cells loaded one bucket at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from nqf_pipeline.analysis.sources import with_networks
from nqf_pipeline.models import ARCHITECTURES
from nqf_pipeline.store.open import Study
from nqf_pipeline.store.schema import SCALARS, TIERS, Status
from nqf_pipeline.store.select import Curves, where

__all__ = ["Curves", "Findings", "ordered", "sort", "typical", "where"]
DONE = int(Status.done)
_RANK = {name: rank for rank, name in enumerate((*ARCHITECTURES, "gd", "sgd", "momentum", "adam", *TIERS))}
# Coordinates that name, derive from or follow the swept ones: never what tells two settings apart.
_FOLLOWING = frozenset(
    {"cell", "bucket", "node", "position", "experiment", "epsilon", "steps", "records", "time_scale", "learning_rate", "degrees"}
    | {"twin_width", "regime", "standing", *SCALARS}
)


class Findings:
    """A finished study as figures read it: its tables, and an index of all cells in the trajectory store."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.exponents = study.exponents
        self.window_scan = study.window_scan
        self.plateaus = study.plateaus
        self.drops = study.drops
        self.cells = study.cells
        self.timings = study.timings
        self.claims = study.claims
        self.spectra = study.spectra
        self.spectral_laws = study.spectral_laws
        self.attributes = study.arrays.attrs

    @property
    def index(self) -> pd.DataFrame:
        """One row a cell: its node, its position there, its coordinates."""
        return self.study.index

    def select(self, **conditions: Any) -> pd.DataFrame:
        """Finished cells with a network whose coordinates equal these; an absent coordinate matches nothing."""
        chosen = self.index[self.index["status"] == DONE] if "status" in self.index else self.index
        return where(with_networks(chosen), **conditions)

    def curves(self, rows: pd.DataFrame, *names: str) -> Iterator[Curves]:
        """The named variables of the chosen cells, in the order of `rows`; each bucket is read once."""
        return self.study.curves(rows, *names)


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
