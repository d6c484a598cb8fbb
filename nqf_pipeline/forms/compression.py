"""A quadratic form at a smaller width with the same predictions at every step (theory: Theorem 3, Corollary 3).

With V an orthonormal basis of the span of all g(x) and the columns of all A(x) and B(x), k_V its size and c = d'/d, the compressed form
has A' = c A, B' = B, g' = g, and the width d' = k_V + 1 suffices, trained with eta' = eta / c, weight decay c lambda and the momentum
unchanged. Then mu' = mu and c M' = M within the span, at every step. A start with these order parameters is

    w'_i = V (V^T mu_0 / d' + u_i),   U = L Z,   L L^T = V^T (M_0 - mu_0 mu_0^T / d) V / c,

Z with orthonormal rows orthogonal to the ones vector. A smaller width keeps the d' - 1 leading directions of L. Adam's steps depend on
the size of every entry of W, which compression changes, so nothing carries over to it. NumPy, float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.quadratic import DenseForm, Order, StructureForm
from nqf_pipeline.forms.structure import (
    BilinearStructure,
    DiagonalStructure,
    GatedStructure,
    LinearStructure,
    PairStructure,
    SensingStructure,
    Structure,
    SymmetricStructure,
)

Array = Any
TOLERANCE = 1e-12
"""Singular values below this share of the largest are rounding, not directions."""


@dataclass(frozen=True)
class Compression:
    """The same module with fewer units."""

    form: DenseForm | StructureForm
    """A' = (d'/d) A, B' = B, g' = g."""
    weights: Float[np.ndarray, "unit_size compressed_width"]
    basis: Float[np.ndarray, "unit_size span"]
    """V; its columns count k_V."""
    width: int
    """d, the original width."""
    kept: Float[np.ndarray, "kept"]
    """Eigenvalues of V^T (M_0 - mu_0 mu_0^T / d) V that the compressed start has, largest first."""
    discarded: Float[np.ndarray, "discarded"]
    """Those it lacks: none at width k_V + 1."""

    @property
    def ratio(self) -> float:
        """c = d'/d."""
        return self.weights.shape[1] / self.width

    @property
    def learning_rate_factor(self) -> float:
        """eta' / eta = d / d'."""
        return 1 / self.ratio

    @property
    def weight_decay_factor(self) -> float:
        """lambda' / lambda = d' / d."""
        return self.ratio

    @property
    def gap(self) -> float:
        """|c M'_0 - M_0| within the span (Frobenius): the factor in front of Corollary 3's bound."""
        return float(np.sqrt((self.discarded**2).sum()))

    def original(self, order: Order) -> Order:
        """The order parameters of the original width (within the span) from the compressed ones."""
        return Order(self.ratio * order.second, order.mean)


def compress(
    form: DenseForm | StructureForm, weights: Float[Array, "unit_size width"], width: int | None = None, basis: Array | None = None
) -> Compression:
    """The form and its initial weights at another width; by default the smallest that is exact, min(k_V + 1, d).

    `basis` widens the span where the form changes in training (a layer above another one).
    """
    weights = np.asarray(weights, float)
    basis = span_of(form) if basis is None else basis
    before = weights.shape[1]
    after = min(basis.shape[1] + 1, before) if width is None else width
    if not 1 <= after <= before:
        raise InputError(
            f"compress: width = {after} is not between 1 and the module's own {before}; there is nothing to gain by more units"
        )
    units, values = _start(basis.T @ weights, after)
    count = min(after - 1, len(values))
    return Compression(form.scaled(after / before), basis @ units, basis, before, values[:count], values[count:])


def compressed_start(weights: Float[Array, "unit_size width"], width: int) -> Float[np.ndarray, "unit_size compressed_width"]:
    """Weights of another width with the same (M, mu), up to the factor c, for a form that may see all of unit space (V = identity)."""
    return _start(np.asarray(weights, float), width)[0]


def _start(weights: Array, after: int) -> tuple[Array, Array]:
    """The compressed units, and all eigenvalues of M_0 - mu_0 mu_0^T / d, largest first."""
    from scipy.linalg import helmert  # most jobs compress nothing, and SciPy takes a tenth of a second

    before = weights.shape[1]
    order, ratio = Order.of(weights), after / before
    values, axes = np.linalg.eigh(order.second - np.outer(order.mean, order.mean) / before)
    values, axes = np.maximum(values[::-1], 0.0), axes[:, ::-1]
    count = min(after - 1, len(values))
    spread = axes[:, :count] * np.sqrt(values[:count] / ratio)
    units = order.mean[:, None] / after + spread @ helmert(after)[:count] if count else np.tile(order.mean[:, None] / after, after)
    return units, values


def span_of(form: DenseForm | StructureForm) -> Float[np.ndarray, "unit_size span"]:
    """V: an orthonormal basis of the span of g(x) and the columns of A(x) and B(x) over all samples and outputs."""
    from scipy.linalg import block_diag

    if isinstance(form, DenseForm):
        size = form.g.shape[-1]
        return _orthonormal(np.concatenate([np.reshape(part, (-1, size)) for part in (form.g, form.A, form.B)]).T)
    sides = [_orthonormal(side) for side in _sides(form.structure)]
    return sides[0] if form.split == 0 else np.asarray(block_diag(sides[0], sides[-1]))


def _sides(structure: Structure) -> tuple[Array, ...]:
    """What spans the columns and the rows of dG, the gradients in G: (rows, any number) and (columns, any number)."""
    match structure:
        case LinearStructure():
            return structure.features, np.eye(len(structure.offset))
        case BilinearStructure():
            return np.concatenate(list(structure.left), axis=1), structure.right
        case GatedStructure():
            return np.kron(np.eye(len(structure.offset)), _orthonormal(structure.left)), structure.right
        case SymmetricStructure():
            return (structure.vectors,)
        case PairStructure():
            return (np.concatenate([structure.left, structure.right], axis=1),)
        case SensingStructure():
            rows, columns = structure.matrices.shape[:2]
            return structure.matrices.reshape(rows, -1), structure.matrices.swapaxes(0, 1).reshape(columns, -1)
        case DiagonalStructure():
            seen = np.eye(len(structure.coefficients))[:, structure.coefficients.any(1)]
            return seen, seen
    raise InputError(
        f"compress: no span is known for a {type(structure).__name__}; expand the module (normal_form) and compress its DenseForm"
    )


def _orthonormal(columns: Array) -> Array:
    """Basis of the column span; QR first, as there are many more columns than rows."""
    triangle = np.linalg.qr(np.asarray(columns, float).T, mode="r")
    _, values, rows = np.linalg.svd(triangle, full_matrices=False)
    return rows[values > TOLERANCE * values.max(initial=0.0)].T
