"""Multi-head attention in several layers: in all but the last every token asks, in the last one the last token does."""

from __future__ import annotations

from typing import Any, Literal

import lazy_loader
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.forms.structure import LinearStructure, namespace
from nqf_pipeline.models.attention import self_attended
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.models.multi_head import MultiHead
from nqf_pipeline.models.stack import Stack

Array = Any
jax = lazy_loader.load("jax")


class EveryToken(MultiHead):
    """Multi-head attention with an output for every token, tokens beside samples: (outputs, tokens * samples). A block of a stack."""

    lay_out, by_row = Architecture.lay_out, Architecture.by_row  # not those of the last token alone

    def network(self, weights: Array, encoded: Array) -> Float[Array, "outputs tokens*samples"]:
        values, readout = (factor.reshape(-1, self.value_size, self.width) for factor in self.factors(weights))
        keys, queries = weights[-2 * self.dimension * self.key_size :].reshape(2, self.dimension, self.key_size, self.width)
        mixed = self_attended(keys, queries, encoded)
        folded = jax.numpy.einsum("ovh,dvh->ohd", readout, values)
        return folded.reshape(self.outputs, -1) @ mixed.reshape(self.width * self.dimension, -1)

    def structure(self, inputs: Array) -> LinearStructure:
        """At zero queries and keys every token sees the mean token."""
        xp = namespace(inputs)
        features = xp.broadcast_to(inputs.mean(1, keepdims=True), inputs.shape).reshape(len(inputs), -1)
        return LinearStructure(xp.zeros((self.outputs, features.shape[-1]), dtype=inputs.dtype), features)


class DeepAttention(Stack):
    """Layers of multi-head attention without residual connections; tokens keep their dimension from layer to layer."""

    kind: Literal["deep_attention"] = "deep_attention"
    width: int = Field(default=4, ge=1, description="number of heads of every layer: its units")
    dimension: int = Field(default=8, ge=1, description="token dimension D")
    key_size: int = Field(default=4, ge=1, description="key and query dimension dk of a head")
    value_size: int = Field(default=4, ge=1, description="value dimension dv of a head")
    tokens: int = Field(default=8, ge=1, description="tokens N of an input; the last one asks in the last layer")
    outputs: int = Field(default=1, ge=1, description="output dimension")

    @property
    def blocks(self) -> tuple[MultiHead, ...]:
        return (*[self._block(EveryToken, self.dimension)] * (self.layers - 1), self.single)

    @property
    def single(self) -> MultiHead:
        return self._block(MultiHead, self.outputs)

    def handed(self, outputs: Float[Array, "dimension tokens*samples"]) -> Float[Array, "dimension tokens samples"]:
        return outputs.reshape(self.dimension, self.tokens, -1)

    def _block(self, kind: type[MultiHead], outputs: int) -> MultiHead:
        sizes = {name: getattr(self, name) for name in ("width", "dimension", "key_size", "value_size", "tokens")}
        return kind(**sizes, outputs=outputs)
