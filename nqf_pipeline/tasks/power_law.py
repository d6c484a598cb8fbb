"""Ensembles with power-law spectra on the diagonal network: feature-wise and sample-wise scaling laws.

Both are orthogonal one-hot data x_mu = x_mu e_mu with m = p samples, for which each coordinate obeys
dz/dt = z (r - C z), r = 2 x y / m, C = x^2 / (2 m), and its share of the initial loss is V = y^2 / m = r^2 / (8 C)
(theory: Theorems 5 and 6). So r and V fix the data: y = sqrt(m V), x = r m / (2 y).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.forms.dense import refuse_huge
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.models.diagonal import Diagonal
from nqf_pipeline.tasks.base import Problem, Task, TaskError
from nqf_pipeline.tasks.population import whole_population

Vector = Float[Any, "modes"]


class PowerLaw(Task):
    """Prescribed rates r_k = k^-rate_exponent and loss shares V_k = k^-loss_exponent / 8, so r_1 = C_11 = 1 and z_1(inf) = 1."""

    shared_data: ClassVar[bool] = True

    initial_profile: float | None = Field(
        default=None,
        description="exponent b of the initial order parameter z_k(0) = epsilon k^-b; null: the one that makes z_k(0) / z_k(inf) the same "
        "for all modes",
    )
    watched: int = Field(default=24, ge=1, description="modes recorded one by one: the first 8 and a log-spaced selection of the others")

    @property
    @abstractmethod
    def count(self) -> int:
        """Modes p, equal to the number of samples."""

    @property
    @abstractmethod
    def exponents(self) -> tuple[float, float]:
        """(exponent of the rates r_k, exponent of the loss shares V_k)."""

    @property
    def profile(self) -> float:
        """The exponent b in use: z_k(inf) = r_k / C_kk ~ k^-(loss - rate exponent)."""
        rate, loss = self.exponents
        return loss - rate if self.initial_profile is None else self.initial_profile

    def problem(self, architecture: Architecture, rng: np.random.Generator) -> Problem:
        self.check(architecture)
        scale, targets = self._data()
        number = np.arange(1.0, self.count + 1)
        return whole_population(architecture, np.diag(scale), targets[None], self.watched, number[:, None] ** (-self.profile / 2))

    def _data(self) -> tuple[Vector, Vector]:
        """(x_k, y_k) of the one-hot samples."""
        number = np.arange(1.0, self.count + 1)
        rate, loss = self.exponents
        targets = np.sqrt(self.count * number**-loss / 8)
        return number**-rate * self.count / (2 * targets), targets

    def check(self, architecture: Architecture) -> None:
        if not isinstance(architecture, Diagonal):
            raise TaskError(
                f"task {self.name} needs an architecture with one coefficient per mode: diagonal, not {architecture.name}. "
                "Set architecture: {kind: diagonal} with inputs equal to the number of modes"
            )
        if architecture.inputs != self.count:
            raise TaskError(
                f"task {self.name} has {self.count} modes but the diagonal architecture has inputs = {architecture.inputs}; "
                "each mode is one coordinate, so set both to the same number"
            )
        refuse_huge(f"task {self.name}: {self.count} one-hot samples of {self.count} coordinates", self.count**2, "ask for fewer modes")


class FeaturePowerLaw(PowerLaw):
    """Orthogonal features with rates r_k = k^-alpha2 and loss shares V_k = k^-alpha1 / 8: E ~ tau^-((alpha1 - 1) / alpha2).

    The loss is the mean over samples, sum_k V_k in all; one epoch of data is the identity in mode space.
    """

    kind: Literal["feature_power_law"] = "feature_power_law"
    alpha1: float = Field(default=2.0, gt=1, description="exponent of the loss shares V_k; above 1, or the loss diverges with p")
    alpha2: float = Field(default=0.8, gt=0, description="exponent of the rates r_k; above 0, or all modes ignite together")
    modes: int = Field(default=1000, ge=1, description="number of modes p, equal to the inputs of the diagonal architecture")

    @property
    def count(self) -> int:
        return self.modes

    @property
    def exponents(self) -> tuple[float, float]:
        return self.alpha2, self.alpha1


class SamplePowerLaw(PowerLaw):
    """Orthogonal samples with rates zeta_mu = mu^-gamma2 and targets y_mu = mu^-gamma1 sqrt(m / 8).

    The sum of squared errors (m times this project's mean loss) falls as tau^-((2 gamma1 - 1) / gamma2).
    """

    kind: Literal["sample_power_law"] = "sample_power_law"
    gamma1: float = Field(default=1.0, gt=0.5, description="exponent of the targets y_mu; above 1/2, or their sum of squares diverges")
    gamma2: float = Field(default=0.8, gt=0, description="exponent of the rates zeta_mu; above 0, or all samples are learnt together")
    samples: int = Field(default=1000, ge=1, description="number of samples m, equal to the inputs of the diagonal architecture")

    @property
    def count(self) -> int:
        return self.samples

    @property
    def exponents(self) -> tuple[float, float]:
        return self.gamma2, 2 * self.gamma1
