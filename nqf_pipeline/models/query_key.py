"""Query-key attention with fixed readouts: f_o = sum_h c_o^T X softmax(X^T WK_h^T WQ_h x / sqrt(dk)).

The same map read in two ways: units are whole heads, or, in one head, the pairs of rows of WK and WQ.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

import lazy_loader
import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.forms.structure import BilinearStructure, namespace
from nqf_pipeline.models.attention import Tokens, attention
from nqf_pipeline.models.base import Architecture

Array = Any
jax = lazy_loader.load("jax")
READOUT_SEED = 20260813
"""The readouts are part of the architecture: every cell, seed and study uses the same ones."""


class FixedReadoutAttention(Architecture):
    """Attention that trains queries and keys only; the query is the last token."""

    small_products = True

    dimension: int = Field(default=20, ge=1, description="token dimension D")
    tokens: int = Field(default=16, ge=2, description="tokens N of an input; the last one asks")
    outputs: int = Field(default=8, ge=1, description="output dimension: fixed random readouts, orthonormal where they fit in D")

    @property
    @abstractmethod
    def heads(self) -> int:
        """Number of heads H; degrees = H dk."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.dimension, self.tokens)

    @property
    def readouts(self) -> Float[np.ndarray, "outputs dimension"]:
        """c_o: the same orthonormal rows for every cell (blocks of orthonormal rows when there are more than D)."""
        rng = np.random.default_rng(READOUT_SEED)
        blocks = [np.linalg.qr(rng.standard_normal((self.dimension, self.dimension)))[0] for _ in range(-(-self.outputs // self.dimension))]
        return np.concatenate(blocks)[: self.outputs]

    def encode(self, inputs: Float[Array, "dimension tokens samples"]) -> Float[Array, "dimension+outputs tokens samples"]:
        """Tokens, followed by what each readout sees of them: C X never changes in training."""
        xp = namespace(inputs)
        seen = xp.tensordot(xp.asarray(self.readouts, dtype=inputs.dtype), inputs, axes=1)
        return xp.concatenate([inputs, seen])

    def network(self, weights: Array, encoded: Array) -> Float[Array, "outputs samples"]:
        return self.by_row(weights, encoded).T

    def lay_out(self, encoded: Float[Array, "dimension+outputs tokens samples"]) -> tuple[Tokens, Array]:
        return Tokens.of(encoded[: self.dimension]), self._seen(encoded)

    def by_row(self, weights: Array, samples: Array | tuple[Tokens, Array]) -> Float[Array, "samples outputs"]:
        keys, queries = (factor.reshape(self.dimension, -1, self.heads) for factor in self.factors(weights))
        tokens, seen = samples if isinstance(samples, tuple) else (samples[: self.dimension], self._seen(samples))
        return jax.numpy.einsum("mon,mn->mo", seen, attention(keys, queries, tokens).sum(1))

    def _seen(self, encoded: Array) -> Float[Array, "samples outputs tokens"]:
        return encoded[self.dimension :].transpose(2, 0, 1)

    def factors(self, weights: Array) -> tuple[Array, Array]:
        half = self.unit_size // 2
        return weights[:half].reshape(self.dimension, -1), weights[half:].reshape(self.dimension, -1)

    def structure(self, inputs: Array) -> BilinearStructure:
        """u_o = Sigma_X c_o with Sigma_X the covariance over tokens, f(0) = heads * c_o^T x_avg."""
        xp = namespace(inputs)
        seen = xp.tensordot(xp.asarray(self.readouts, dtype=inputs.dtype), inputs, axes=1)
        centred = inputs - inputs.mean(1, keepdims=True)
        left = xp.einsum("dnm,onm->odm", centred, seen, optimize=True) / self.tokens
        return BilinearStructure(self.heads * seen.mean(1), left, inputs[:, -1] / (self.degrees / self.heads) ** 0.5)


class QueryKey(FixedReadoutAttention):
    """Attention that trains queries and keys only. Units are heads, w = [vec WK^T; vec WQ^T]; the query is the last token."""

    kind: Literal["query_key"] = "query_key"
    width: int = Field(default=4, ge=1, description="number of heads")
    key_size: int = Field(default=8, ge=1, description="key and query dimension dk of a head")

    @property
    def heads(self) -> int:
        return self.width

    @property
    def unit_size(self) -> int:
        return 2 * self.dimension * self.key_size

    @property
    def degeneracy(self) -> int:
        return self.key_size


class SingleHead(FixedReadoutAttention):
    """One head, its logits taken apart. Units are rows of WK and WQ, w = [k; q]: they meet inside the softmax, not in a sum over units."""

    kind: Literal["single_head"] = "single_head"
    width: int = Field(default=8, ge=1, description="key and query dimension dk of the head")

    @property
    def heads(self) -> int:
        return 1

    @property
    def unit_size(self) -> int:
        return 2 * self.dimension
