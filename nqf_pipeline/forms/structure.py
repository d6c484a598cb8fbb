"""The structure of a module as one linear map f - f(0) = A(G), with its adjoint.

G is the *reduced order parameter*: the block of M = W W^T that the structure reads (theory: Theorem 1).
For a symmetric structure G = M; for a feedforward one G = Z1 Z2^T, an off-diagonal block of M; where A(x)
is diagonal, G is a vector. The dense matrices A(x) are never formed.

Arrays are NumPy or JAX: every method works on either. Samples are the last axis everywhere
(features-first), outputs the first: f has shape (outputs, samples).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from nqf_pipeline.forms.dense import refuse_huge
from nqf_pipeline.forms.moments import Kind, Moments

Array = Any


def namespace(array: Array) -> ModuleType:
    """numpy or jax.numpy, whichever the array belongs to."""
    module: ModuleType = array.__array_namespace__()
    return module


def _refuse_dense(size: int) -> None:
    refuse_huge(
        f"the second moment of this structure, a dense {size} x {size} matrix over pairs of features,",
        size**2,
        "reduce the input dimension (first principal components), or use an architecture with linear features (mlp, cnn, multi_head)",
    )


@dataclass(frozen=True)
class Structure(ABC):
    """A linear map from the reduced order parameter G to outputs, at a fixed set of samples."""

    offset: Float[Array, "outputs samples"]
    """f(0), the output at zero weights."""

    @abstractmethod
    def apply(self, order: Array) -> Float[Array, "outputs samples"]:
        """f - f(0) for the reduced order parameter G."""

    @abstractmethod
    def adjoint(self, residual: Float[Array, "outputs samples"]) -> Array:
        """The gradient of <residual, apply(G)> in G; same shape as G."""

    @abstractmethod
    def second_moment(self) -> tuple[Kind, Float[Array, "..."]]:
        """(kind, K): the operator K = mean over samples of A* A in its most compact form (see Moments)."""

    def take(self, index: Array) -> Structure:
        """The same structure at a subset of the samples (a minibatch)."""
        return replace(self, **{f.name: getattr(self, f.name)[..., index] for f in fields(self)})

    def like(self, array: Array) -> Self:
        """The same structure in the precision (and kind, NumPy or JAX) of an array."""
        xp = namespace(array)
        return replace(self, **{f.name: xp.asarray(getattr(self, f.name), dtype=array.dtype) for f in fields(self)})

    @property
    def samples(self) -> int:
        return int(self.offset.shape[-1])

    def moments(self, targets: Float[Array, "outputs samples"]) -> Moments:
        """Everything that the full-batch squared error needs to know about the samples."""
        kind, operator = self.second_moment()
        goal = targets - self.offset
        linear = self.adjoint(goal) / self.samples
        square = float(np.sum(goal**2) / self.samples)
        return Moments.from_normal_equations(kind, operator, linear, square)


@dataclass(frozen=True)
class LinearStructure(Structure):
    """f = G^T s(x): multi-output feedforward layers (MLP, CNN, value path of attention). G: (features, outputs)."""

    features: Float[Array, "features samples"]

    def apply(self, order: Array) -> Array:
        return order.T @ self.features

    def adjoint(self, residual: Array) -> Array:
        return self.features @ residual.T

    def second_moment(self) -> tuple[Kind, Array]:
        return "left", self.features @ self.features.T / self.samples


@dataclass(frozen=True)
class BilinearStructure(Structure):
    """f_o = a_o(x)^T G b(x): query-key attention. G: (left features, right features)."""

    left: Float[Array, "outputs left samples"]
    right: Float[Array, "right samples"]

    def apply(self, order: Array) -> Array:
        return (self.left * (order @ self.right)[None]).sum(1)

    def adjoint(self, residual: Array) -> Array:
        return (self.left * residual[:, None]).sum(0) @ self.right.T

    def second_moment(self) -> tuple[Kind, Array]:
        """K_(ab)(cd) = mean of (sum_o a_oa a_oc) b_b b_d: outputs are summed before the product over samples."""
        rows, columns = self.left.shape[1], self.right.shape[0]
        _refuse_dense(rows * columns)
        lefts = sum(left[:, None] * left[None] for left in self.left).reshape(-1, self.samples)
        rights = (self.right[:, None] * self.right[None]).reshape(-1, self.samples)
        moment = (lefts @ rights.T / self.samples).reshape(rows, rows, columns, columns)
        return "dense", moment.transpose(0, 2, 1, 3).reshape(rows * columns, -1)


@dataclass(frozen=True)
class GatedStructure(Structure):
    """f_o = a(x)^T G_o b(x), G_o stacked below each other: gated experts. G: (outputs * left features, right features)."""

    left: Float[Array, "left samples"]
    right: Float[Array, "right samples"]

    def apply(self, order: Array) -> Array:
        blocks = (order @ self.right).reshape(-1, *self.left.shape)
        return (blocks * self.left[None]).sum(1)

    def adjoint(self, residual: Array) -> Array:
        weighted = residual[:, None] * self.left[None]
        return weighted.reshape(-1, self.samples) @ self.right.T

    def second_moment(self) -> tuple[Kind, Array]:
        """One output's operator: every G_o obeys the same."""
        _refuse_dense(len(self.left) * len(self.right))
        rows = (self.left[:, None] * self.right[None]).reshape(-1, self.samples)
        return "dense", rows @ rows.T / self.samples


@dataclass(frozen=True)
class ProductStructure(GatedStructure):
    """f = a(x)^T G b(x), one output, a and b vectors of their own: bilinear models. G: (left features, right features)."""


@dataclass(frozen=True)
class SymmetricStructure(Structure):
    """f = a(x)^T M a(x): quadratic networks, phase retrieval. G = M: (features, features), one output."""

    vectors: Float[Array, "features samples"]

    def apply(self, order: Array) -> Array:
        return (self.vectors * (order @ self.vectors)).sum(0)[None]

    def adjoint(self, residual: Array) -> Array:
        return (self.vectors * residual) @ self.vectors.T

    def second_moment(self) -> tuple[Kind, Array]:
        _refuse_dense(len(self.vectors) ** 2)
        rows = (self.vectors[:, None] * self.vectors[None]).reshape(-1, self.samples)
        return "dense", rows @ rows.T / self.samples


@dataclass(frozen=True)
class PairStructure(Structure):
    """f = a(x)^T M b(x): tied queries and keys. G = M: (features, features), one output; A(x) = Sym(a b^T)."""

    left: Float[Array, "features samples"]
    right: Float[Array, "features samples"]

    def apply(self, order: Array) -> Array:
        symmetric = (order + order.T) / 2
        return (self.left * (symmetric @ self.right)).sum(0)[None]

    def adjoint(self, residual: Array) -> Array:
        product = (self.left * residual) @ self.right.T
        return (product + product.T) / 2

    def second_moment(self) -> tuple[Kind, Array]:
        _refuse_dense(len(self.left) ** 2)
        products = self.left[:, None] * self.right[None]
        rows = ((products + products.swapaxes(0, 1)) / 2).reshape(-1, self.samples)
        return "dense", rows @ rows.T / self.samples


@dataclass(frozen=True)
class SensingStructure(Structure):
    """f_o = <S_o(x), G>: matrix sensing, and any small module by its own matrices A(x). G: (rows, columns)."""

    matrices: Float[Array, "rows columns outputs samples"]

    def apply(self, order: Array) -> Array:
        return (order.reshape(1, -1) @ self._flat).reshape(self.offset.shape)

    def adjoint(self, residual: Array) -> Array:
        return (self._flat @ residual.reshape(-1, 1)).reshape(self.matrices.shape[:2])

    def second_moment(self) -> tuple[Kind, Array]:
        _refuse_dense(len(self._flat))
        return "dense", self._flat @ self._flat.T / self.samples

    @property
    def _flat(self) -> Float[Array, "rows*columns outputs*samples"]:
        rows, columns = self.matrices.shape[:2]
        return self.matrices.reshape(rows * columns, -1)


@dataclass(frozen=True)
class SymmetricSensingStructure(SensingStructure):
    """f_o = <S_o(x), M> with symmetric S. G = M."""


@dataclass(frozen=True)
class ExpandedStructure(SymmetricSensingStructure):
    """The matrices A(x) of a module, from its own derivatives. G = M, of which data may see a part only (an off-diagonal block, say)."""


@dataclass(frozen=True)
class DiagonalStructure(Structure):
    """f = sum_k c_k(x) G_k: commuting structures (diagonal networks, Fourier MLP). G: (features,), one output."""

    coefficients: Float[Array, "features samples"]

    def apply(self, order: Array) -> Array:
        return (order @ self.coefficients)[None]

    def adjoint(self, residual: Array) -> Array:
        return self.coefficients @ residual[0]

    def second_moment(self) -> tuple[Kind, Array]:
        if np.count_nonzero(self.coefficients, axis=0).max(initial=0) <= 1:
            # One-hot samples: no product of a p x m matrix with itself.
            return "diagonal", (self.coefficients**2).sum(1) / self.samples
        gram = self.coefficients @ self.coefficients.T / self.samples
        diagonal = np.diag(gram)
        off_diagonal = np.abs(gram - np.diag(diagonal)).max(initial=0.0)
        if off_diagonal <= 1e-12 * np.abs(diagonal).max():
            return "diagonal", diagonal.copy()
        return "dense", gram


STRUCTURES = (
    LinearStructure,
    BilinearStructure,
    GatedStructure,
    ProductStructure,
    SymmetricStructure,
    PairStructure,
    SensingStructure,
    SymmetricSensingStructure,
    ExpandedStructure,
    DiagonalStructure,
)
