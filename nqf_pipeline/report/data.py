"""What figures read: the tables, and the curves of chosen cells loaded one bucket at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from nqf_pipeline.analysis.sources import trained, with_networks
from nqf_pipeline.models import ARCHITECTURES
from nqf_pipeline.report.wording import listed, number
from nqf_pipeline.store.open import Study
from nqf_pipeline.store.schema import SCALARS, TIERS, Status
from nqf_pipeline.store.select import Curves, where
from nqf_pipeline.store.tables import TABLES, read_table

__all__ = ["Curves", "Findings", "narrowed", "ordered", "sort", "typical", "where"]
DONE = int(Status.done)
_SETTING = frozenset({"architecture", "task", "optimizer", "sigma", "epsilon", "seed", "cell", "train", "width", "samples", "time_scale"})
_FOUND = frozenset(
    {"source", "mode", "mode_numbers", "number", "tier", "t_measured", "t_predicted", "t_asymptotic", "relative_error", "status"}
)
_CELLS = frozenset({"status", "remedy", "bucket", "diverged_step", "regime", "standing", "departure_step", "largest_divergence"})
_CELLS |= {"largest_mode_gap", "kernel_change", "kernel_turn", "twin_width", "degrees", "experiment", "gradient_share", "gradient_gap"}
USED = dict.fromkeys(("plateaus", "drops"), _SETTING | _FOUND) | {"cells": _SETTING | _CELLS}
"""Columns of the tables with many rows a cell that are read: at 100,000 cells all of them would be gigabytes."""
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
        self.attributes = study.arrays.attrs

    def __getattr__(self, name: str) -> pd.DataFrame:
        """A table, when first asked for; of the long ones, the columns that figures and page use."""
        if name not in TABLES:
            raise AttributeError(name)
        table = read_table(self.study.path, name, USED.get(name))
        setattr(self, name, table)
        return table

    @property
    def index(self) -> pd.DataFrame:
        """One row a cell: its node, its position there, its coordinates."""
        return self.study.index

    @property
    def done(self) -> pd.DataFrame:
        """Finished cells of the index, whatever is trained of them."""
        return self.index[self.index["status"] == DONE] if "status" in self.index else self.index

    def best(self, chosen: pd.Series) -> pd.DataFrame:
        """Of the chosen finished cells, those with a network; where there are none, twins alone; where there are none, all."""
        rows = self.done[chosen]
        return next((part for part in (with_networks(rows), trained(rows)) if len(part)), rows)

    def select(self, **conditions: Any) -> pd.DataFrame:
        """Finished cells with a network whose coordinates equal these; an absent coordinate matches nothing."""
        return where(with_networks(self.done), **conditions)

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


def narrowed(frame: pd.DataFrame, chosen: pd.DataFrame) -> str:
    """'width 16': what the experiments of the chosen rows sweep within an architecture, and those rows do not; empty where nothing."""
    found: dict[str, list[Any]] = {}
    for (kind, experiment), part in chosen.groupby(["architecture", "experiment"]):
        every = frame[(frame["architecture"] == kind) & (frame["experiment"] == experiment)]
        for name in sorted(set(part.columns) - _FOLLOWING):
            if part[name].nunique(dropna=False) == 1 < every[name].nunique(dropna=False):
                found.setdefault(name, []).append(part[name].iloc[0])
    return listed([f"{name.replace('_', ' ')} {' or '.join(map(_said, dict.fromkeys(values)))}" for name, values in found.items()])


def _said(value: Any) -> str:
    return number(float(value)) if isinstance(value, (int, float, np.number)) and not isinstance(value, bool) else str(value)


def _most_common(group: pd.DataFrame, swept: list[str]) -> pd.DataFrame:
    for name in swept:
        if group[name].nunique(dropna=False) > 1:
            group = group[group[name] == group[name].mode().iloc[0]]
    return group
