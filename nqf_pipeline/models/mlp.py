"""Two-layer perceptron: f = sum_i v_i phi(u_i . x), w = [u; v]."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.forms.structure import LinearStructure
from nqf_pipeline.models.activations import Activation, activate, is_smooth, slope
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.models.layout import Both, response

Array = Any


class MLP(Architecture):
    """Two-layer perceptron without biases."""

    whitenable = True

    kind: Literal["mlp"] = "mlp"
    inputs: int = Field(default=20, ge=1, description="input dimension")
    outputs: int = Field(default=8, ge=1, description="output dimension")
    activation: Activation = Field(default="tanh", description="nonlinearity phi with phi(0) = 0")

    @property
    def unit_size(self) -> int:
        return self.inputs + self.outputs

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.inputs,)

    @property
    def smooth(self) -> bool:
        return is_smooth(self.activation)

    def network(self, weights: Array, encoded: Array) -> Float[Array, "outputs samples"]:
        return self.by_row(weights, encoded).T

    def lay_out(self, encoded: Array) -> Both:
        return Both.of(encoded)

    def by_row(self, weights: Array, samples: Array | Both) -> Float[Array, "samples outputs"]:
        first, second = self.factors(weights)
        return activate(self.activation, response(samples, first)) @ second.T

    def factors(self, weights: Array) -> tuple[Array, Array]:
        return weights[: self.inputs], weights[self.inputs :]

    def structure(self, inputs: Array) -> LinearStructure:
        return LinearStructure(np.zeros((self.outputs, inputs.shape[-1])), slope(self.activation) * inputs)
