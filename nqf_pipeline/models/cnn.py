"""One-layer convolutional network, sum pooled: f = sum_i v_i sum_p phi(k_i . x_p), w = [k; v]."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Float
from pydantic import Field, model_validator

from nqf_pipeline.forms.structure import LinearStructure, namespace
from nqf_pipeline.models.activations import Activation, activate, is_smooth, slope
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.models.layout import Both, response

Array = Any
Size = tuple[int, int]


class CNN(Architecture):
    """One convolution over the valid positions of an image, sum pooled, without biases. Units are kernels."""

    kind: Literal["cnn"] = "cnn"
    image: Size = Field(default=(5, 7), description="rows and columns of the input image")
    kernel: Size = Field(default=(4, 5), description="rows and columns of a kernel")
    outputs: int = Field(default=8, ge=1, description="output dimension")
    activation: Activation = Field(default="tanh", description="nonlinearity phi with phi(0) = 0")

    @model_validator(mode="after")
    def _kernel_fits(self) -> Self:
        if not all(1 <= k <= n for k, n in zip(self.kernel, self.image, strict=True)):
            raise ValueError(f"kernel {self.kernel} must lie between (1, 1) and the image {self.image}, or it has no valid position")
        return self

    @property
    def unit_size(self) -> int:
        return self.kernel_size + self.outputs

    @property
    def kernel_size(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @property
    def positions(self) -> int:
        """Places of a kernel on the image."""
        down, right = self._steps
        return down * right

    @property
    def _steps(self) -> Size:
        down, right = (n - k + 1 for n, k in zip(self.image, self.kernel, strict=True))
        return down, right

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.image

    @property
    def smooth(self) -> bool:
        return is_smooth(self.activation)

    def encode(self, inputs: Float[Array, "rows columns samples"]) -> Float[Array, "kernel_size positions samples"]:
        """All patches, once per data set: the convolution is then one matrix product."""
        down, right = self._steps
        shifted = [inputs[r : r + down, c : c + right] for r in range(self.kernel[0]) for c in range(self.kernel[1])]
        return namespace(inputs).stack(shifted).reshape(self.kernel_size, self.positions, -1)

    def network(self, weights: Array, encoded: Array) -> Float[Array, "outputs samples"]:
        return self.by_row(weights, encoded).T

    def lay_out(self, encoded: Float[Array, "kernel_size positions samples"]) -> Both:
        return Both.of(encoded.reshape(self.kernel_size, -1))

    def by_row(self, weights: Array, samples: Array | Both) -> Float[Array, "samples outputs"]:
        kernels, readout = self.factors(weights)
        patches = samples if isinstance(samples, Both) else samples.reshape(self.kernel_size, -1)
        responses = activate(self.activation, response(patches, kernels))
        return responses.reshape(self.positions, -1, self.width).sum(0) @ readout.T

    def factors(self, weights: Array) -> tuple[Array, Array]:
        return weights[: self.kernel_size], weights[self.kernel_size :]

    def structure(self, inputs: Array) -> LinearStructure:
        offset = np.zeros((self.outputs, inputs.shape[-1]))
        return LinearStructure(offset, slope(self.activation) * self.encode(inputs).sum(1))
