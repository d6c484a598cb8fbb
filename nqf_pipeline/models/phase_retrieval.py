"""Quadratic networks, f = sum_r (w_r . a)^2: of an input (phase retrieval), or of the difference of two views of one (augmentation)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.forms.structure import SymmetricStructure
from nqf_pipeline.models.base import Architecture

Array = Any


class QuadraticNetwork(Architecture):
    """Sum of squared projections of the encoded input. Positive semidefinite."""

    exactly_quadratic = True
    positive = True

    width: int = Field(default=64, ge=1, description="number of projections")
    inputs: int = Field(default=20, ge=1, description="input dimension")

    @property
    def unit_size(self) -> int:
        return self.inputs

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.inputs,)

    def network(self, weights: Array, encoded: Array) -> Float[Array, "1 samples"]:
        return ((weights.T @ encoded) ** 2).sum(0)[None]

    def factors(self, weights: Array) -> tuple[Array]:
        return (weights,)

    def structure(self, inputs: Array) -> SymmetricStructure:
        return SymmetricStructure(np.zeros((1, inputs.shape[-1])), self.encode(inputs))


class PhaseRetrieval(QuadraticNetwork):
    """Sum of squared projections. Positive semidefinite: a mode with a negative target can never be learnt."""

    kind: Literal["phase_retrieval"] = "phase_retrieval"


class Augmentation(QuadraticNetwork):
    """Linear self-supervision: squared distance of the embeddings W^T x of two views of one input. Units are embedding coordinates."""

    kind: Literal["augmentation"] = "augmentation"
    width: int = Field(default=64, ge=1, description="embedding dimension")

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.inputs, 2)

    def encode(self, inputs: Float[Array, "inputs 2 samples"]) -> Float[Array, "inputs samples"]:
        """Delta, the change of the input from one view to the other."""
        return inputs[:, 0] - inputs[:, 1]
