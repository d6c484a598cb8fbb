"""Families: cells that differ in nothing but the seed. What they share is validated and hashed once, so that large studies plan fast."""

from __future__ import annotations

import hashlib
from typing import Any

from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.identity import DIGITS, around


class Family:
    """All seeds of one cell. A member equals the cell that validation would build, identity included."""

    def __init__(self, cell: Cell) -> None:
        fields = {name: getattr(cell, name) for name in Cell.model_fields}
        self._cell = Cell.model_construct(cell.model_fields_set, **fields)  # nothing that this cell has computed for its own seed
        self._before, self._after = (text.encode() for text in around(cell, "seed"))
        self._shared: dict[str, Any] = {"bucket": cell.bucket, "lane_key": cell.lane_key}

    def member(self, seed: int) -> Cell:
        """The cell of this seed, which must be an integer of 0 or more."""
        cell = self._cell.model_copy()
        text = self._before + str(seed).encode() + self._after
        cell.__dict__.update(self._shared, seed=seed, id=hashlib.sha256(text).hexdigest()[:DIGITS])
        return cell
