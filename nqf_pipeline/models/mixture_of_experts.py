"""Mixture of linear experts: f = sum_i psi(r_i . x) Theta_i x, w = [r; vec Theta]."""

from __future__ import annotations

from typing import Any, Literal

import lazy_loader
import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.forms.structure import GatedStructure
from nqf_pipeline.models.activations import Activation, activate, is_smooth, slope
from nqf_pipeline.models.base import Architecture

Array = Any
jax = lazy_loader.load("jax")


class MixtureOfExperts(Architecture):
    """Linear experts, each behind its own gate psi with psi(0) = 0. Units are experts.

    Gate and expert read the same input, so data determine only the symmetric part of each output's block of G.
    """

    kind: Literal["mixture_of_experts"] = "mixture_of_experts"
    width: int = Field(default=64, ge=1, description="number of experts")
    inputs: int = Field(default=20, ge=1, description="input dimension")
    outputs: int = Field(default=1, ge=1, description="output dimension")
    activation: Activation = Field(default="tanh", description="gate psi with psi(0) = 0")

    @property
    def unit_size(self) -> int:
        return self.inputs * (1 + self.outputs)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.inputs,)

    @property
    def smooth(self) -> bool:
        return is_smooth(self.activation)

    def network(self, weights: Array, encoded: Array) -> Float[Array, "outputs samples"]:
        experts, router = self.factors(weights)
        gates = activate(self.activation, router.T @ encoded)
        mixed = (experts @ gates).reshape(self.outputs, self.inputs, -1)
        return jax.numpy.einsum("odm,dm->om", mixed, encoded)

    def factors(self, weights: Array) -> tuple[Array, Array]:
        return weights[self.inputs :], weights[: self.inputs]

    def structure(self, inputs: Array) -> GatedStructure:
        return GatedStructure(np.zeros((self.outputs, inputs.shape[-1])), inputs, slope(self.activation) * inputs)
