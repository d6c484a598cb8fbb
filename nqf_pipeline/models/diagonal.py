"""Diagonal linear networks: f = sum_k x_k G_k with G_k = sum_r W_kr^2 / 4 (square) or sum_r u_kr v_kr (two factors)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.forms.structure import DiagonalStructure
from nqf_pipeline.models.base import Architecture

Array = Any


class Diagonal(Architecture):
    """Square diagonal network: one row of W per input coordinate. Coefficients are never negative."""

    pairing = "rowwise"
    exactly_quadratic = True
    positive = True

    kind: Literal["diagonal"] = "diagonal"
    width: int = Field(default=1, ge=1, description="weights per coordinate")
    inputs: int = Field(default=1000, ge=1, description="input dimension (number of modes)")
    start: Literal["signs", "gaussian"] = Field(
        default="signs",
        description="initial weights: random signs (z_k(0) = epsilon times its profile exactly, whatever the seed) or standard normal",
    )

    @property
    def unit_size(self) -> int:
        return self.inputs

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.inputs,)

    @property
    def gaussian_start(self) -> bool:
        return self.start == "gaussian"

    def network(self, weights: Array, encoded: Array) -> Float[Array, "1 samples"]:
        return ((weights**2).sum(1) @ encoded)[None] / 4

    def factors(self, weights: Array) -> tuple[Array]:
        return (weights,)

    def structure(self, inputs: Array) -> DiagonalStructure:
        return DiagonalStructure(np.zeros((1, inputs.shape[-1])), inputs / 4)

    def initial(self, rng: np.random.Generator) -> Float[np.ndarray, "unit_size width"]:
        draw = super().initial(rng)
        return draw if self.gaussian_start else np.where(draw < 0, -1.0, 1.0)


class DiagonalProduct(Architecture):
    """Two-factor diagonal network, f = u^T Diag(x) v, w = [u; v]: coefficients of either sign."""

    pairing = "rowwise"
    exactly_quadratic = True

    kind: Literal["diagonal_product"] = "diagonal_product"
    width: int = Field(default=1, ge=1, description="pairs of weights per coordinate")
    inputs: int = Field(default=20, ge=1, description="input dimension (number of modes)")

    @property
    def unit_size(self) -> int:
        return 2 * self.inputs

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.inputs,)

    def network(self, weights: Array, encoded: Array) -> Float[Array, "1 samples"]:
        return (self.order(weights) @ encoded)[None]

    def factors(self, weights: Array) -> tuple[Array, Array]:
        return weights[: self.inputs], weights[self.inputs :]

    def structure(self, inputs: Array) -> DiagonalStructure:
        return DiagonalStructure(np.zeros((1, inputs.shape[-1])), inputs)
