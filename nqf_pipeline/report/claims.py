"""Claims in words: the Findings of a study's page, and the ledger of all studies."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from nqf_pipeline.report.wording import listed, number

ORDER = {"fails": 0, "not resolved": 1, "holds": 2}
"""What a reader must know first."""
DIGITS, LARGE = 6, 1e5
"""Numbers with more decimals, or larger, are written with an exponent."""


@dataclass(frozen=True)
class FindingRow:
    """One claim as text."""

    id: str
    statement: str
    source: str
    predicted: str
    measured: str
    verdict: str
    note: str
    study: str

    @property
    def mark(self) -> str:
        """The verdict as a name for style sheets."""
        return self.verdict.replace(" ", "-")


def finding_rows(table: pd.DataFrame) -> list[FindingRow]:
    """Rows of the table `claims`: failures first, then what is not resolved, then what holds, each in the order of ids."""
    ranked = table.assign(rank=table["verdict"].map(ORDER)).sort_values(["rank", "id"], kind="stable")
    return [
        FindingRow(row["id"], row["statement"], row["source"], predicted(row), measured(row), row["verdict"], row["note"], row["study"])
        for _, row in ranked.iterrows()
    ]


def predicted(row: pd.Series) -> str:
    """The predicted value; a bound as such, a tolerance beside the value."""
    low, high, value = row["accept_low"], row["accept_high"], row["predicted"]
    if math.isnan(value):
        return ""
    if math.isinf(low) or math.isinf(high):
        return f"{'at most' if math.isinf(low) else 'at least'} {number(value)}"
    return f"{number(value)} ± {number((high - low) / 2)}" if high > low else number(value)


def measured(row: pd.Series) -> str:
    """The measured value; where it has an interval, with as many digits as its width resolves."""
    value, low, high = row["measured"], row["low"], row["high"]
    if math.isnan(value):
        return ""
    if not low < high:
        return _end(value)
    if math.isinf(high - low):
        return f"{_end(value)} ({_end(low)} to {_end(high)})"
    digits = 1 - math.floor(math.log10(high - low))
    plain = digits <= DIGITS and abs(value) < LARGE
    value, low, high = (f"{end:.{max(digits, 0)}f}" if plain else number(end) for end in (value, low, high))
    return f"{value} ({low} to {high})"


def _end(value: float) -> str:
    return "infinite" if math.isinf(value) else number(value)


def summary(verdicts: pd.Series) -> str:
    """'12 hold, 3 fail and 1 is not resolved'."""
    counts = {name: int((verdicts == name).sum()) for name in ("holds", "fails", "not resolved")}
    words = {"holds": ("holds", "hold"), "fails": ("fails", "fail"), "not resolved": ("is not resolved", "are not resolved")}
    return listed([f"{count} {words[name][count != 1]}" for name, count in counts.items() if count])
