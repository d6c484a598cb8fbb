"""Fitted exponents, as the scaling figures and the verdict read them."""

from __future__ import annotations

import pandas as pd

from nqf_pipeline.analysis.sources import leading
from nqf_pipeline.report.data import Findings, typical
from nqf_pipeline.report.kinds import kinds

AXES = {"feature_power_law": ("alpha1", "alpha2"), "sample_power_law": ("gamma1", "gamma2")}
"""The exponents that span each ensemble's grid."""
SYMBOLS = {"alpha1": "α₁", "alpha2": "α₂", "gamma1": "γ₁", "gamma2": "γ₂", "theta": "θ", "beta": "β"}
_RESULTS = frozenset({"status", "reason", "cell", "seed", "steps", "experiment", "diverged_step"})
"""Columns of both fits and cells that name no setting."""


def fits(study: Findings, task: str, source: str = "network") -> pd.DataFrame:
    """Rows of the exponents table that hold a value, resolved or not; twins trained alone stand among the networks."""
    table = study.exponents
    if table.empty:
        return table
    table = leading(table) if source == "network" else table[table["source"] == source]
    return table[table["task"].str.startswith(task) & table["exponent"].notna()]


def resolved(table: pd.DataFrame) -> pd.DataFrame:
    """The fits that count."""
    return table[table["status"] == "ok"] if len(table) else table


def ensembles(study: Findings) -> dict[str, pd.DataFrame]:
    """Fitted exponents of the networks, per kind of ensemble."""
    found = {task: resolved(fits(study, task)) for task in AXES}
    return {task: table for task, table in found.items() if len(table)}


def predicted_only(study: Findings) -> dict[str, pd.DataFrame]:
    """Exponents of theory's curves where nothing is trained, per kind of ensemble; empty where any is fitted to a trained curve."""
    if ensembles(study):
        return {}
    found = {task: resolved(fits(study, task, "theory")) for task in AXES}
    return {task: only for task, table in found.items() if len(only := table[kinds(table) == "nothing"])}


def fit_of(study: Findings, cell: pd.Series, source: str = "network") -> pd.Series | None:
    """The fit of the setting to which a cell belongs, resolved or not; None where there is no value."""
    table = fits(study, str(cell["task"]), source)
    for name in [name for name in table if name in cell.index and name not in _RESULTS]:
        table = table[table[name].isna() if pd.isna(cell[name]) else table[name] == cell[name]]
    return table.iloc[0] if len(table) else None


def why_not(study: Findings, task: str) -> str:
    """The most common reason why the networks of a task have no exponent; empty where all have one."""
    table = study.exponents
    if table.empty:
        return ""
    table = leading(table)
    table = table[table["task"].str.startswith(task) & (table["status"] != "ok")]
    return str(table["reason"].mode().iloc[0]) if len(table) else ""


def grid_points(study: Findings, rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(name, rows) of every grid point of the ensembles, at the typical setting of whatever else is swept."""
    found = []
    free = {"epsilon", "sigma", "seed"} | (set(rows.columns) - set(study.index.columns))
    for task, axes in AXES.items():
        part = rows[rows["task"] == task]
        for point, group in part.groupby(list(axes), sort=True) if len(part) else ():
            name = ", ".join(f"{SYMBOLS[axis]} = {value:g}" for axis, value in zip(axes, point, strict=True))
            found.append((name, typical(group, list(axes), free)))
    return found
