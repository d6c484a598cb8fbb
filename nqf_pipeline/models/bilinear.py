"""Bilinear models of two vectors, f = a^T G b: rectangular or symmetric sensing with the rank-one matrices S = a b^T.

Models differ in where a and b come from: two tokens, the one-hot names of a row and a column, a word and its context.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.forms.structure import PairStructure, ProductStructure
from nqf_pipeline.models.base import Architecture

Array = Any


class Bilinear(Architecture):
    """f = (U^T a) . (V^T b), w = [u; v]; the input holds a above b. Units are the rank-one terms of U V^T."""

    exactly_quadratic = True

    rows: int = Field(default=20, ge=1, description="entries of the left vector a")
    columns: int = Field(default=8, ge=1, description="entries of the right vector b")

    @property
    def unit_size(self) -> int:
        return self.rows + self.columns

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.rows + self.columns,)

    def network(self, weights: Array, encoded: Array) -> Float[Array, "1 samples"]:
        left, right = self.factors(weights)
        return ((left.T @ encoded[: self.rows]) * (right.T @ encoded[self.rows :])).sum(0)[None]

    def factors(self, weights: Array) -> tuple[Array, Array]:
        return weights[: self.rows], weights[self.rows :]

    def structure(self, inputs: Array) -> ProductStructure:
        encoded = self.encode(inputs)
        return ProductStructure(np.zeros((1, inputs.shape[-1])), encoded[: self.rows], encoded[self.rows :])


class BilinearSequence(Bilinear):
    """Bilinear sequence regression, f = x_s^T U V^T x_t: the two vectors are tokens s and t."""

    kind: Literal["bilinear_sequence"] = "bilinear_sequence"
    rows: int = Field(default=20, ge=1, description="dimension of token s")
    columns: int = Field(default=20, ge=1, description="dimension of token t")


class MatrixCompletion(Bilinear):
    """Entry (i, j) of U V^T: rectangular sensing with S = e_i e_j^T. Entries are drawn alike; those never drawn are not learnt."""

    gaussian_inputs = False

    kind: Literal["matrix_completion"] = "matrix_completion"
    rows: int = Field(default=20, ge=1, description="rows of the matrix")
    columns: int = Field(default=8, ge=1, description="columns of the matrix")

    def draw_inputs(self, rng: np.random.Generator, samples: int) -> Float[np.ndarray, "input_shape samples"]:
        """One-hot rows above one-hot columns."""
        return np.concatenate([_one_hot(rng, _frequencies(size, 0.0), samples) for size in (self.rows, self.columns)])


class WordContext(Bilinear):
    """Word-context embedding u_w . v_c: entries (word, context) of a matrix, drawn as often as they occur (Zipf's law)."""

    gaussian_inputs = False

    kind: Literal["word_context"] = "word_context"
    rows: int = Field(default=20, ge=1, description="words")
    columns: int = Field(default=20, ge=1, description="contexts")
    zipf: float = Field(default=0.5, ge=0, description="frequencies of words and of contexts fall as rank^-zipf")

    def draw_inputs(self, rng: np.random.Generator, samples: int) -> Float[np.ndarray, "input_shape samples"]:
        """One-hot words above one-hot contexts."""
        return np.concatenate([_one_hot(rng, _frequencies(size, self.zipf), samples) for size in (self.rows, self.columns)])


class TiedAttention(Architecture):
    """Attention logit with tied queries and keys, f = u^T W W^T x / sqrt(dk). Units are the dk coordinates of a key (columns of W here)."""

    exactly_quadratic = True
    positive = True

    kind: Literal["tied_attention"] = "tied_attention"
    width: int = Field(default=64, ge=1, description="key dimension dk")
    inputs: int = Field(default=20, ge=1, description="token dimension D; an input is the pair of tokens u and x")

    @property
    def unit_size(self) -> int:
        return self.inputs

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.inputs, 2)

    def network(self, weights: Array, encoded: Array) -> Float[Array, "1 samples"]:
        return ((weights.T @ encoded[:, 0]) * (weights.T @ encoded[:, 1])).sum(0)[None] / self.width**0.5

    def factors(self, weights: Array) -> tuple[Array]:
        return (weights,)

    def structure(self, inputs: Array) -> PairStructure:
        return PairStructure(np.zeros((1, inputs.shape[-1])), inputs[:, 0] / np.sqrt(self.width), inputs[:, 1])


def _frequencies(size: int, exponent: float) -> Float[np.ndarray, "size"]:
    weights = np.arange(1.0, size + 1) ** -exponent
    return weights / weights.sum()


def _one_hot(rng: np.random.Generator, frequencies: Float[np.ndarray, "size"], samples: int) -> Float[np.ndarray, "size samples"]:
    return np.eye(len(frequencies))[:, rng.choice(len(frequencies), size=samples, p=frequencies)]
