"""The structure of any module as a linear map f - f(0) = A(M) with adjoint, by automatic differentiation, without its matrices A(x).

For a module that needs neither g nor B, A(x) = H_ii / 2 is half the Hessian of one unit at zero weights (theory: section 1). The map takes
one second derivative along each eigenvector of M, the adjoint one Hessian-vector product for each row: both hold a few evaluations
of the module at a time, whatever the unit size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import lazy_loader
import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.forms.calling import Module, foreign
from nqf_pipeline.forms.dense import refuse_huge
from nqf_pipeline.forms.moments import Kind
from nqf_pipeline.forms.structure import Structure

Array = Any
jax = lazy_loader.load("jax")
AT_ONCE = 8
"""Directions that are differentiated along together."""
SAMPLES_AT_ONCE = 16
"""Samples whose dense matrices are computed together."""
NEGLIGIBLE = 1e-14
"""Eigenvalues of M below this share of the largest are rounding."""


@dataclass(frozen=True)
class ModuleStructure(Structure):
    """A(M) of apply(W, x), x one input (samples last in `inputs`), outputs in one row each. G = M: (unit_size, unit_size)."""

    inputs: Float[Array, "*input_shape samples"]
    module: Module
    shape: tuple[int, int]
    """(unit_size, width) of W."""

    @classmethod
    def of(cls, module: Module, inputs: Array, shape: tuple[int, int]) -> ModuleStructure:
        """The structure at these inputs, f(0) evaluated."""
        with foreign("the module at zero weights"):
            offset = np.asarray(_maps(module, shape).value(np.zeros(shape), inputs))
        return cls(offset, inputs, module, shape)

    def apply(self, order: Float[Array, "unit_size unit_size"]) -> Float[Array, "outputs samples"]:
        values, axes = np.linalg.eigh((order + order.T) / 2)
        kept = np.abs(values) > NEGLIGIBLE * np.abs(values).max(initial=0.0)
        with foreign("the quadratic form of the module"):
            return np.asarray(_maps(self.module, self.shape).along(values[kept], axes[:, kept].T, self.inputs))

    def adjoint(self, residual: Float[Array, "outputs samples"]) -> Float[Array, "unit_size unit_size"]:
        with foreign("the quadratic form of the module"):
            return np.asarray(_maps(self.module, self.shape).pulled(residual, self.inputs))

    def matrices(self, rows: Int[np.ndarray, "rows"] | None = None) -> Float[np.ndarray, "rows rows outputs samples"]:
        """A(x) densely, for small modules; of some rows of W only where the others are known not to enter."""
        rows = np.arange(self.shape[0]) if rows is None else rows
        size = len(rows)
        refuse_huge(
            f"A of a module with {size} parameters a unit, a matrix for every output and sample,",
            size**2 * self.offset.size,
            "use fewer samples or a smaller unit; ModuleStructure.apply and .adjoint never form it",
        )
        with foreign("the quadratic form of the module"):
            return np.asarray(_maps(self.module, self.shape).dense(self.inputs, rows))

    def second_moment(self) -> tuple[Kind, Array]:
        size = self.shape[0]
        refuse_huge(
            f"the second moment of a module with {size} parameters a unit, over pairs of pairs of them,",
            size**4,
            "reduce the unit's inputs or outputs, or write the module as an architecture with a closed-form structure (docs/extending.md)",
        )
        flat = self.matrices().reshape(size**2, -1)
        return "dense", flat @ flat.T / self.samples

    def take(self, index: Array) -> ModuleStructure:
        return replace(self, offset=self.offset[..., index], inputs=self.inputs[..., index])


@dataclass(frozen=True)
class _Maps:
    """Compiled maps of one module; every number of samples compiles once."""

    value: Callable[..., Array]
    along: Callable[..., Array]
    pulled: Callable[..., Array]
    dense: Callable[..., Array]


@lru_cache(maxsize=64)
def _maps(module: Module, shape: tuple[int, int]) -> _Maps:
    unit_size = shape[0]

    def one(weights: Array, x: Array) -> Array:
        return jax.numpy.ravel(module(weights, x))

    every = jax.vmap(one, in_axes=(None, -1), out_axes=-1)

    def unit(vector: Array, inputs: Array, rows: Array = slice(None)) -> Array:
        """The outputs with a single unit away from zero, in some of its rows."""
        return every(jax.numpy.zeros(shape, dtype=vector.dtype).at[rows, 0].set(vector), inputs)

    def curvature(vector: Array, inputs: Array) -> Array:
        """v^T A v for every output and sample."""
        zero = jax.numpy.zeros_like(vector)

        def slope(at: Array) -> Array:
            return jax.jvp(lambda w: unit(w, inputs), (at,), (vector,))[1]

        return jax.jvp(slope, (zero,), (vector,))[1] / 2

    def along(values: Array, axes: Array, inputs: Array) -> Array:
        def add(total: Array, mode: tuple[Array, Array]) -> tuple[Array, None]:
            return total + mode[0] * curvature(mode[1], inputs), None

        start = jax.eval_shape(curvature, jax.numpy.zeros(unit_size), inputs)
        return jax.lax.scan(add, jax.numpy.zeros(start.shape, start.dtype), (values, axes))[0]

    def pulled(residual: Array, inputs: Array) -> Array:
        slope = jax.grad(lambda w: (residual * unit(w, inputs)).sum())
        zero = jax.numpy.zeros(unit_size)
        rows = jax.lax.map(lambda row: jax.jvp(slope, (zero,), (row,))[1], jax.numpy.eye(unit_size), batch_size=AT_ONCE)
        return (rows + rows.T) / 4

    def dense(inputs: Array, rows: Array) -> Array:
        def single(x: Array) -> Array:
            return jax.hessian(lambda part: unit(part, x[..., None], rows)[:, 0])(jax.numpy.zeros(len(rows))) / 2

        found = jax.lax.map(single, jax.numpy.moveaxis(inputs, -1, 0), batch_size=SAMPLES_AT_ONCE)
        return jax.numpy.transpose(found, (2, 3, 1, 0))

    return _Maps(*(jax.jit(f) for f in (every, along, pulled, dense)))


def bytes_if_dense(structure: ModuleStructure) -> int:
    """What the matrices A(x) of a structure would take in double precision."""
    return 8 * structure.shape[0] ** 2 * math.prod(structure.offset.shape)
