"""`python -m tests.faults.page LINES`: the table in docs/faults.md from the faults that a run of the tests injected."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from textwrap import shorten
from typing import Any

import pandas as pd

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
MARK = "<!-- below: written by `make test-faults` -->\n"
SURVIVED = (
    "A fault is survived when nothing finished is lost, what is read is the truth or a message names the file and the way out, and the "
    "same command (after what the message says) ends with the bytes of an undisturbed run."
)
LONGEST = 300
"""Characters of a reason."""
HEADER = "| {} | injected | survived | what happened |\n| --- | --- | --- | --- |"


def page(faults: pd.DataFrame, day: str) -> str:
    """The measured part of the page."""
    survived = faults["problem"] == ""
    runs = faults["part"] == "whole run"
    counts = [f"{int((survived & part).sum())} of {int(part.sum())} {what}" for part, what in ((runs, "whole runs"), (~runs, "components"))]
    parts = [
        f"## Measured on {day}",
        f"Survived: {' and '.join(counts)}. {SURVIVED}",
        "**Whole runs**\n\n" + _table("fault", faults[runs].groupby("kind", sort=False)),
        "**Store, planner and workers**\n\n" + _table("target", _by_target(faults[~runs]).groupby("target", sort=False)),
        _lost(faults[~survived]),
    ]
    return "\n\n".join(parts) + "\n"


def _by_target(faults: pd.DataFrame) -> pd.DataFrame:
    """The many faults of one target in one row: each kind with what happened."""
    return faults.assign(outcome=faults["kind"] + ": " + faults["outcome"])


def _table(head: str, groups: Iterable[tuple[Any, pd.DataFrame]]) -> str:
    rows = [HEADER.format(head)]
    for name, group in groups:
        good = group["problem"] == ""
        seen = "; ".join(f"{text}" + (f" ({count})" if count > 1 else "") for text, count in group["outcome"].value_counts().items())
        rows.append(f"| {name} | {len(group)} | {int(good.sum())} | {seen} |")
    return "\n".join(rows)


def _lost(lost: pd.DataFrame) -> str:
    if lost.empty:
        return "**Not survived**: none."
    lines = [f"- {row.kind}, {row.target}{_seed(row.seed)}: {_reason(row.problem)}" for row in lost.itertuples()]
    return "**Not survived**\n\n" + "\n".join(lines)


def _seed(seed: float | None) -> str:
    return "" if pd.isna(seed) else f", seed {seed:.0f}"


def _reason(problem: str) -> str:
    """Why, and the beginning of the message: the first line. Others are of a log, or what the test compared."""
    return shorten(problem.splitlines()[0].replace("AssertionError: ", ""), LONGEST, placeholder=" ...")


def main() -> None:
    lines = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    kept = PAGE.read_text(encoding="utf-8").split(MARK)[0]
    day = datetime.now(UTC).date().isoformat()
    PAGE.write_text(kept + MARK + "\n" + page(pd.DataFrame(lines), day), encoding="utf-8")


if __name__ == "__main__":
    main()
