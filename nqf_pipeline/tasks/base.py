"""A task turns an architecture and a random stream into a problem: data, targets and the modes to watch."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.losses import Labels, LossName
from nqf_pipeline.forms.modes import ModeBasis
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.forms.structure import Structure
from nqf_pipeline.models.base import Architecture

Array = Any


@dataclass(frozen=True)
class Population:
    """A distribution to draw fresh samples from: standard normal inputs, labelled by a teacher (on NumPy or in compiled programs)."""

    architecture: Architecture
    """The teacher's own, which may be wider than the student's."""
    teacher: Array
    """Weights of the teacher network, or the reduced order parameter of a planted quadratic form."""
    planted: bool

    def label(self, inputs: Float[Array, "*input_shape samples"]) -> Float[Array, "outputs samples"]:
        """The teacher's outputs."""
        if not self.planted:
            return self.architecture.apply(self.teacher, inputs)
        structure = self.architecture.structure(inputs).like(inputs)
        return structure.offset + structure.apply(self.teacher)


@dataclass(frozen=True)
class Problem:
    """One data set with its structure, its second moments and its modes (NumPy, float64)."""

    inputs: Float[Array, "*input_shape samples"]
    targets: Float[Array, "outputs samples"]
    test_inputs: Float[Array, "*input_shape test_samples"]
    test_targets: Float[Array, "outputs test_samples"]
    structure: Structure
    moments: Moments
    """Of the training samples; under another loss than squared error, of the squared error with the same gradient at zero weights."""
    test_moments: Moments
    modes: ModeBasis
    initial_scale: Float[Array, "unit_size 1"]
    """Row profile of the initial weights (1 but for prescribed initial profiles), multiplied by sigma."""
    loss: LossName = "squared_error"
    labels: Labels | None = None
    """What outputs mean where targets are labels; None: no accuracy is measured."""
    population: Population | None = None
    """Where fresh samples come from; None where the data are all there is."""


class Task(BaseModel):
    """What is to be learnt. Fields are what a study may name."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    shared_data: ClassVar[bool] = False
    """The data do not depend on the seed, so lanes share one copy."""

    @property
    def name(self) -> str:
        return str(getattr(self, "kind"))  # noqa: B009

    @property
    def loss_name(self) -> LossName:
        """The loss that network and twin are trained with: squared error but for tasks with labels (`Labelled`)."""
        return "squared_error"

    @abstractmethod
    def problem(self, architecture: Architecture, rng: np.random.Generator) -> Problem:
        """Draw the problem. Raises `TaskError` when the architecture cannot take this data."""

    def check(self, architecture: Architecture) -> None:
        """Raise `TaskError` when the architecture cannot take this data, without drawing any (for planning)."""

    def check_fresh(self, architecture: Architecture) -> None:
        """Raise `TaskError` unless fresh samples can be drawn at every step."""
        raise TaskError(
            f"task {self.name}: its samples are all there is, so an optimizer with `fresh: true` finds none to draw; use a task that "
            "labels new inputs (teacher, teacher_network), or remove `fresh`"
        )

    @property
    def fingerprint(self) -> str:
        """What the data depend on besides the fields (the contents of a file); empty when nothing."""
        return ""

    def warnings(self, architecture: Architecture) -> list[str]:
        """What a user should know before running this task on this architecture (modes that can never be learnt)."""
        return []


class Labelled(Task):
    """A task whose targets may be labels, so that other losses than squared error make sense."""

    loss: LossName = Field(
        default="squared_error",
        description="`squared_error`; `logistic`, with labels 1 and -1; or `softmax_cross_entropy`, with one output for each class. "
        "Under the last two the modes watched are those of the gradient at zero weights, and strength 1 is what squared error with "
        "that gradient fits",
        json_schema_extra={"absent": "squared_error"},
    )

    @property
    def loss_name(self) -> LossName:
        return self.loss


def require_streaming(task: Task, architecture: Architecture) -> None:
    """Raise `TaskError` unless samples of this architecture can be drawn inside a compiled program."""
    if not (architecture.gaussian_inputs and architecture.streams):
        what = "its inputs are one-hot, not normal" if architecture.streams else "its structure is expanded at given samples"
        raise TaskError(
            f"task {task.name}: an optimizer with `fresh: true` cannot draw samples for {architecture.name} ({what}); remove `fresh` to "
            "train on a finite set"
        )


class TaskError(InputError):
    """The data are missing, malformed, or do not fit the architecture; the message says what to change."""
