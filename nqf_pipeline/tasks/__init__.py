"""Tasks: what is to be learnt, from spectra drawn to order to a user's own arrays."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nqf_pipeline.tasks.base import Problem, Task, TaskError
from nqf_pipeline.tasks.digits import Digits
from nqf_pipeline.tasks.file import File
from nqf_pipeline.tasks.fourier import Fourier, RawFourier
from nqf_pipeline.tasks.orthogonal import OrthogonalFeatures, OrthogonalSamples
from nqf_pipeline.tasks.power_law import FeaturePowerLaw, SamplePowerLaw
from nqf_pipeline.tasks.sensing_ensemble import SensingEnsemble
from nqf_pipeline.tasks.teacher import Teacher
from nqf_pipeline.tasks.teacher_network import TeacherNetwork

AnyTask = Annotated[
    Teacher
    | FeaturePowerLaw
    | SamplePowerLaw
    | OrthogonalFeatures
    | OrthogonalSamples
    | Fourier
    | RawFourier
    | Digits
    | File
    | TeacherNetwork
    | SensingEnsemble,
    Field(discriminator="kind"),
]

TASKS: dict[str, type[Task]] = {
    str(cls.model_fields["kind"].default): cls
    for cls in (
        Teacher,
        FeaturePowerLaw,
        SamplePowerLaw,
        OrthogonalFeatures,
        OrthogonalSamples,
        Fourier,
        RawFourier,
        Digits,
        File,
        TeacherNetwork,
        SensingEnsemble,
    )
}

__all__ = [
    "TASKS",
    "AnyTask",
    "Digits",
    "FeaturePowerLaw",
    "File",
    "Fourier",
    "OrthogonalFeatures",
    "OrthogonalSamples",
    "Problem",
    "RawFourier",
    "SamplePowerLaw",
    "SensingEnsemble",
    "Task",
    "TaskError",
    "Teacher",
    "TeacherNetwork",
]
