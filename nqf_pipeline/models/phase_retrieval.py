"""Quadratic network (phase retrieval): f = sum_r (w_r . x)^2."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.forms.structure import SymmetricStructure
from nqf_pipeline.models.base import Architecture

Array = Any


class PhaseRetrieval(Architecture):
    """Sum of squared projections. Positive semidefinite: a mode with a negative target can never be learnt."""

    exactly_quadratic = True
    positive = True

    kind: Literal["phase_retrieval"] = "phase_retrieval"
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
        return SymmetricStructure(np.zeros((1, inputs.shape[-1])), inputs)
