"""Matrix sensing: one linear measurement <S, G> of a factored matrix, G = U V^T (rectangular) or W W^T (positive semidefinite)."""

from __future__ import annotations

from typing import Any, Literal

import lazy_loader
import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.structure import SensingStructure, SymmetricSensingStructure, namespace
from nqf_pipeline.models.base import Architecture

Array = Any
jax = lazy_loader.load("jax")


class Sensing(Architecture):
    """f = <S, G>; the input is the sensing matrix S itself."""

    exactly_quadratic = True

    def network(self, weights: Array, encoded: Array) -> Float[Array, "1 samples"]:
        return jax.numpy.tensordot(self.order(weights), encoded, axes=2)[None]


class MatrixSensing(Sensing):
    """Rectangular sensing, or factorisation: f = <S, U V^T>, w = [u; v]. Units are the rank-one terms."""

    kind: Literal["matrix_sensing"] = "matrix_sensing"
    rows: int = Field(default=20, ge=1, description="rows of the matrix")
    columns: int = Field(default=8, ge=1, description="columns of the matrix")

    @property
    def unit_size(self) -> int:
        return self.rows + self.columns

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.rows, self.columns)

    def factors(self, weights: Array) -> tuple[Array, Array]:
        return weights[: self.rows], weights[self.rows :]

    def structure(self, inputs: Array) -> SensingStructure:
        return SensingStructure(np.zeros((1, inputs.shape[-1])), inputs[:, :, None])


class PSDSensing(Sensing):
    """Sensing of a positive semidefinite matrix: f = <S, W W^T>. Only the symmetric part of S is seen."""

    positive = True

    kind: Literal["psd_sensing"] = "psd_sensing"
    rows: int = Field(default=20, ge=1, description="rows and columns of the matrix")
    start: Literal["gaussian", "orthonormal"] = Field(
        default="gaussian",
        description="initial weights: standard normal, or random orthonormal rows of length sqrt(width), so that W W^T starts as epsilon "
        "times the identity (needs width >= rows)",
        json_schema_extra={"absent": "gaussian"},
    )

    @property
    def unit_size(self) -> int:
        return self.rows

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.rows, self.rows)

    @property
    def gaussian_start(self) -> bool:
        return self.start == "gaussian"

    def check(self) -> None:
        if self.start == "orthonormal" and self.width < self.rows:
            raise InputError(
                f"psd_sensing, start: {self.rows} orthonormal rows do not fit into width {self.width}; "
                f"set width to at least {self.rows}, or use start: gaussian"
            )

    def initial(self, rng: np.random.Generator) -> Float[np.ndarray, "unit_size width"]:
        draw = super().initial(rng)
        return draw if self.gaussian_start else np.sqrt(self.width) * np.linalg.qr(draw.T)[0].T

    def encode(self, inputs: Float[Array, "rows rows samples"]) -> Float[Array, "rows rows samples"]:
        """Sym(S)."""
        return (inputs + namespace(inputs).swapaxes(inputs, 0, 1)) / 2

    def factors(self, weights: Array) -> tuple[Array]:
        return (weights,)

    def structure(self, inputs: Array) -> SymmetricSensingStructure:
        return SymmetricSensingStructure(np.zeros((1, inputs.shape[-1])), self.encode(inputs)[:, :, None])
