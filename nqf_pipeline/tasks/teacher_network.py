"""A network as the teacher: the same architecture with random weights of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import lazy_loader
import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.arrays import labelled_problem
from nqf_pipeline.tasks.base import Population, Problem, Task, require_streaming

Array = Any
jax = lazy_loader.load("jax")


class TeacherNetwork(Task):
    """Teacher and student share an architecture: y = f_x(W_T), W_T drawn once; inputs are standard normal."""

    kind: Literal["teacher_network"] = "teacher_network"
    scale: float = Field(
        default=0.2, gt=0, description="standard deviation of the teacher's weights: the larger, the more of it no quadratic form can learn"
    )
    units: int | None = Field(default=None, ge=1, description="width of the teacher; null: that of the student")
    samples: int = Field(default=600, ge=1, description="training samples (held out when batches are fresh)")
    test_samples: int = Field(default=600, ge=1, description="test samples")
    modes: int = Field(
        default=4, ge=1, description="modes to record one by one, those of the input-output correlation; fewer where fewer exist"
    )

    def problem(self, architecture: Architecture, rng: np.random.Generator) -> Problem:
        inputs = architecture.draw_inputs(rng, self.samples + self.test_samples)
        teacher = architecture if self.units is None else architecture.model_copy(update={"width": self.units})
        population = Population(teacher, self.scale * teacher.initial(rng), planted=False)
        targets = _labels(population, inputs)
        train, test = ((inputs[..., part], targets[..., part]) for part in (slice(self.samples), slice(self.samples, None)))
        problem = labelled_problem(architecture, train, test, self.modes, "task teacher_network")
        return replace(problem, population=population)

    def check_fresh(self, architecture: Architecture) -> None:
        require_streaming(self, architecture)


def _labels(population: Population, inputs: Float[Array, "*input_shape samples"]) -> Float[np.ndarray, "outputs samples"]:
    """The teacher's outputs in double precision, whatever the process computes in."""
    with jax.enable_x64(True):
        return np.asarray(population.label(jax.numpy.asarray(inputs)))
