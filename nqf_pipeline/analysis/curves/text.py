"""Tables in text: comma, semicolon, tab, bar or blanks between columns, with a header or without one."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

from nqf_pipeline.analysis.curves.table import CurveError, Table

DELIMITERS = (",", ";", "\t", "|")


def text_table(path: Path, content: str) -> Table:
    """The columns of a delimited text file; every row must have as many cells as the first."""
    lines = [(number, line) for number, line in enumerate(content.splitlines(), 1) if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise CurveError(f"{path}: holds no row of data, so there is no curve; give a table with a column of losses")
    delimiter = _delimiter([line for _, line in lines[:50]])
    rows = [(number, _split(line, delimiter)) for number, line in lines]
    named = not any(_is_number(cell) for cell in rows[0][1])
    header = _unique(path, rows[0][1]) if named else [f"column {i + 1}" for i in range(len(rows[0][1]))]
    body = rows[1:] if named else rows
    for number, row in body:
        if len(row) != len(header):
            raise CurveError(
                f"{path}, line {number}: has {len(row)} cells, but the first row has {len(header)}; a missing cell would shift the others, "
                "so complete or remove that line"
            )
    table = Table()
    for position, name in enumerate(header):
        table.add(name, [row[position] for _, row in body])
    return table


def _delimiter(lines: list[str]) -> str | None:
    """The mark found most often in the first row; None for blanks."""
    counts = Counter({mark: lines[0].count(mark) for mark in DELIMITERS})
    mark, count = counts.most_common(1)[0]
    return mark if count else None


def _split(line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        return re.split(r"\s+", line.strip())
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))]


def _unique(path: Path, header: list[str]) -> list[str]:
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise CurveError(f"{path}, header: column(s) {', '.join(twice)} appear twice, so it is unclear which is meant; rename them")
    return header


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
