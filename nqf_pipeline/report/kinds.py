"""What was trained of a cell, in words: a twin alone, or nothing, is never counted as if it were a network."""

from __future__ import annotations

import pandas as pd

from nqf_pipeline.report.wording import listed

KINDS = {
    "network_and_twin": ("network beside its twin", "networks beside their twins"),
    "twin": ("twin alone", "twins alone"),
    "nothing": ("only predicted", "only predicted"),
}
"""By the coordinate `train`: one cell, many cells."""
ALONE = "twin (alone)"


def kinds(cells: pd.DataFrame) -> pd.Series:
    """What is trained of each cell; a table from before `train` has networks beside their twins."""
    if "train" not in cells:
        return pd.Series("network_and_twin", index=cells.index)
    return cells["train"].astype(object).where(cells["train"].notna(), "network_and_twin")


def counted(cells: pd.DataFrame) -> str:
    """'5 networks beside their twins, 20 twins alone and 75 only predicted'; kinds that there are."""
    counts = kinds(cells).value_counts()
    return listed([f"{counts[kind]:,} {names[int(counts[kind] != 1)]}" for kind, names in KINDS.items() if kind in counts])


def states(cells: pd.DataFrame) -> pd.Series:
    """What became of each cell: its kind where it is done, else its status."""
    return kinds(cells).map({kind: names[1] for kind, names in KINDS.items()}).where(cells["status"] == "done", cells["status"])


def lone(rows: pd.DataFrame) -> pd.Series:
    """Whether each row (of a table, or of an index of the store) is of a twin that was trained alone."""
    return kinds(rows) == "twin"


def whose(fits: pd.DataFrame) -> str:
    """' of twins alone', or how many of both there are; empty where all are of networks."""
    alone = int(lone(fits).sum())
    if not alone:
        return ""
    return " of twins alone" if alone == len(fits) else f" ({len(fits) - alone} of networks, {alone} of twins alone)"
