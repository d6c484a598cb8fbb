"""Which cells and rows of a study its figures, tables and sentences are about. Draws nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nqf_pipeline.models import ARCHITECTURES
from nqf_pipeline.report.data import Findings, narrowed, sort, typical
from nqf_pipeline.report.kinds import lone
from nqf_pipeline.report.names import readable
from nqf_pipeline.store.schema import TIERS
from nqf_pipeline.study.config import ReportSettings

EXACT = frozenset(kind for kind, cls in ARCHITECTURES.items() if cls.exactly_quadratic)
"""Networks that are their own twin: comparing the two says nothing."""
_SHOWN = frozenset({"architecture", "optimizer", "sigma", "cell", "source", "mode", "tier", "t_measured", "t_predicted", "relative_error"})


def networks(study: Findings) -> pd.DataFrame:
    """Finished networks of the largest experiment on a teacher task, at the typical setting of everything but optimizer, sigma and seed.

    One experiment is one grid: several at once would leave most panels empty.
    """
    rows = study.select()
    rows = rows[rows["task"].str.startswith("teacher")]
    if not rows.empty:
        rows = rows[rows["experiment"] == rows["experiment"].value_counts(sort=False).idxmax()]
    return _typical(rows)


def every_network(study: Findings) -> pd.DataFrame:
    """The same, with the largest experiment of each architecture that it lacks: for figures that give each its own panel or row."""
    first, rows = networks(study), study.select()
    rows = rows[rows["task"].str.startswith("teacher") & ~rows["architecture"].isin(first["architecture"])]
    parts = [part[part["experiment"] == part["experiment"].value_counts(sort=False).idxmax()] for _, part in rows.groupby("architecture")]
    return sort(pd.concat([first, _typical(pd.concat(parts))])) if parts else first


def chosen_setting(study: Findings, rows: pd.DataFrame) -> str:
    """' Of the settings swept, width 16 is shown.'; empty where these networks are of all settings."""
    narrow = narrowed(study.select(), rows)
    return f" Of the settings swept, {narrow} is shown." if narrow else ""


def _typical(rows: pd.DataFrame) -> pd.DataFrame:
    return typical(rows, ["architecture"], {"optimizer", "sigma", "seed", "momentum", "batch_size"})


def shown_sigma(rows: pd.DataFrame, look: ReportSettings) -> float:
    """The sigma of the settings where the study has it, else the smallest."""
    values = np.sort(rows["sigma"].unique())
    wanted = look.sigma
    return float(values[0] if wanted is None else values[np.argmin(np.abs(np.log(values / wanted)))])


def highlighted(rows: pd.DataFrame, look: ReportSettings) -> int:
    """The seed of the settings where the study has it, else the first."""
    seeds = sorted(rows["seed"].unique())
    return int(look.seed) if look.seed is not None and look.seed in seeds else int(seeds[0])


def matched_networks(study: Findings) -> pd.DataFrame:
    """One row per network, mode and tier whose ignition was both seen and predicted."""
    table = study.plateaus
    if table.empty:
        return table
    table = table[(table["source"] == "network") & (table["status"] == "matched")]
    return table[np.isfinite(table["relative_error"]) & ~((table["tier"] == "twin") & table["architecture"].isin(EXACT))]


def matched_alone(study: Findings) -> pd.DataFrame:
    """The same of twins that were trained without a network."""
    table = study.plateaus
    if table.empty:
        return table
    wanted = lone(table) & (table["source"] == "twin") & (table["status"] == "matched") & np.isfinite(table["relative_error"])
    return table.loc[wanted, [name for name in table if name in _SHOWN]]


def finest_predictions(table: pd.DataFrame) -> pd.DataFrame:
    """Per network and mode, the row of the finest tier that predicts without training."""
    ranks = {tier: i for i, tier in enumerate(TIERS)}
    found = pd.DataFrame({name: table[name].to_numpy() for name in ("cell", "mode")} | {"rank": table["tier"].map(ranks).to_numpy()})
    found = found[found["rank"].notna()].sort_values("rank", kind="stable").drop_duplicates(["cell", "mode"], keep="last")
    return table.iloc[found.index]


def inexact(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of networks that are more than a quadratic form; all rows where there are no such networks."""
    chosen = table[~table["architecture"].isin(EXACT) | (table["source"] == "twin")]
    return chosen if len(chosen) else table


def group_names(frame: pd.DataFrame) -> pd.Series:
    """'MLP, teacher': what a reader calls a family of buckets."""
    return frame["architecture"].map(readable) + ", " + frame["task"].map(readable)
