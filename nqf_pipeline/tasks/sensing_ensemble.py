"""Sensing matrices drawn to order: one ensemble for each solvable regime (theory: Theorems 4, 5, 6, 7 and 16), exact or disturbed."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field, field_validator

from nqf_pipeline.forms.modes import SingularBasis
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.models.sensing import MatrixSensing, PSDSensing, Sensing
from nqf_pipeline.tasks.base import Problem, Task, TaskError
from nqf_pipeline.tasks.ensembles import haar
from nqf_pipeline.tasks.population import population_problem

Array = Any
COHERENT = 0.5
"""Weight of off-diagonal elements beside diagonal ones in the `projected` ensemble: neither commuting nor isotropic."""


class SensingEnsemble(Task):
    """y = <S, G_T> for sensing matrices S with common eigenvectors P (two factors: singular vectors), or spanning all matrices.

    P is Haar-random and G_T = sum_k s_k p_k p_k^T. The samples are the whole population: nothing else is drawn.
    """

    kind: Literal["sensing_ensemble"] = "sensing_ensemble"
    matrices: Literal["proportional", "orthogonal_samples", "orthogonal_features", "commuting", "isotropic", "projected"] = Field(
        default="isotropic",
        description="`proportional`: S = c_mu P Diag(eigenvalues) P^T; `orthogonal_samples`: each S has eigenvectors of its own; "
        "`orthogonal_features`: eigenvalues of different eigenvectors are uncorrelated over samples; `commuting`: eigenvalues drawn from "
        "(0, 1), so that modes compete; `isotropic`: an orthonormal basis of all (symmetric) matrices; `projected`: the same with "
        "off-diagonal elements in the basis P at half weight (needs psd_sensing with start: orthonormal to stay in Theorem 16)",
    )
    strengths: tuple[float, ...] = Field(
        default=(1.0, 0.5, 0.25, 0.125),
        min_length=1,
        description="strengths s_k of the modes, one eigenvector each; with proportional or orthogonal samples one a sample (proportional: "
        "one in all), on the eigenvector of the largest eigenvalue, which wins the sample",
    )
    eigenvalues: tuple[float, ...] = Field(
        default=(1.0, 1.5, 2.0), min_length=1, description="eigenvalues of a sample: proportional and orthogonal samples"
    )
    samples: int = Field(default=8, ge=1, description="samples: proportional and commuting; the other ensembles have as many as they need")
    disturbance: float = Field(
        default=0.0,
        ge=0,
        description="size of a random Gaussian matrix added to each S, relative to S: how nearly the condition of the ensemble holds",
    )

    @field_validator("strengths")
    @classmethod
    def _non_zero(cls, strengths: tuple[float, ...]) -> tuple[float, ...]:
        if not all(s != 0 for s in strengths):
            raise ValueError("every strength must be different from 0: a mode of strength 0 has nothing to learn; leave it out")
        return strengths

    def problem(self, architecture: Architecture, rng: np.random.Generator) -> Problem:
        self.check(architecture)
        rows, columns = architecture.input_shape
        left = haar(rows, min(rows, columns), rng)
        right = left if isinstance(architecture, PSDSensing) else haar(columns, min(rows, columns), rng)
        inputs = self._disturbed(self._matrices(left, right, rng), rng)
        watched, strengths = self._watched(left.shape[1]), np.array(self.strengths)
        axes = left[:, watched], right[:, watched]
        structure = architecture.structure(inputs)
        targets = structure.apply((axes[0] * strengths) @ axes[1].T)
        if not architecture.positive:
            axes, strengths = (axes[0] * np.sign(strengths), axes[1]), np.abs(strengths)
        modes, start = SingularBasis(*axes, strengths), np.ones((architecture.unit_size, 1))
        return population_problem(inputs, targets, structure, structure.moments(targets), modes, start)

    def check(self, architecture: Architecture) -> None:
        if not isinstance(architecture, Sensing):
            raise TaskError(
                f"task sensing_ensemble draws sensing matrices, which {architecture.name} does not take; use psd_sensing or matrix_sensing"
            )
        if self.matrices == "projected" and isinstance(architecture, MatrixSensing):
            raise TaskError("task sensing_ensemble, matrices: projected needs one factor; use psd_sensing")
        room = min(architecture.input_shape)
        if self._needed > room:
            raise TaskError(
                f"task sensing_ensemble, matrices: {self.matrices} with {len(self.strengths)} strengths needs {self._needed} eigenvectors, "
                f"and {architecture.name} has {room}; give fewer strengths or eigenvalues, or a larger matrix"
            )
        if self.matrices == "proportional" and len(self.strengths) != 1:
            raise TaskError(
                f"task sensing_ensemble, strengths: proportional samples learn one number, and {len(self.strengths)} strengths are given; "
                "give one"
            )

    @property
    def _needed(self) -> int:
        shared = self.matrices in ("proportional", "orthogonal_samples")
        return len(self.strengths) * (len(self.eigenvalues) if shared else 1)

    def _watched(self, size: int) -> Array:
        """Index of the eigenvector of each strength."""
        first = int(np.argmax(self.eigenvalues)) if self.matrices in ("proportional", "orthogonal_samples") else 0
        stride = len(self.eigenvalues) if self.matrices == "orthogonal_samples" else 1
        return first + stride * np.arange(len(self.strengths))

    def _matrices(self, left: Array, right: Array, rng: np.random.Generator) -> Float[Array, "rows columns samples"]:
        if self.matrices in ("isotropic", "projected"):
            return self._spanning(left, right)
        return np.einsum("ak,mk,bk->abm", left, self._eigenvalues(left.shape[1], rng), right)

    def _eigenvalues(self, size: int, rng: np.random.Generator) -> Float[Array, "samples size"]:
        """One row a sample."""
        values = np.array(self.eigenvalues)
        if self.matrices == "proportional":
            return np.outer(rng.uniform(0.5, 1.5, self.samples), np.pad(values, (0, size - len(values))))
        if self.matrices == "orthogonal_samples":
            own = np.kron(np.eye(len(self.strengths)), values)
            return np.pad(own, ((0, 0), (0, size - own.shape[1]))) * np.sqrt(len(own))
        if self.matrices == "orthogonal_features":
            return haar(size, size, rng) * np.sqrt(size)
        return rng.uniform(0, 1, (self.samples, size))

    def _spanning(self, left: Array, right: Array) -> Float[Array, "rows columns samples"]:
        """An orthonormal basis, as many times the identity as there are samples; symmetric where there is one factor."""
        if left is not right:
            rows, columns = len(left), len(right)
            return np.eye(rows * columns).reshape(rows, columns, -1) * np.sqrt(rows * columns)
        i, j = np.triu_indices(len(left))
        basis = np.zeros((len(left), len(left), len(i)))
        off = np.sqrt(0.5) * (COHERENT if self.matrices == "projected" else 1.0)
        basis[i, j, np.arange(len(i))] = basis[j, i, np.arange(len(i))] = np.where(i == j, 1.0, off)
        return np.einsum("ai,ijm,bj->abm", left, basis, left) * np.sqrt(len(i))

    def _disturbed(self, matrices: Array, rng: np.random.Generator) -> Array:
        """Symmetric where the matrices are: only the symmetric part is seen then."""
        noise = rng.standard_normal(matrices.shape)
        size = np.linalg.norm(matrices, axis=(0, 1)) / np.sqrt(matrices[..., 0].size)
        return matrices + self.disturbance * size * noise if self.disturbance else matrices
