"""The measured constants of the static cost model: `rates.json`, written by `python -m benchmarks.cost`, read here and nowhere else."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat

from nqf_pipeline.dynamics.turns import in_turns
from nqf_pipeline.study.cells import Cell

FILE = Path(__file__).with_name("rates.json")
MOMENTS, ROWWISE_MOMENTS, AT_ONCE, OTHER = "moments", "rowwise_moments", "_at_once", "other"
"""Families of programs besides those of an architecture's networks: one run on second moments, lanes in turns or (larger twins) at once,
and networks that were not measured."""


class Family(BaseModel):
    """What programs of one family cost on one core, in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    dispatch: NonNegativeFloat = Field(description="of a step however small: of a lane group, or of a lane where lanes run in turns")
    rate: PositiveFloat = Field(description="arithmetic per second in float32 beyond that, nonlinearity, twin and update included")
    start: NonNegativeFloat = Field(description="first data, and compilation")
    cell: NonNegativeFloat = Field(description="data and weights of a cell")


class Rates(BaseModel):
    """All constants that are measured."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    measured: str = Field(description="machine and date")
    imports: NonNegativeFloat = Field(description="processor time of a job that trains nothing: interpreter, imports, exit")
    record: NonNegativeFloat = Field(description="what a record costs a lane however small it is")
    record_steps: NonNegativeFloat = Field(description="and how many steps of one lane beyond that")
    batch: NonNegativeFloat = Field(description="what drawing a minibatch adds to a step of one lane")
    double: PositiveFloat = Field(description="arithmetic in float64 against float32")
    families: dict[str, Family]


@cache
def rates() -> Rates:
    """As measured last."""
    return Rates.model_validate_json(FILE.read_text(encoding="utf-8"))


def on_moments(cell: Cell) -> bool:
    """Whether a cell is one run on second moments."""
    return (not cell.has_network or cell.is_own_twin) and cell.reads_moments


def lanes_in_turns(cell: Cell, side: int) -> bool:
    """Whether a cell's lanes run one after another, if on a CPU; `side` is that of its problem's largest matrix."""
    rows = cell.architecture.compressed_width - 1 if cell.twin == "compressed" else cell.architecture.unit_size
    columns = cell.twin_width if cell.twin == "compressed" else cell.architecture.width
    return on_moments(cell) and in_turns(side, rows * columns)


def family_name(cell: Cell, side: int) -> str:
    """The family that a cell's program is one of: one run on second moments, lanes in turns or at once, or an architecture's network."""
    if not on_moments(cell):
        return cell.architecture.name
    kind = ROWWISE_MOMENTS if cell.architecture.pairing == "rowwise" else MOMENTS
    return kind if lanes_in_turns(cell, side) else f"{kind}{AT_ONCE}"


def family(cell: Cell, side: int) -> Family:
    """The constants of a cell's program; those of a middling network where its architecture was not measured."""
    known = rates().families
    return known.get(family_name(cell, side), known[OTHER])
