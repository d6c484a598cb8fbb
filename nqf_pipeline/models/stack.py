"""Blocks on top of each other, each a module of interchangeable units that reads the outputs of the one below (theory: Theorems 14, 15).

One definition of a block yields the layer's network, its quadratic form and its part of W: the stack only adds the order in which
they are applied. All blocks have `width` units, so one array W holds them, the blocks' rows below each other, and training knows no layers.
The whole map has no second-order term at zero weights; what approximates it is one quadratic form *per block* (`twin_depth: deep`), whose
inputs move as the blocks below learn, or a single block from inputs to outputs (`twin_depth: shallow`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, Literal, NoReturn

import lazy_loader
import numpy as np
from jaxtyping import Float
from pydantic import Field

from nqf_pipeline.forms.modes import ModeBasis
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.forms.structure import Structure, namespace
from nqf_pipeline.forms.taylor import quadratic_form
from nqf_pipeline.models.base import Architecture

Array = Any
jax = lazy_loader.load("jax")


class Stack(Architecture):
    """Several blocks. Units of different blocks with one number share a column of W, but nothing else."""

    layered = True

    layers: int = Field(default=2, ge=2, description="blocks on top of each other")
    twin_depth: Literal["deep", "shallow"] = Field(
        default="deep",
        description="`deep`: one quadratic form a block, each reading the one below; `shallow`: a single block from inputs to outputs, of "
        "the bottom block's input weights and the top block's output weights. The network and its initial weights are the same",
    )

    @property
    @abstractmethod
    def blocks(self) -> tuple[Architecture, ...]:
        """The blocks from the bottom up, all of this width."""

    @property
    @abstractmethod
    def single(self) -> Architecture:
        """One block from inputs to outputs."""

    @abstractmethod
    def handed(self, outputs: Array) -> Array:
        """The inputs of a block, from the outputs of the one below."""

    @property
    def unit_size(self) -> int:
        return sum(block.unit_size for block in self.blocks)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.blocks[0].input_shape

    @property
    def smooth(self) -> bool:
        return all(block.smooth for block in self.blocks)

    @property
    def drawn_as(self) -> Architecture:
        return self.model_copy(update={"twin_depth": "deep"})

    def parts(self, weights: Float[Array, "unit_size width"]) -> list[Float[Array, "rows width"]]:
        """W of each block."""
        ends = accumulate((block.unit_size for block in self.blocks), initial=0)
        return [weights[first:last] for first, last in pairwise(ends)]

    def network(self, weights: Array, encoded: Array) -> Float[Array, "outputs samples"]:
        return self._through(encoded, [lambda x, b=block, w=part: b.apply(w, x) for block, part in self._blocks_of(weights)])

    def expanded(self, weights: Array, inputs: Array) -> Float[Array, "outputs samples"]:
        """The deep twin by automatic expansion of every block's own network."""
        taylor = quadratic_form
        return self._through(inputs, [lambda x, b=block, w=part: taylor(b.apply)(w, x) for block, part in self._blocks_of(weights)])

    def quadratic(self, inputs: Array, orders: tuple[Array, ...]) -> Float[Array, "outputs samples"]:
        """The twin's outputs from the reduced order parameter of each of its blocks."""
        blocks = self.blocks if self.twin_depth == "deep" else (self.single,)
        return self._through(inputs, [lambda x, b=block, g=order: _form(b, g, x) for block, order in zip(blocks, orders, strict=True)])

    def order(self, weights: Array) -> tuple[Array, ...]:
        """One G a block of the twin."""
        blocks = self._blocks_of(weights)
        if self.twin_depth == "deep":
            return tuple(block.order(part) for block, part in blocks)
        (bottom, first), (top, last) = blocks[0], blocks[-1]
        return (bottom.factors(first)[0] @ top.factors(last)[-1].T,)

    def structure(self, inputs: Array) -> StackStructure:
        return StackStructure(namespace(inputs).zeros((self.output_size, inputs.shape[-1]), dtype=inputs.dtype), inputs, self)

    def mode_vectors(self, weights: Array, basis: ModeBasis) -> Float[Array, "1 1"]:
        """Not a number: no vector in unit space carries the outputs of a stack."""
        return jax.numpy.full((1, 1), np.nan, weights.dtype)

    def factors(self, weights: Array) -> NoReturn:
        raise TypeError(f"{self.name} has factors in each of its blocks, and none as a whole")

    def _blocks_of(self, weights: Array) -> list[tuple[Architecture, Array]]:
        return list(zip(self.blocks, self.parts(weights), strict=True))

    def _through(self, inputs: Array, maps: list[Any]) -> Array:
        outputs = maps[0](inputs)
        for upper in maps[1:]:
            outputs = upper(self.handed(outputs))
        return outputs


def _form(block: Architecture, order: Array, inputs: Array) -> Array:
    structure = block.structure(inputs).like(inputs)
    return structure.offset + structure.apply(order)


@dataclass(frozen=True)
class StackStructure(Structure):
    """Outputs as a function of one G a block. Not linear in them: there is neither an adjoint nor a second moment."""

    inputs: Float[Array, "*input_shape samples"]
    architecture: Stack

    def apply(self, order: tuple[Array, ...]) -> Float[Array, "outputs samples"]:
        return self.architecture.quadratic(self.inputs, order) - self.offset

    def take(self, index: Array) -> StackStructure:
        return replace(self, offset=self.offset[..., index], inputs=self.inputs[..., index])

    def like(self, array: Array) -> StackStructure:
        xp = namespace(array)
        return replace(self, **{name: xp.asarray(getattr(self, name), dtype=array.dtype) for name in ("offset", "inputs")})

    def moments(self, targets: Float[Array, "outputs samples"]) -> Moments:
        return Moments.absent()

    def adjoint(self, residual: Array) -> NoReturn:
        raise TypeError("the outputs of a stack are not linear in its order parameters")

    def second_moment(self) -> NoReturn:
        raise TypeError("the outputs of a stack are not linear in its order parameters")
