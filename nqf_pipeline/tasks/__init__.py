"""Tasks: what is to be learnt, from spectra drawn to order to a user's own arrays."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nqf_pipeline.tasks.base import Problem, Task, TaskError
from nqf_pipeline.tasks.power_law import FeaturePowerLaw, SamplePowerLaw
from nqf_pipeline.tasks.teacher import Teacher

AnyTask = Annotated[Teacher | FeaturePowerLaw | SamplePowerLaw, Field(discriminator="kind")]

TASKS: dict[str, type[Task]] = {str(cls.model_fields["kind"].default): cls for cls in (Teacher, FeaturePowerLaw, SamplePowerLaw)}

__all__ = ["TASKS", "AnyTask", "FeaturePowerLaw", "Problem", "SamplePowerLaw", "Task", "TaskError", "Teacher"]
