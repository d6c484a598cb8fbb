"""Modes of a symmetric order parameter of which data see a part only: an off-diagonal block, a partial trace."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.forms.modes import VisibleBasis

Array = Any
UNSEEN = 1e-10
"""Eigenvalues of K below this share of the largest belong to what no output depends on."""
ALIKE = 0.99
"""Modes whose visible parts have a larger cosine are copies of one another (the value dimensions of one head)."""


def visible_modes(
    operator: Float[Array, "pairs pairs"], drive: Float[Array, "rows rows"], optimum: Float[Array, "rows rows"], count: int
) -> VisibleBasis:
    """The `count` leading eigenvectors of a correlation K G that grow, with their visible parts; copies are left out.

    Targets are those of `optimum`; modes that it does not hold are left out too.
    """
    values, axes = np.linalg.eigh((drive + drive.T) / 2)
    seen = _visible(operator)
    kept: list[int] = []
    readers: list[Array] = []
    for k in np.flatnonzero(values > UNSEEN * values.max(initial=0.0))[::-1]:
        if len(kept) == count:
            break
        pair = np.outer(axes[:, k], axes[:, k])
        reader = (seen @ (seen.T @ pair.ravel())).reshape(pair.shape)
        size = np.linalg.norm(reader)
        if size > 0 and all(abs((reader * other).sum()) <= ALIKE * size * np.linalg.norm(other) for other in readers):
            kept.append(int(k))
            readers.append(reader)
    found = np.array(readers).reshape(len(kept), *drive.shape)
    return VisibleBasis(axes[:, kept], axes[:, kept], np.ones(len(kept)), found).aimed_at(optimum)


def _visible(operator: Float[Array, "pairs pairs"]) -> Float[Array, "pairs seen"]:
    """Orthonormal basis of the matrices that K does not annihilate."""
    values, vectors = np.linalg.eigh(operator)
    return vectors[:, values > UNSEEN * values.max(initial=0.0)]
