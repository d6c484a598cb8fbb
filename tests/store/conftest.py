"""Cells of a small study."""

from __future__ import annotations

import pytest


@pytest.fixture
def cells() -> list[str]:
    """Ids in no particular order."""
    return [f"{k:016x}" for k in (7, 3, 11, 5)]
