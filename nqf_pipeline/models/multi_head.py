"""Multi-head attention: f = sum_h V_h WV_h X softmax(X^T WK_h^T WQ_h x / sqrt(dk))."""

from __future__ import annotations

from typing import Any, Literal

import lazy_loader
import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.forms.structure import LinearStructure
from nqf_pipeline.models.attention import Tokens, attended, attention
from nqf_pipeline.models.base import Architecture

Array = Any
jax = lazy_loader.load("jax")


class MultiHead(Architecture):
    """Attention with trained queries, keys, values and readouts. Units are heads, w = [vec WV^T; vec V; vec WK^T; vec WQ^T].

    At second order only values and readouts enter: attention is uniform at zero weights.
    """

    whitenable = True
    small_products = True

    kind: Literal["multi_head"] = "multi_head"
    width: int = Field(default=4, ge=1, description="number of heads")
    dimension: int = Field(default=20, ge=1, description="token dimension D")
    key_size: int = Field(default=8, ge=1, description="key and query dimension dk of a head")
    value_size: int = Field(default=20, ge=1, description="value dimension dv of a head")
    tokens: int = Field(default=16, ge=1, description="tokens N of an input; the last one asks")
    outputs: int = Field(default=8, ge=1, description="output dimension")

    @property
    def unit_size(self) -> int:
        return self.dimension * (self.value_size + 2 * self.key_size) + self.outputs * self.value_size

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.dimension, self.tokens)

    @property
    def degeneracy(self) -> int:
        return self.value_size

    def network(self, weights: Array, encoded: Array) -> Float[Array, "outputs samples"]:
        return self.by_row(weights, encoded).T

    def lay_out(self, encoded: Float[Array, "dimension tokens samples"]) -> Any:
        return Tokens.of(encoded)

    def by_row(self, weights: Array, samples: Array | Tokens) -> Float[Array, "samples outputs"]:
        values, readout = (factor.reshape(-1, self.value_size, self.width) for factor in self.factors(weights))
        keys, queries = weights[-2 * self.dimension * self.key_size :].reshape(2, self.dimension, self.key_size, self.width)
        mixed = attended(attention(keys, queries, samples), samples)
        # Readouts are folded into values, so nothing of size dv x samples is formed.
        folded = jax.numpy.einsum("ovh,dvh->hdo", readout, values)
        return mixed.reshape(-1, self.width * self.dimension) @ folded.reshape(-1, self.outputs)

    def factors(self, weights: Array) -> tuple[Array, Array]:
        split = self.dimension * self.value_size
        stop = split + self.outputs * self.value_size
        return weights[:split].reshape(self.dimension, -1), weights[split:stop].reshape(self.outputs, -1)

    def structure(self, inputs: Array) -> LinearStructure:
        return LinearStructure(np.zeros((self.outputs, inputs.shape[-1])), inputs.mean(1))
