"""Small solvable ensembles on the diagonal network: prescribed modes of orthogonal features, and orthogonal samples.

Its structure is A_mu = Diag(x_mu) / 4, so x_mu = 4 lambda_mu gives a sample the eigenvalues lambda_{mu,k} (theory: section 3).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from nqf_pipeline.forms.modes import SampleBasis
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.models.diagonal import Diagonal
from nqf_pipeline.tasks.base import Problem, Task, TaskError
from nqf_pipeline.tasks.ensembles import haar
from nqf_pipeline.tasks.population import whole_population

Positive = Annotated[float, Field(gt=0)]


class Orthogonal(Task):
    """What the two ensembles share: one coordinate of a diagonal network per feature."""

    @property
    @abstractmethod
    def coordinates(self) -> int:
        """Inputs that the diagonal network must have."""

    def check(self, architecture: Architecture) -> None:
        if isinstance(architecture, Diagonal) and architecture.inputs == self.coordinates:
            return
        given = f"with inputs = {architecture.inputs}" if isinstance(architecture, Diagonal) else f"({architecture.name})"
        raise TaskError(
            f"task {self.name} has {self.coordinates} features, one coordinate each, which this architecture {given} cannot take; set "
            f"architecture: {{kind: diagonal, inputs: {self.coordinates}}}"
        )


class OrthogonalFeatures(Orthogonal):
    """As many samples as features, every sample of every feature: lambda_{mu,k} = sqrt(m C / 8) Q_{k,mu} with Q Haar-orthogonal.

    Each feature then obeys dz/dt = z (r_k - C z) by itself (Theorem 6), and its share of the initial loss is r_k^2 / (8 C).
    """

    kind: Literal["orthogonal_features"] = "orthogonal_features"
    rates: tuple[Positive, ...] = Field(default=(1.0, 0.5, 0.25, 0.125, 0.0625), min_length=1, description="growth rates r_k")
    saturation: Positive = Field(default=1.0, description="C_kk of all features")

    @property
    def coordinates(self) -> int:
        return len(self.rates)

    def problem(self, architecture: Architecture, rng: np.random.Generator) -> Problem:
        self.check(architecture)
        count = self.coordinates
        turn, scale = haar(count, count, rng), np.sqrt(count * self.saturation / 8)
        targets = count / (8 * scale) * np.array(self.rates) @ turn
        return whole_population(architecture, 4 * scale * turn, targets[None], count, np.ones((count, 1)))


class OrthogonalSamples(Orthogonal):
    """A_mu A_nu = 0: every sample reads features of its own, and learns by itself (Theorem 5).

    A mode is a sample here: its strength is f_mu / y_mu, its rate zeta_mu = (8 / m) max(eigenvalues) y_mu.
    """

    shared_data: ClassVar[bool] = True

    kind: Literal["orthogonal_samples"] = "orthogonal_samples"
    targets: tuple[Positive, ...] = Field(default=(1.0, 0.5, 0.25, 0.125), min_length=1, description="targets y_mu, one a sample")
    eigenvalues: tuple[Positive, ...] = Field(default=(1.0, 1.5, 2.0), min_length=1, description="eigenvalues of every A_mu")

    @property
    def coordinates(self) -> int:
        return len(self.targets) * len(self.eigenvalues)

    def problem(self, architecture: Architecture, rng: np.random.Generator) -> Problem:
        self.check(architecture)
        samples, size = len(self.targets), len(self.eigenvalues)
        readers = np.kron(np.eye(samples), np.array(self.eigenvalues))
        targets = np.array(self.targets)
        drawn = whole_population(architecture, 4 * readers.T, targets[None], 1, np.ones((self.coordinates, 1)))
        leader = np.arange(samples) * size + int(np.argmax(self.eigenvalues))
        return replace(drawn, modes=SampleBasis(leader, targets, readers))
