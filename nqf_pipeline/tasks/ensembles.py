"""Random matrices that tasks are made of."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

Matrix = Float[np.ndarray, "size size"]


def haar(rows: int, columns: int, rng: np.random.Generator) -> Float[np.ndarray, "rows columns"]:
    """Orthonormal columns, uniformly distributed (QR with the sign of R's diagonal fixed)."""
    basis, triangle = np.linalg.qr(rng.standard_normal((rows, columns)))
    return basis * np.where(np.diag(triangle) < 0, -1.0, 1.0)


def covariance_root(size: int, condition: float, rng: np.random.Generator) -> Matrix:
    """Symmetric root of a covariance in random directions: log-spaced eigenvalues of mean 1 and the given condition number."""
    values = np.geomspace(condition, 1.0, size) if size > 1 else np.ones(1)
    axes = haar(size, size, rng)
    return (axes * np.sqrt(values / values.mean())) @ axes.T


def inverse_root(moment: Matrix) -> Matrix:
    """Symmetric S with S moment S = 1."""
    values, axes = np.linalg.eigh(moment)
    return (axes / np.sqrt(values)) @ axes.T


def along_first_axis(matrix: Matrix, inputs: Float[np.ndarray, "size *rest"]) -> Float[np.ndarray, "size *rest"]:
    """matrix @ inputs on the first axis."""
    return (matrix @ inputs.reshape(len(inputs), -1)).reshape(inputs.shape)
