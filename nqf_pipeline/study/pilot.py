"""The pilot's table: what the buckets of a study cost where they were timed, `results/<study>/pilot.json`.

Written by `nqf plan --pilot`; planning only reads it. It decides how new cells are cut into shards and what estimates say, never what a
frozen shard holds.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, ValidationError

from nqf_pipeline.study.cost import Cost
from nqf_pipeline.study.errors import ConfigError


class Timing(BaseModel):
    """Rates of one bucket, in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    step: NonNegativeFloat = Field(description="a step of one lane among `lane_width`")
    record: NonNegativeFloat = Field(description="what one lane adds to one record")
    start: NonNegativeFloat = Field(description="a job until its first step")
    cell: NonNegativeFloat = Field(description="what one cell adds whatever its steps are")
    estimated_step: NonNegativeFloat = Field(description="the same by the static model when the pilot ran")
    lane_width: int = Field(ge=1, description="lanes that advanced together")

    def correct(self, estimate: Cost) -> Cost:
        """An estimate with what was measured in its place."""
        return replace(estimate, step=self.step, record=self.record, start=self.start, cell=self.cell, dispatch=0.0)


Table = dict[str, Timing]
"""By bucket."""


def read_pilot(path: Path) -> Table:
    """The table; empty where there is none. Raises ConfigError where it cannot be read."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return {str(bucket): Timing.model_validate(timing) for bucket, timing in values.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the pilot's table ({error.strerror}): check the results folder") from error
    except (ValueError, AttributeError, ValidationError) as error:
        raise ConfigError(
            f"{path}: the pilot's table is damaged ({str(error).splitlines()[0]}): delete it; the static cost model then takes its place "
            "until `nqf plan --pilot` times the buckets again. No shard changes"
        ) from error
