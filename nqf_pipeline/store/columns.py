"""A column of a table, and those that several tables share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Dtype = Literal["string", "float64", "int64"]


@dataclass(frozen=True)
class Column:
    """One column; key columns name the row and fix the order of rows."""

    name: str
    dtype: Dtype
    units: str
    meaning: str
    key: bool = False


SETTING = (
    Column("architecture", "string", "", "kind of network", key=True),
    Column("task", "string", "", "kind of task", key=True),
    Column("optimizer", "string", "", "kind of optimizer", key=True),
)
GROUP = (
    *SETTING,
    Column("sigma", "float64", "weight", "standard deviation of the initial weights", key=True),
    Column("epsilon", "float64", "weight^2", "degrees * sigma^2", key=True),
)
CELL = (
    *GROUP,
    Column("seed", "int64", "1", "seed of the cell", key=True),
    Column("cell", "string", "", "identity of the cell", key=True),
    Column("bucket", "string", "", "node of trajectories.zarr that holds the cell"),
)
STANDING = (
    Column("regime", "string", "", "solution that data and structure admit"),
    Column("standing", "string", "", "what the prediction is: exact, local, conditional, outside"),
)
