"""Closed flow of features that share a sample: proportional samples (Theorem 4) and orthogonal samples (Theorem 5); deep linear modes.

In a group dz_k/dt = z_k (r_k - a_k sum_j a_j z_j) with r_k = y a_k, so every ln z_k moves along a_k by the same amount xi,

    dxi/dt = f(xi) = y - sum_j a_j z_j(0) exp(a_j xi),        z_k = z_k(0) exp(a_k xi).

Proportional samples A_mu = c_mu A are one group, orthogonal samples one group each. f decreases, so xi runs monotonically to the root xi*
of f, and t(xi) is a quadrature (`passage`). With xi* - xi = xi* exp(-s) and z* the values at the root, f loses no digit near it:
dt/ds = 1 / sum_j a_j^2 z*_j (1 - exp(-x_j)) / x_j, x_j = a_j (xi* - xi) (up to sign). Without a root (y and all a_j pull the same way)
the group decays forever and xi itself is the variable.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.special import exprel

from nqf_pipeline.dynamics.passage import invert

Array = Any
DIGITS = 40.0
"""Natural logarithm of the share that no double distinguishes from zero, with room."""
PANEL = 0.125
"""Width of a panel in s: ten nodes integrate to rounding there."""
BISECTIONS = 90
CHUNK = 64
"""Groups solved together (memory)."""


def shared_samples(
    time: Float[Array, "times"],
    target: Float[Array, "groups"],
    coupling: Float[Array, "groups members"],
    seed: Float[Array, "groups members"],
    weight_decay: float = 0.0,
) -> Float[Array, "times groups members"]:
    """z of every member of every group at times >= 0, in the type of `seed`; relative error about 1e-12 in float64.

    Convention: flow time, r_k = target * coupling_k. Empty members (seed or coupling 0) stay as they are. Weight decay lowers all rates by
    2 weight_decay; xi then has no autonomous equation and is integrated (relative error about 1e-9).
    """
    kind = np.result_type(seed, np.float32)
    time, target, coupling, seed = (np.asarray(array, float) for array in (time, target, coupling, seed))
    live = seed > 0
    coupling = np.where(live, coupling, 0.0)
    if weight_decay:
        return _decayed(time, target, coupling, seed, weight_decay).astype(kind)
    result = np.empty((len(time), *seed.shape))
    falling, rising = (coupling < 0).any(-1), (coupling > 0).any(-1)
    rooted = (falling | (target > 0)) & (rising | (target < 0)) & (falling | rising)
    with np.errstate(over="ignore", under="ignore"):
        for part in _chunks(np.flatnonzero(rooted)):
            result[:, part] = _to_root(time, target[part], coupling[part], seed[part])
        for group in np.flatnonzero(~rooted):
            result[:, group] = _decaying(time, abs(target[group]), np.abs(coupling[group]), seed[group])
    return result.astype(kind)


def proportional_samples(
    time: Float[Array, "times"], alpha: float, beta: float, eigenvalue: Float[Array, "modes"], seed: Float[Array, "modes"]
) -> Float[Array, "times modes"]:
    """Theorem 4: z_k = z_k(0) exp(-2 lambda_k xi), dxi/dt = alpha sum_j lambda_j z_j(0) exp(-2 lambda_j xi) - beta.

    alpha = 4/m sum c^2 and beta = 4/m sum c y for A_mu = c_mu A with eigenvalues lambda.
    """
    scale = np.sqrt(2 * alpha)
    return shared_samples(time, np.atleast_1d(2 * beta / scale), scale * np.asarray(eigenvalue)[None], np.asarray(seed)[None])[:, 0]


def deep_linear_mode(
    time: Float[Array, "times"],
    drive: Float[Array, "modes"],
    curvature: Float[Array, "modes"],
    seed: Float[Array, "modes"],
    depth: int,
) -> Float[Array, "times modes"]:
    """Strength u of the singular modes of a product of `depth` layers from an aligned, balanced start (Saxe et al.; depth 2: logistic).

    du/dt = 2 depth u^(2 - 2/depth) (drive - curvature u) for loss sum over modes of curvature u^2 - 2 drive u, drive > 0, seed > 0.
    """
    time, drive, curvature, seed = (np.asarray(array, float) for array in (time, drive, curvature, seed))
    full = drive / curvature
    distance = np.log(full / seed)

    def slowness(s: Array) -> Array:
        left = distance * np.exp(-s)
        growth = (full * np.exp(-left)) ** (1 - 2 / depth)
        return 1 / (2 * depth * drive * growth * exprel(-left))

    s, last = invert(time, _edges(distance), slowness)
    return full * np.exp(np.where(time[:, None] > last, 0.0, -distance * np.exp(-s)))


def _chunks(index: Array) -> list[Array]:
    return [index[start : start + CHUNK] for start in range(0, len(index), CHUNK)]


def _edges(distance: Float[Array, "groups"]) -> Float[Array, "edges groups"]:
    """Panels in s until nothing is left of a distance, fine enough where it is long: there dt/ds changes by exp(distance)."""
    longest = max(float(np.abs(distance).max(initial=0.0)), 1.0)
    end = np.log(longest) + DIGITS
    count = int(np.ceil(end / min(PANEL, 4 / longest)))
    return np.broadcast_to(np.linspace(0, end, count + 1)[:, None], (count + 1, len(distance)))


def _to_root(time: Array, target: Array, coupling: Array, seed: Array) -> Float[Array, "times groups members"]:
    largest = np.abs(coupling).max(-1)
    share = coupling / largest[:, None]
    goal = _root(target, coupling, share, seed)
    square = coupling**2 * seed

    def slowness(s: Array) -> Array:
        # a^2 z* (1 - exp(-x)) / x, with the exponents of z* and of x taken together.
        x = share * (goal * np.exp(-s))[..., None]
        return 1 / (square * np.exp(share * goal[:, None] - np.minimum(x, 0)) * exprel(-np.abs(x))).sum(-1)

    s, last = invert(time, _edges(goal), slowness)
    progress = np.where(time[:, None] > last, goal, -goal * np.expm1(-s))
    return np.asarray(seed * np.exp(share * progress[..., None]))


def _root(target: Array, coupling: Array, share: Array, seed: Array) -> Float[Array, "groups"]:
    """largest |a| times xi*, by bracketing, bisection and two Newton steps."""

    def gap(x: Array) -> Array:
        return target - (coupling * seed * np.exp(share * x[:, None])).sum(-1)

    ahead = gap(np.zeros_like(target)) > 0
    sign, reach = np.where(ahead, 1.0, -1.0), np.ones_like(target)
    while (short := sign * gap(sign * reach) > 0).any():
        reach[short] *= 2
    near, far = np.where(reach > 1, reach / 2, 0.0), reach
    for _ in range(BISECTIONS):
        middle = (near + far) / 2
        before = sign * gap(sign * middle) > 0
        near, far = np.where(before, middle, near), np.where(before, far, middle)
    x = sign * (near + far) / 2
    for _ in range(2):
        slope = (coupling * share * seed * np.exp(share * x[:, None])).sum(-1)
        x = x + gap(x) / slope
    return x


def _decaying(time: Array, pull: float, coupling: Array, seed: Array) -> Float[Array, "times members"]:
    """One group without a fixed point: dxi/dt = -(pull + sum_j a_j z_j), all a_j > 0; with u = -largest a * xi."""
    inside = coupling > 0
    if not inside.any():
        return np.broadcast_to(seed, (len(time), len(seed)))
    a, z = coupling[inside], seed[inside]
    share, crowd = a / a.max(), float(a @ z)
    slowest, latest = share.min(), float(time.max(initial=0.0))
    if pull > 0:
        end = (DIGITS + max(np.log(crowd / pull), 0.0)) / slowest
    else:
        end = np.log1p(crowd * a.min() * latest) / slowest + 1.0

    def slowness(u: Array) -> Array:
        return 1 / (a.max() * (pull + (a * z * np.exp(-share * u[..., None])).sum(-1)))

    u, last = invert(time, _graded(end, 2 / slowest)[:, None], slowness)
    u = u + np.maximum(time[:, None] - last, 0.0) * a.max() * pull
    return seed * np.exp(-coupling / a.max() * u)


def _graded(end: float, widest: float) -> Float[Array, "edges"]:
    """Edges from 0 to `end`, a quarter of the way each but no wider than `widest`."""
    edges = [0.0]
    while edges[-1] < end:
        edges.append(edges[-1] + min(0.25 * (1 + edges[-1]), widest))
    return np.array(edges)


def _decayed(time: Array, target: Array, coupling: Array, seed: Array, decay: float) -> Float[Array, "times groups members"]:
    largest = np.abs(coupling).max(-1, keepdims=True)
    largest = np.where(largest > 0, largest, 1.0)
    share = coupling / largest

    def slope(now: float, progress: Array) -> Array:
        members = seed * np.exp(share * progress[:, None] - 2 * decay * now)
        return largest[:, 0] * (target - (coupling * members).sum(-1))

    start = np.zeros(len(seed))
    solution = solve_ivp(slope, (0, time[-1]), start, "LSODA", time, rtol=1e-12, atol=1e-12, lband=0, uband=0)
    return seed * np.exp(share * solution.y.T[..., None] - 2 * decay * time[:, None, None])
