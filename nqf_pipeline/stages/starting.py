"""The first second of a job: what its imports can do without."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

COLLECT_EVERY = 500_000
"""Objects made between two searches for unreachable ones. Imports and traces make a million that stay: Python's own 700 cost a fifth."""
UNUSED = "dask.array"
"""xarray imports it with SciPy's transforms behind it as soon as it holds any array; only the analysis computes with it."""


@contextmanager
def quick_start() -> Iterator[None]:
    """Around the whole of a job that trains, predicts or merges: its imports take a quarter less."""
    before, blocked = gc.get_threshold(), UNUSED not in sys.modules
    gc.set_threshold(COLLECT_EVERY, *before[1:])
    if blocked:
        sys.modules[UNUSED] = None  # type: ignore[assignment]  # Python's way to say that a module cannot be imported
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if blocked:
            del sys.modules[UNUSED]
