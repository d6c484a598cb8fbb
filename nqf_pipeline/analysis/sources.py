"""Which curves a cell has: those of its network and of its twin, of a twin alone, or none where it is only predicted."""

from __future__ import annotations

import pandas as pd
import xarray as xr

SOURCES = ("network", "twin")
TRAINED = {"network_and_twin": SOURCES, "twin": ("twin",), "nothing": ()}
"""By the coordinate `train`."""


def sources_of(dataset: xr.Dataset) -> tuple[str, ...]:
    """Trained curves of the cells of one bucket, which all train the same; a store from before `train` has both."""
    return TRAINED[str(dataset["train"].to_numpy()[0])] if dataset.sizes["cell"] and "train" in dataset.coords else SOURCES


def leading(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the curve that stands for each cell: its network's, or its twin's where that is trained alone."""
    if table.empty:
        return table
    alone = table["train"] == "twin" if "train" in table else False
    return table[(table["source"] == "network") | ((table["source"] == "twin") & alone)]


def with_networks(rows: pd.DataFrame) -> pd.DataFrame:
    """Cells (of a table, or of an index of the store) that have a network."""
    return rows[rows["train"] == "network_and_twin"] if "train" in rows else rows


def trained(rows: pd.DataFrame) -> pd.DataFrame:
    """Cells that have any trained curve."""
    return rows[rows["train"] != "nothing"] if "train" in rows else rows
