"""Fourier target on a grid: power-law coefficients b_k = k^-beta seen through features of strength s_k = k^-theta."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.models.base import Architecture
from nqf_pipeline.models.fourier_mlp import FourierMLP
from nqf_pipeline.tasks.arrays import Split, data_problem
from nqf_pipeline.tasks.base import Problem, Task, TaskError
from nqf_pipeline.tasks.population import whole_population

Array = Any


class Fourier(Task):
    """y = sum_k b_k psi_k on the periodic grid x_j = j / M; the network's inputs are s_k psi_k.

    r_k = 4 s_k b_k / sqrt P and C_kk = 2 s_k^2 / P, so alpha2 = theta + beta, alpha1 = 2 beta, exponent (2 beta - 1) / (theta + beta).
    """

    shared_data: ClassVar[bool] = True

    kind: Literal["fourier"] = "fourier"
    beta: float = Field(default=1.5, gt=0.5, description="exponent of the target's coefficients b_k; above 1/2, or its norm diverges")
    theta: float = Field(default=0.5, ge=0, description="exponent of the feature strengths s_k")
    grid: int = Field(default=256, ge=3, description="grid points M, more than features")
    watched: int = Field(default=24, ge=1, description="modes recorded one by one: the first 8 and a log-spaced selection of the others")

    def problem(self, architecture: Architecture, rng: np.random.Generator) -> Problem:
        self.check(architecture)
        number = np.arange(1.0, architecture.width + 1)
        basis = fourier_basis(architecture.width, self.grid)
        inputs, targets = number[:, None] ** -self.theta * basis, (number**-self.beta @ basis)[None]
        return whole_population(architecture, inputs, targets, self.watched, np.ones((architecture.unit_size, 1)))

    def check(self, architecture: Architecture) -> None:
        if not isinstance(architecture, FourierMLP):
            raise TaskError(
                f"task fourier gives one feature to each unit and needs architecture fourier_mlp, not {architecture.name}; "
                "set architecture: {kind: fourier_mlp}"
            )
        if architecture.width >= self.grid:
            raise TaskError(
                f"task fourier, grid: {self.grid} points carry at most {self.grid - 1} orthogonal features, but fourier_mlp has "
                f"width = {architecture.width}; raise grid above {architecture.width} or lower width"
            )


class RawFourier(Task):
    """The target of `fourier` for a network that reads the grid point x_j = j / M itself: no power law is declared."""

    shared_data: ClassVar[bool] = True

    kind: Literal["fourier_raw"] = "fourier_raw"
    beta: float = Field(default=1.5, gt=0.5, description="exponent of the target's coefficients b_k; above 1/2, or its norm diverges")
    features: int = Field(default=64, ge=1, description="Fourier features in the target, P")
    grid: int = Field(default=256, ge=3, description="grid points M, more than features")

    def problem(self, architecture: Architecture, rng: np.random.Generator) -> Problem:
        self.check(architecture)
        points = (np.arange(self.grid) / self.grid)[:, None]
        targets = np.arange(1.0, self.features + 1) ** -self.beta @ fourier_basis(self.features, self.grid)
        whole = Split(points, targets[:, None], points, targets[:, None])
        return data_problem(whole, architecture, 1, f"task {self.name}")

    def check(self, architecture: Architecture) -> None:
        if architecture.input_shape != (1,) or architecture.output_size != 1:
            raise TaskError(
                f"task {self.name} has one number in and one out, and {architecture.name} reads inputs of shape {architecture.input_shape} "
                f"and has {architecture.output_size} output(s); set architecture: {{kind: mlp, inputs: 1, outputs: 1}}"
            )
        if self.features >= self.grid:
            raise TaskError(f"task {self.name}, grid: {self.grid} points carry fewer than {self.grid} orthogonal features; raise grid")


def fourier_basis(count: int, grid: int) -> Float[np.ndarray, "count grid"]:
    """sqrt 2 sin(2 pi n x), sqrt 2 cos(2 pi n x), n = 1, 2, ...: mean over the grid of psi_k psi_l = delta_kl.

    At the Nyquist frequency the sine vanishes on the grid and the cosine has norm 1 without the sqrt 2.
    """
    frequency = np.arange(count) // 2 + 1
    phase = 2 * np.pi * frequency[:, None] * np.arange(grid) / grid
    basis = np.sqrt(2.0) * np.where(np.arange(count)[:, None] % 2 == 0, np.sin(phase), np.cos(phase))
    if count == grid - 1 and grid % 2 == 0:
        basis[-1] = np.cos(phase[-1])
    return basis
