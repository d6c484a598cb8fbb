"""Which modes to record one by one."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

FIRST = 8


def log_spaced(modes: int, watched: int) -> Int[np.ndarray, "watched"]:
    """At most `watched` indices below `modes`: the first 8, then log-spaced ones up to the last."""
    if modes <= watched or watched <= FIRST:
        return np.arange(min(modes, watched))
    rest = watched - FIRST
    # Rounding merges neighbours, so the finest spacing that still gives `rest` distinct indices is searched for.
    for points in range(max(rest, 2), 20 * rest + 3):
        tail = np.unique(np.geomspace(FIRST + 1, modes, points).round().astype(int)) - 1
        if len(tail) >= rest:
            return np.concatenate([np.arange(FIRST), tail[-rest:]])
    raise AssertionError("unreachable: more than `rest` integers lie in the range")
