"""A quadratic form at a fixed set of samples, as a function of the order parameters (M, mu) alone.

f = f(0) + g^T mu + mu^T B mu + Tr[M A], M = W W^T (unit_size, unit_size), mu = W 1 (unit_size), in the (M, mu) convention (theory:
section 1, Care): B multiplies the sum over all pairs of units, i = j included. Two representations with one interface, `apply(order)`
and `take(index)`: dense g, A, B of any module, and a `Structure`, which never forms A. Arrays are NumPy or JAX; outputs are
(outputs, samples), samples last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import lazy_loader
import numpy as np
from jaxtyping import Float

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.normal_form import NormalForm
from nqf_pipeline.forms.structure import Structure, namespace

Array = Any
jax = lazy_loader.load("jax")


class Order(NamedTuple):
    """The order parameters of one layer: all that a quadratic form knows of its weights (theory: Theorem 2)."""

    second: Float[Array, "unit_size unit_size"]
    """M = W W^T."""
    mean: Float[Array, "unit_size"]
    """mu = W 1, the sum of the units."""

    @classmethod
    def of(cls, weights: Float[Array, "unit_size width"]) -> Order:
        """(M, mu) of weights."""
        return cls(weights @ weights.T, weights.sum(1))


class Pull(NamedTuple):
    """What a loss does to the weights: its gradient in W is H W + v 1^T."""

    matrix: Float[Array, "unit_size unit_size"]
    """H = sum over samples of 2 l' A, symmetric."""
    vector: Float[Array, "unit_size"]
    """v = sum over samples of l' (g + 2 B mu)."""


class Form(Protocol):
    """Anything with outputs in terms of (M, mu)."""

    @property
    def samples(self) -> int: ...

    def apply(self, order: Order) -> Float[Array, "outputs samples"]: ...

    def take(self, index: Array) -> Self: ...


def pull_of(slope: Order) -> Pull:
    """(H, v) from the derivatives (dL/dM, dL/dmu): dL = <dL/dM, dW W^T + W dW^T> + dL/dmu . dW 1."""
    return Pull(slope.second + slope.second.T, slope.mean)


def pull(objective: Callable[[Order], Array], order: Order) -> Pull:
    """(H, v) of any differentiable function of (M, mu) by automatic differentiation (JAX): l' is never needed by itself."""
    return pull_of(jax.grad(objective)(order))


@dataclass(frozen=True)
class DenseForm:
    """Coefficients of every output and sample in the (M, mu) convention."""

    f0: Float[Array, "outputs samples"]
    g: Float[Array, "outputs samples unit_size"]
    A: Float[Array, "outputs samples unit_size unit_size"]
    B: Float[Array, "outputs samples unit_size unit_size"]

    @classmethod
    def of(cls, form: NormalForm) -> DenseForm:
        """The automatic expansion of a module whose outputs are (outputs, samples)."""
        if form.f0.ndim != 2:
            raise InputError(
                f"DenseForm: the module returns an array of shape {form.f0.shape}, and (outputs, samples) is needed to tell minibatches "
                "and losses apart; return one row for each output and one column for each sample"
            )
        return cls(form.f0, form.g, form.A, form.B)

    @property
    def samples(self) -> int:
        return int(self.f0.shape[1])

    def apply(self, order: Order) -> Array:
        """f, f(0) included."""
        pairs = (self.B @ order.mean) @ order.mean
        return self.f0 + self.g @ order.mean + pairs + namespace(order.second).tensordot(self.A, order.second, 2)

    def take(self, index: Array) -> DenseForm:
        """The same form at a subset of the samples."""
        return DenseForm(self.f0[:, index], self.g[:, index], self.A[:, index], self.B[:, index])

    def scaled(self, factor: float) -> DenseForm:
        """A times a factor; g and B as they are."""
        return DenseForm(self.f0, self.g, factor * self.A, self.B)


@dataclass(frozen=True)
class StructureForm:
    """A structure that reads a block of M: units are the stacked factors [Z1; Z2] (or Z), g = B = 0.

    Heads with dv values count as dv units each: the stacked factors are (rows, degrees), far smaller than W of an attention layer.
    """

    structure: Structure
    scale: Float[Array, ""]
    """Multiplies A (1 but for compressed widths)."""
    split: int
    """Rows of Z1; 0 when there is one factor."""
    rowwise: bool
    """G is the diagonal of the block (A is diagonal in every sample)."""

    @classmethod
    def of(cls, structure: Structure, factors: tuple[Float[Array, "rows degrees"], ...], *, rowwise: bool) -> tuple[StructureForm, Array]:
        """The form and the weights it is about: `factors` as an architecture reads them from W."""
        split = len(factors[0]) if len(factors) == 2 else 0
        return cls(structure, np.asarray(1.0), split, rowwise), namespace(factors[0]).concatenate(factors)

    @property
    def samples(self) -> int:
        return self.structure.samples

    def apply(self, order: Order) -> Array:
        """f, f(0) included."""
        block = order.second[: self.split, self.split :] if self.split else order.second
        read = namespace(block).diagonal(block) if self.rowwise else block
        return self.structure.offset + self.scale * self.structure.apply(read)

    def take(self, index: Array) -> StructureForm:
        """The same form at a subset of the samples."""
        return StructureForm(self.structure.take(index), self.scale, self.split, self.rowwise)

    def scaled(self, factor: float) -> StructureForm:
        """A times a factor."""
        return StructureForm(self.structure, self.scale * factor, self.split, self.rowwise)
