"""Fixed points of competing modes, dz_k/dt = z_k (r_k - sum_j C_kj z_j), and how residents answer an invader; many cells at once.

Members of a set are given as a mask, so that cells with different sets share one batched solve: rows and columns of
modes outside the set are those of the identity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import digamma

Array = Any
COPY = 1e-9
"""Share of a mode's own saturation below which its Schur complement is rounding."""
LEAST_SLOPE = 0.1
"""An invader that the residents hold up is taken to keep this share of its invasion rate."""


def within(interaction: Float[Array, "*cells modes modes"], member: Bool[Array, "*cells modes"]) -> Float[Array, "*cells modes modes"]:
    """C among the members, the identity elsewhere."""
    both = member[..., :, None] & member[..., None, :]
    return np.where(both, interaction, np.eye(interaction.shape[-1]))


def solve(matrix: Float[Array, "*cells modes modes"], vector: Float[Array, "*cells modes"]) -> Float[Array, "*cells modes"]:
    """matrix^-1 vector, cell by cell."""
    return np.asarray(np.linalg.solve(matrix, vector[..., None])[..., 0])


def act(matrix: Float[Array, "*cells modes modes"], vector: Float[Array, "*cells modes"]) -> Float[Array, "*cells modes"]:
    """matrix @ vector, cell by cell."""
    return np.asarray((matrix @ vector[..., None])[..., 0])


def fixed_point(
    rate: Float[Array, "*cells modes"], interaction: Float[Array, "*cells modes modes"], allowed: Bool[Array, "*cells modes"]
) -> Float[Array, "*cells modes"]:
    """Non-negative z with r = C z on its support, found by dropping the most negative member until none is left."""
    support = allowed.copy()
    while True:
        z = np.where(support, solve(within(interaction, support), np.where(support, rate, 0.0)), 0.0)
        negative = np.asarray(z.min(-1, keepdims=True) < 0)
        if not negative.any():
            return z
        support &= ~(negative & (np.arange(z.shape[-1]) == z.argmin(-1)[..., None]))


def invader_capacity(
    interaction: Float[Array, "*cells modes modes"], resident: Bool[Array, "*cells modes"]
) -> Float[Array, "*cells modes"]:
    """Invasion rate over the invader's height next to the residents: the Schur complement of C_kk, positive for a positive definite C."""
    own = np.diagonal(interaction, axis1=-2, axis2=-1)
    among = np.where(resident[..., None, :], interaction, 0.0)
    answers = np.linalg.solve(within(interaction, resident), np.where(resident[..., :, None], interaction, 0.0))
    left = own - np.einsum("...ks,...sk->...k", among, answers)
    # Nothing of an invader that copies the residents is its own: it never rises.
    return np.where(left > COPY * own, left, np.inf)


def lag(
    resident: Float[Array, "*cells modes"],
    interaction: Float[Array, "*cells modes modes"],
    invader: Array,
    rate: Float[Array, "*cells"],
    height: Float[Array, "*cells"],
) -> Float[Array, "*cells"]:
    """Flow time by which an invader passes half of its height later than a logistic one: residents (z > 0) give way at finite rates.

    The residents' linear response to a logistic invader has a closed form. In an eigendirection of rate mu of diag(z) C they have followed
    it, at half height, by the integral of exp(mu s) / (1 + exp(-g s)) over s < 0, which is beta(1 + mu/g) / g with
    beta(x) = (psi((x+1)/2) - psi(x/2)) / 2.
    """
    member = resident > 0
    pick = invader[..., None] == np.arange(resident.shape[-1])
    towards = np.where(member, (interaction * pick[..., None, :]).sum(-1), 0.0)
    back = np.where(member, (interaction * pick[..., :, None]).sum(-2), 0.0)
    mu, axes = np.linalg.eig(within(resident[..., None] * interaction, member))
    answer = (back[..., None, :] @ axes)[..., 0, :] * np.linalg.solve(axes, (resident * towards).astype(complex)[..., None])[..., 0] / mu
    x = 1 + mu.real / rate[..., None]
    follow = answer * (height / rate)[..., None] * (digamma((x + 1) / 2) - digamma(x / 2)) / 2
    own = (np.diagonal(interaction, axis1=-2, axis2=-1) * pick).sum(-1)
    slope = rate - own * height / 2 + (follow * mu).sum(-1).real
    return np.asarray(follow.sum(-1).real / np.maximum(slope, LEAST_SLOPE * rate))


def slowest(z: Float[Array, "*cells modes"], interaction: Float[Array, "*cells modes modes"]) -> Float[Array, "*cells"]:
    """Rate at which the plateau z > 0 is reached in the end; inf where there is none."""
    member = z > 0
    matrix = np.where(member[..., :, None] & member[..., None, :], z[..., :, None] * interaction, 0.0)
    # Empty places are filled above every eigenvalue, so that the smallest one is a member's.
    above = 1 + np.abs(matrix).sum((-2, -1))[..., None] * ~member + ~member
    filled = matrix + np.where(member, 0.0, above)[..., None] * np.eye(z.shape[-1])
    return np.where(member.any(-1), np.linalg.eigvals(filled).real.min(-1), np.inf)
