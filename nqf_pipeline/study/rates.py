"""The measured constants of the static cost model: `rates.json`, written by `python -m benchmarks.cost`, read here and nowhere else."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat

from nqf_pipeline.study.cells import Cell

FILE = Path(__file__).with_name("rates.json")
MOMENTS, ROWWISE_MOMENTS, OTHER = "moments", "rowwise_moments", "other"
"""Families of programs besides those of an architecture's networks: one run on second moments, and networks that were not measured."""


class Family(BaseModel):
    """What programs of one family cost on one core, in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    dispatch: NonNegativeFloat = Field(description="of a step of a lane group, however many lanes and however small")
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


def family_name(cell: Cell) -> str:
    """The family that a cell's program is one of: one run on second moments, or the network of an architecture."""
    architecture = cell.architecture
    one_run = not cell.has_network or architecture.is_own_twin(cell.optimizer.batch_size)
    if one_run and cell.reads_moments:
        return ROWWISE_MOMENTS if architecture.pairing == "rowwise" else MOMENTS
    return architecture.name


def family(cell: Cell) -> Family:
    """The constants of a cell's program; those of a middling network where its architecture was not measured."""
    known = rates().families
    return known.get(family_name(cell), known[OTHER])
