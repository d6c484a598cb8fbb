"""Fitted exponents, as the scaling figures and the verdict read them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nqf_pipeline.report.data import Findings, where

AXES = {"feature_power_law": ("alpha1", "alpha2"), "sample_power_law": ("gamma1", "gamma2")}
"""The exponents that span each ensemble's grid."""
SYMBOLS = {"alpha1": "α₁", "alpha2": "α₂", "gamma1": "γ₁", "gamma2": "γ₂", "theta": "θ", "beta": "β"}
_MATCHED = (*SYMBOLS, "epsilon")


def fitted(study: Findings, task: str, source: str = "network") -> pd.DataFrame:
    """Rows of the exponents table that hold a fitted value."""
    table = study.exponents
    if table.empty:
        return table
    return table[table["task"].str.startswith(task) & (table["source"] == source) & (table["status"] == "ok")]


def ensembles(study: Findings) -> dict[str, pd.DataFrame]:
    """Fitted exponents of the networks, per kind of ensemble."""
    found = {task: fitted(study, task) for task in AXES}
    return {task: table for task, table in found.items() if len(table)}


def fit_of(study: Findings, cell: pd.Series, source: str = "network") -> pd.Series | None:
    """The fit to which a cell's curve belongs, None where it was not resolved."""
    table = fitted(study, str(cell["task"]), source)
    names = [name for name in _MATCHED if name in table and name in cell.index and np.isfinite(cell[name])]
    table = where(table, **{name: float(cell[name]) for name in names})
    return table.iloc[0] if len(table) else None


def grid_points(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(name, rows) of every grid point of the ensembles."""
    found = []
    for task, axes in AXES.items():
        part = rows[rows["task"] == task]
        for point, group in part.groupby(list(axes), sort=True) if len(part) else ():
            found.append((", ".join(f"{SYMBOLS[name]} = {value:g}" for name, value in zip(axes, point, strict=True)), group))
    return found
