"""The first second of a job: what its imports can do without."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

COLLECT_EVERY = 500_000
"""Objects made between two searches for unreachable ones. Imports and traces make a million that stay: Python's own 700 cost a fifth."""


class Unloaded:
    """What xarray asks about dask: no array is one of dask's before somebody has imported them.

    xarray itself would import them, and SciPy's transforms behind them, as soon as it holds any array; only the analysis needs them.
    """

    @property
    def type(self) -> tuple[type, ...]:
        """The classes of dask's arrays; empty before they are imported."""
        array = getattr(sys.modules.get("dask.array"), "Array", None)
        return () if array is None else (array,)

    def __getattr__(self, name: str) -> Any:
        from xarray.namedarray.pycompat import DuckArrayModule

        return getattr(DuckArrayModule("dask"), name)


@contextmanager
def quick_start() -> Iterator[None]:
    """Around the whole of a job that trains, predicts or merges: its imports take a fifth less. A user's own code notices nothing."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_EVERY, *before[1:])
    asked, unloaded = _asked_of_xarray(), Unloaded()
    asked.setdefault("dask", unloaded)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if asked.get("dask") is unloaded:
            del asked["dask"]


def _asked_of_xarray() -> dict[str, Any]:
    """What xarray remembers of other libraries' arrays; an xarray that keeps it elsewhere merely starts slower."""
    try:
        from xarray.namedarray.pycompat import _cached_duck_array_modules
    except ImportError:
        return {}
    known: dict[str, Any] = _cached_duck_array_modules  # type: ignore[assignment]
    return known
