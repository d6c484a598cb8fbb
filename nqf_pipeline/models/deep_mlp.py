"""Multi-layer perceptron as a stack of two-layer blocks: with two of them, 8-16-16-16-1 and a nonlinearity after every hidden layer."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

from pydantic import Field

from nqf_pipeline.models.activations import Activation, activate
from nqf_pipeline.models.mlp import MLP
from nqf_pipeline.models.stack import Stack

Array = Any


class DeepMLP(Stack):
    """Perceptron of 2 x `layers` layers without biases. A block is sum_i v_i phi(u_i . x); the next one reads phi of its outputs."""

    kind: Literal["deep_mlp"] = "deep_mlp"
    width: int = Field(default=16, ge=1, description="hidden neurons of every block: its units")
    inputs: int = Field(default=8, ge=1, description="input dimension")
    between: int = Field(default=16, ge=1, description="neurons between two blocks: outputs of the lower, inputs of the upper")
    outputs: int = Field(default=1, ge=1, description="output dimension")
    activation: Activation = Field(default="tanh", description="nonlinearity phi with phi(0) = 0")

    @property
    def blocks(self) -> tuple[MLP, ...]:
        sizes = [self.inputs, *[self.between] * (self.layers - 1), self.outputs]
        return tuple(self._block(*ends) for ends in pairwise(sizes))

    @property
    def single(self) -> MLP:
        return self._block(self.inputs, self.outputs)

    def handed(self, outputs: Array) -> Array:
        return activate(self.activation, outputs)

    def _block(self, inputs: int, outputs: int) -> MLP:
        return MLP(inputs=inputs, outputs=outputs, width=self.width, activation=self.activation)
