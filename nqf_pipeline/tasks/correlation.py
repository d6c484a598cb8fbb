"""Modes of a data set that came without a teacher.

From small weights a network first sees the data through the input-output correlation T = K G* (theory:
section 3), so its singular directions are the modes that ignite. In the metric K, mode k carries the share
s_k u_k^T G* v_k of the variance <T, G*> that the quadratic form can explain at all; where K is the identity
these are the singular values of the optimum. With a single linear output there is exactly one such mode,
and its strength <T, G> / <T, G*> is the explained share of the whole optimum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nqf_pipeline.forms.modes import CoordinateBasis, ModeBasis, SingularBasis
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.visible import visible_modes

Array = Any
NEGLIGIBLE = 1e-3
"""Directions that explain less than this share of the explainable variance are not watched."""


def correlation_modes(architecture: Architecture, moments: Moments, count: int) -> ModeBasis:
    """The `count` leading modes that carry variance and that the architecture can learn; fewer where fewer exist."""
    total = float((moments.linear * moments.optimum).sum())
    if moments.linear.ndim == 1:
        return _coordinates(architecture, moments, count, total)
    if not architecture.sees_all:
        found = visible_modes(moments.operator, moments.linear, moments.optimum, count)
        drive = (found.left * (moments.linear @ found.left)).sum(0)
        return found.take(np.flatnonzero(drive * found.target > NEGLIGIBLE * total))
    left, values, right = _pairs(architecture, moments.linear)
    target = (left * (moments.optimum @ right)).sum(0)
    keep = np.flatnonzero(values * target > NEGLIGIBLE * total)[:count]
    return SingularBasis(left[:, keep], right[:, keep], target[keep])


def _coordinates(architecture: Architecture, moments: Moments, count: int, total: float) -> CoordinateBasis:
    drive = moments.linear if architecture.positive else np.abs(moments.linear)
    order = np.argsort(-drive, kind="stable")
    keep = order[(drive[order] > 0) & ((moments.linear * moments.optimum)[order] > NEGLIGIBLE * total)][:count]
    return CoordinateBasis(keep, moments.optimum[keep])


def _pairs(architecture: Architecture, correlation: Array) -> tuple[Array, Array, Array]:
    """Singular triplets, or eigenpairs from the largest down where the order parameter is symmetric (negative ones are never learnt)."""
    if architecture.positive:
        values, axes = np.linalg.eigh((correlation + correlation.T) / 2)
        return axes[:, ::-1], np.maximum(values[::-1], 0.0), axes[:, ::-1]
    left, values, right = np.linalg.svd(correlation, full_matrices=False)
    return left, values, right.T
