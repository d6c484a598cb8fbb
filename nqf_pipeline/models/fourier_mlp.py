"""Fourier MLP: f = P^-1/2 sum_k W_k tanh(a_k phi_k(x)), one unit per feature, w_k = [a_k; W_k]."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.forms.structure import DiagonalStructure
from nqf_pipeline.models.activations import Activation, activate, is_smooth, slope
from nqf_pipeline.models.base import Architecture

Array = Any


class FourierMLP(Architecture):
    """Unit k sees feature k alone. The features phi_k = s_k psi_k, strengths included, are its inputs: the task sets them."""

    pairing = "rowwise"
    exchangeable = False

    kind: Literal["fourier_mlp"] = "fourier_mlp"
    width: int = Field(default=64, ge=1, description="number of units and of features, P")
    activation: Activation = Field(default="tanh", description="nonlinearity phi with phi(0) = 0")

    @property
    def unit_size(self) -> int:
        return 2

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.width,)

    @property
    def smooth(self) -> bool:
        return is_smooth(self.activation)

    @property
    def degrees(self) -> int:
        """Each mode lives in one unit, whatever the width."""
        return 1

    def is_own_twin(self, batch_size: int | None) -> bool:
        """With a linear activation the network is its quadratic form, at any scale."""
        return self.activation == "linear" and batch_size is None

    def network(self, weights: Array, encoded: Array) -> Float[Array, "1 samples"]:
        inner, outer = weights
        return (outer @ activate(self.activation, inner[:, None] * encoded))[None] / self.width**0.5

    def factors(self, weights: Array) -> tuple[Array, Array]:
        return weights[0][:, None], weights[1][:, None]

    def structure(self, inputs: Array) -> DiagonalStructure:
        return DiagonalStructure(np.zeros((1, inputs.shape[-1])), slope(self.activation) * inputs / np.sqrt(self.width))
