"""How the weights of a twin are read: as its network's, or as factors with fewer columns (theory: Theorem 3).

A structure reads factors, whose columns are interchangeable units with g = B = 0. With c = d'/d, the ratio of the numbers of columns, the
compressed twin is G' = c Z1 Z2^T, trained with learning rate eta / c and weight decay c lambda; momentum and batches are unchanged. Its
width d' = rows + 1 depends on the architecture alone and reproduces the full twin on any data, test samples included.

A run holds factors apart and, on wide layers, in blocks of columns: XLA's own matrix products take no side above 128.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from nqf_pipeline.dynamics.lanes import Hyper
from nqf_pipeline.dynamics.turns import LARGEST_SIDE
from nqf_pipeline.forms.compression import compressed_start
from nqf_pipeline.forms.kernel import factor_kernel
from nqf_pipeline.forms.modes import ModeBasis
from nqf_pipeline.forms.structure import Structure
from nqf_pipeline.models.base import Architecture

Array = Any
Held = Any
"""What a run carries: for each factor its blocks of columns; of several layers all weights."""
_MOST_BLOCKS = 4
"""Wider layers are left to the library in one piece."""


@dataclass(frozen=True)
class Twin:
    """A twin at the width of its network, or compressed."""

    architecture: Architecture
    compressed: bool = False

    @property
    def ratio(self) -> float:
        """c = d'/d, 1 for a twin at full width."""
        return self.architecture.compressed_width / self.architecture.degrees if self.compressed else 1.0

    def start(self, weights: Float[np.ndarray, "unit_size width"]) -> Float[np.ndarray, "rows columns"]:
        """Initial weights of the twin from those of its network (NumPy, float64)."""
        if not self.compressed:
            return weights
        return compressed_start(np.concatenate(self.architecture.factors(weights)), self.architecture.compressed_width)

    def held(self, weights: Array) -> Held:
        """What a run carries: the factors apart, so that no step takes them out of the weights and joins their gradients again.

        Weights outside the factors are the same to the twin whatever they are. Several layers have factors in each block: all weights.
        """
        if self.architecture.layered:
            return weights
        factors = self.factors(weights)
        blocks = -(-factors[0].shape[1] // LARGEST_SIDE)
        split = self.architecture.pairing == "outer" and blocks <= _MOST_BLOCKS
        return tuple(tuple(jnp.array_split(factor, blocks, axis=1)) if split else (factor,) for factor in factors)

    def rates(self, hyper: Hyper) -> Hyper:
        """The optimizer's numbers at the twin's width."""
        if not self.compressed:
            return hyper
        return hyper._replace(learning_rate=hyper.learning_rate / self.ratio, weight_decay=hyper.weight_decay * self.ratio)

    def factors(self, weights: Array | Held) -> tuple[Array, ...]:
        """What the structure reads, up to the factor c of their product, of all weights or of what a run holds."""
        if isinstance(weights, tuple):
            return tuple(jnp.concatenate(blocks, axis=1) for blocks in weights)
        if not self.compressed:
            return self.architecture.factors(weights)
        full = self.architecture.factors(np.zeros((self.architecture.unit_size, self.architecture.width)))
        return (weights,) if len(full) == 1 else (weights[: len(full[0])], weights[len(full[0]) :])

    def order(self, held: Held) -> Array:
        """G at the network's width; of several layers one each."""
        if self.architecture.layered:
            return self.architecture.order(held)
        combined = sum(map(self.architecture.combine, zip(*held, strict=True)))
        return self.ratio * combined if self.compressed else combined

    def pull_back(self, held: Held, pull: Array) -> Held:
        """Gradient of <pull, G> by what a run holds (one layer).

        Written out because of its products: those that differentiation makes contract over rows, and XLA does these 2 to 8 times slower.
        """
        pull = self.ratio * pull if self.compressed else pull
        if self.architecture.pairing == "rowwise":
            others = [tuple(pull[:, None] * block for block in blocks) for blocks in held[::-1]]
            return tuple(others) if len(held) == 2 else (tuple(2 * block for block in others[0]),)
        if len(held) == 1:
            return (tuple((pull + pull.T) @ block for block in held[0]),)
        return tuple(pull @ block for block in held[1]), tuple(pull.T @ block for block in held[0])

    def mode_vectors(self, held: Held, basis: ModeBasis) -> Float[Array, "modes columns"]:
        """p_k with |p_k|^2 as at the network's width."""
        if self.architecture.layered:
            return self.architecture.mode_vectors(held, basis)
        vectors = basis.vectors(self.factors(held))
        return np.sqrt(self.ratio).item() * vectors if self.compressed else vectors

    def kernel(self, probe: Structure, held: Held) -> Float[Array, "outputs samples outputs samples"]:
        """The tangent kernel at these samples, up to a constant."""
        if self.architecture.layered:
            slopes = jax.jacrev(lambda at: probe.apply(self.architecture.order(at)))(held).reshape(*probe.offset.shape, -1)
            return jnp.tensordot(slopes, slopes, axes=((2,), (2,)))
        return factor_kernel(probe, self.factors(held), rowwise=self.architecture.pairing == "rowwise")
