"""Rates and interactions of the watched modes, measured by letting K act on each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.forms.modes import CoordinateBasis, TargetBasis
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem
from nqf_pipeline.theory.growth import flow_rate

Array = Any
Interacting = tuple[Float[Array, "modes"], Float[Array, "modes modes"], Float[Array, "modes"]]


def interacting_modes(architecture: Architecture, problem: Problem) -> Interacting:
    """(r, C, profile) of dz_k/dt = z_k (r_k - sum_j C_kj z_j), z_k(0) = sigma^2 profile_k chi^2.

    Exact for the entries of a vector G. For a matrix it keeps the watched modes u_k v_k^T alone: C_kj = c <u_k v_k^T, K u_j v_j^T> leaves
    out what K carries into other directions. A symmetric G gets the directions outside its watched modes as further modes, since their
    common trace acts on all.
    """
    per_drive, per_pair = flow_rate(architecture), 8.0 if architecture.positive else 2.0
    moments, basis = problem.moments, problem.modes
    factors = architecture.factors(np.broadcast_to(problem.initial_scale, (architecture.unit_size, architecture.width)))
    shares = [(factor**2).mean(-1) for factor in factors]
    if isinstance(basis, CoordinateBasis):
        operator = np.diag(moments.operator) if moments.kind == "diagonal" else moments.operator
        # A negative target of two factors is learnt by the antisymmetric pair: the same law with the sign of G reversed.
        sign = np.ones(len(moments.linear)) if architecture.positive else np.sign(moments.linear)
        return per_drive * sign * moments.linear, per_pair * sign[:, None] * operator * sign, sum(shares) / len(shares)
    assert not isinstance(basis, TargetBasis)  # several layers have no modes of one order parameter
    sides = [_completed(basis.left)] if architecture.positive else [basis.left, basis.right]
    modes = np.einsum("ak,bk->kab", sides[0], sides[-1])
    images = np.array([moments.act(mode) for mode in modes])
    profile = sum((side**2).T @ share for side, share in zip(sides, shares, strict=True)) / len(shares)
    return per_drive * (modes * moments.linear).sum((1, 2)), per_pair * np.einsum("iab,jab->ij", modes, images), profile


def _completed(axes: Float[Array, "rows modes"]) -> Float[Array, "rows rows"]:
    """The axes, followed by an orthonormal basis of the rest."""
    rest = np.linalg.svd(axes, full_matrices=True)[0][:, axes.shape[1] :]
    return np.concatenate([axes, rest], axis=1)
