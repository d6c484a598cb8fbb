"""Monotone flows of one variable by their time of passage: t(s) as Gauss-Legendre sums over panels, and its inverse (NumPy, float64).

A scalar flow needs no time steps: dt/ds is a smooth positive function, so t(s) is a quadrature, good to rounding, and each asked time
is found inside its panel by Newton's method. Groups (independent flows) are the last axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

Array = Any
Weight = Callable[[Array], Array]
"""dt/ds at s of shape (..., groups)."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)
NEWTON_STEPS = 8
"""Newton's method is kept inside the panel, where dt/ds changes by a small factor: it stops at rounding, mostly after three steps."""
ROUNDING = 4e-15


def invert(
    time: Float[Array, "times"], edges: Float[Array, "edges groups"], slowness: Weight
) -> tuple[Float[Array, "times groups"], Float[Array, "groups"]]:
    """(s at each time, the time at which the last edge is passed); times beyond it stay at the last edge."""
    passed = np.cumsum(_between(edges[:-1], edges[1:], slowness), axis=0)
    passed = np.concatenate([np.zeros((1, edges.shape[1])), passed])
    panel = np.array([np.searchsorted(column, time, "right") - 1 for column in passed.T]).T
    panel = np.clip(panel, 0, len(edges) - 2)
    left, right = (np.take_along_axis(edges, panel + shift, 0) for shift in (0, 1))
    start, end = (np.take_along_axis(passed, panel + shift, 0) for shift in (0, 1))
    wanted = np.minimum(time[:, None], end) - start
    s = left + (right - left) * wanted / (end - start)
    for _ in range(NEWTON_STEPS):
        before, s = s, np.clip(s - (_between(left, s, slowness) - wanted) / slowness(s), left, right)
        if np.all(np.abs(s - before) <= ROUNDING * right):
            break
    return s, passed[-1]


def _between(left: Array, right: Array, slowness: Weight) -> Array:
    """Integrals of dt/ds from `left` to `right`, both (..., groups)."""
    half = (right - left) / 2
    total = np.zeros_like(half)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        total += weight * slowness(left + half * (1 + node))
    return half * total
