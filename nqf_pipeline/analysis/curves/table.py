"""What a file holds, whatever its format: named columns of numbers, and columns of words that may tell runs apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from nqf_pipeline.errors import InputError

NUMERIC = 0.9
"""Share of a column's entries that must be numbers; the others are then counted as missing, and said so."""
_ABSENT = ("", "null", "none", "n/a", "na", "-")


class CurveError(InputError):
    """A file in which there is no curve to describe."""


@dataclass(frozen=True)
class Note:
    """One thing found, and what was done about it."""

    code: str
    message: str


@dataclass(frozen=True)
class Column:
    """Numbers of one column; `present` is False where the file has no entry (a row that logs something else), which is no NaN."""

    values: Float[np.ndarray, "rows"]
    present: Bool[np.ndarray, "rows"]


@dataclass
class Table:
    """Columns of equal length."""

    columns: dict[str, Column] = field(default_factory=dict)
    words: dict[str, list[str]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    averaged: frozenset[str] = frozenset()
    """Columns whose entries are means since the entry before."""

    def add(self, name: str, entries: Sequence[Any]) -> None:
        """A column of raw entries: numbers, text, None for absent ones."""
        cells = [_absent(entry) for entry in entries]
        numbers = [_number(entry) for entry in cells]
        present = np.array([entry is not None for entry in cells], bool)
        readable = np.array([number is not None for number in numbers], bool)
        total = int(present.sum())
        if not total:
            return
        if (present & readable).sum() < NUMERIC * total:
            self.words[name] = ["" if entry is None else str(entry) for entry in cells]
            return
        if (present & ~readable).any():
            row = int(np.argmax(present & ~readable))
            count = int((present & ~readable).sum())
            self.notes.append(
                Note("not_numbers", f"{count} entries of `{name}` are no numbers (the first: `{cells[row]}`, record {row + 1}); left out")
            )
        self.columns[name] = Column(np.array([np.nan if n is None else n for n in numbers]), present & readable)


def from_rows(rows: Iterable[dict[str, Any]]) -> Table:
    """A table of records that need not have the same keys."""
    records = list(rows)
    names = dict.fromkeys(key for record in records for key in record)
    table = Table()
    for name in names:
        table.add(name, [record.get(name) for record in records])
    return table


def _absent(entry: Any) -> Any:
    return None if entry is None or (isinstance(entry, str) and entry.strip().lower() in _ABSENT) else entry


def _number(entry: Any) -> float | None:
    if isinstance(entry, bool) or entry is None:
        return None
    try:
        return float(entry)
    except (TypeError, ValueError, OverflowError):
        return None
