"""Which modes to record one by one."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

FIRST = 8


def log_spaced(modes: int, watched: int) -> Int[np.ndarray, "watched"]:
    """At most `watched` indices below `modes`: the first 8, then log-spaced ones up to the last."""
    first = min(FIRST, watched, modes)
    if modes <= watched:
        return np.arange(modes)
    rest = watched - first
    # Rounding merges neighbours, so the finest spacing that still gives `rest` distinct indices is searched for.
    for points in range(rest, 20 * rest + 1):
        tail = np.unique(np.geomspace(first + 1, modes, points).round().astype(int)) - 1
        if len(tail) >= rest:
            return np.concatenate([np.arange(first), tail[-rest:]])
    raise AssertionError("unreachable: more than `rest` integers lie in the range")
