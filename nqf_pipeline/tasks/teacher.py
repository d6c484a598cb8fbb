"""Low-rank teacher: the architecture's own quadratic form with known modes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field, field_validator

from nqf_pipeline.forms.structure import Structure
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Population, Problem, Task, TaskError, require_streaming
from nqf_pipeline.tasks.directions import random_modes, rank_limit
from nqf_pipeline.tasks.ensembles import along_first_axis, covariance_root, inverse_root

Array = Any


class Teacher(Task):
    """y = f(0) + A(G_T) + noise with G_T = sum_k s_k u_k v_k^T, u_k and v_k random orthonormal directions."""

    kind: Literal["teacher"] = "teacher"
    strengths: tuple[float, ...] = Field(
        default=(1.0, 0.5, 0.25, 0.125),
        min_length=1,
        description="strengths s_k of the modes; equal ones are degenerate, negative ones unreachable for positive semidefinite models",
    )
    samples: int = Field(default=600, ge=1, description="training samples")
    test_samples: int = Field(default=600, ge=1, description="test samples")
    inputs: Literal["gaussian", "white", "correlated"] = Field(
        default="gaussian",
        description="standard normal entries; `white`: the training features' second moment is made exactly proportional to the identity, "
        "its mean kept (mlp and multi_head; plain Gaussian elsewhere); `correlated`: covariance of the given condition number along the "
        "first input axis",
    )
    condition: float = Field(default=10.0, ge=1, description="condition number of the covariance of correlated inputs")
    label_noise: float = Field(default=0.0, ge=0, description="standard deviation of the noise on the training and test targets")

    @field_validator("strengths")
    @classmethod
    def _non_zero(cls, strengths: tuple[float, ...]) -> tuple[float, ...]:
        if not all(np.isfinite(s) and s != 0 for s in strengths):
            raise ValueError("every strength must be finite and different from 0: a mode of strength 0 has nothing to learn; leave it out")
        return strengths

    def problem(self, architecture: Architecture, rng: np.random.Generator) -> Problem:
        self.check(architecture)
        train, test = self._inputs(architecture, rng)
        structure, test_structure = architecture.structure(train), architecture.structure(test)
        truth, modes = random_modes(structure, np.array(self.strengths), rng)
        targets, test_targets = (self._targets(s, truth, rng) for s in (structure, test_structure))
        return Problem(
            inputs=train,
            targets=targets,
            test_inputs=test,
            test_targets=test_targets,
            structure=structure,
            moments=structure.moments(targets),
            test_moments=test_structure.moments(test_targets),
            modes=modes,
            initial_scale=np.ones((architecture.unit_size, 1)),
            population=Population(architecture, truth, planted=True) if self._streams(architecture) else None,
        )

    def check_fresh(self, architecture: Architecture) -> None:
        require_streaming(self, architecture)
        if not self._streams(architecture):
            raise TaskError(
                "task teacher: an optimizer with `fresh: true` draws standard normal inputs without noise; use inputs: gaussian and "
                "label_noise: 0"
            )

    def _streams(self, architecture: Architecture) -> bool:
        return self.inputs == "gaussian" and self.label_noise == 0 and architecture.gaussian_inputs

    def check(self, architecture: Architecture) -> None:
        if architecture.layered:
            raise TaskError(
                f"task teacher plants the modes of one quadratic form, and {architecture.name} has one in every layer; use task "
                "teacher_network, digits or file"
            )
        structure = architecture.structure(np.zeros((*architecture.input_shape, 1)))
        room = rank_limit(structure)
        if len(self.strengths) > room:
            raise TaskError(
                f"task teacher, strengths: {len(self.strengths)} modes do not fit into {architecture.name}, whose order parameter has rank "
                f"{room} at most; give at most {room} strengths, or enlarge the architecture's inputs or outputs"
            )
        if self.inputs == "correlated" and not architecture.gaussian_inputs:
            raise TaskError(
                f"task teacher, inputs: correlated would mix the one-hot inputs of {architecture.name}, which name entries of a matrix; "
                "use inputs: gaussian, which draws them as the model reads them"
            )
        if self.inputs == "white" and architecture.whitenable and self.samples < architecture.input_shape[0]:
            raise TaskError(
                f"task teacher, inputs: white needs at least as many samples as features, but samples = {self.samples} < "
                f"{architecture.input_shape[0]}; raise samples or use inputs: gaussian"
            )

    def warnings(self, architecture: Architecture) -> list[str]:
        negative = [k for k, s in enumerate(self.strengths, 1) if s < 0]
        if not negative or not architecture.positive:
            return []
        message = (
            f"task teacher, strengths: modes {negative} are negative and {architecture.name} is positive semidefinite: their rate r is "
            "negative, so they are never learnt and their loss stays. Use an architecture with two factors, or positive strengths."
        )
        return [message]

    def _inputs(self, architecture: Architecture, rng: np.random.Generator) -> tuple[Array, Array]:
        shape = architecture.input_shape
        draw = architecture.draw_inputs(rng, self.samples + self.test_samples)
        if self.inputs == "correlated":
            draw = along_first_axis(covariance_root(shape[0], self.condition, rng), draw)
        train, test = draw[..., : self.samples], draw[..., self.samples :]
        if self.inputs == "white" and architecture.whitenable:
            _, moment = architecture.structure(train).second_moment()
            transform = inverse_root(moment) * np.sqrt(np.trace(moment) / len(moment))
            train, test = along_first_axis(transform, train), along_first_axis(transform, test)
        return train, test

    def _targets(self, structure: Structure, truth: Array, rng: np.random.Generator) -> Float[Array, "outputs samples"]:
        clean = structure.offset + structure.apply(truth)
        return clean + self.label_noise * rng.standard_normal(clean.shape)
