"""What a benchmark reports: a value with its peer beside it, both measured in the same run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.json"


@dataclass(frozen=True)
class Row:
    """One line of benchmarks/results.json. `ratio` above 1 means that this project is better."""

    name: str
    value: float
    peer: str
    peer_value: float
    ratio: float
    unit: str
    limit_share: float | None = None
    """Share of the measured physical limit, where there is one."""
    note: str = ""
    limits: str = ""
    """What limits the value, with the figures measured for it in the same run."""
    variants: dict[str, float] = field(default_factory=dict)
    """The best repetition of every form of the peer that was tried; the best of these is the peer."""
    repeats: dict[str, list[float]] = field(default_factory=dict)
    """Every repetition of both sides, so that the spread can be seen."""


def rate_row(name: str, values: list[float], peer: str, peer_values: list[float], unit: str, **more: object) -> Row:
    """A row of rates (higher is better): the best repetition of either side."""
    value, peer_value = max(values), max(peer_values)
    return Row(name, value, peer, peer_value, value / peer_value, unit, repeats={"value": values, "peer_value": peer_values}, **more)  # type: ignore[arg-type]


def cost_row(name: str, values: list[float], peer: str, peer_values: list[float], unit: str, **more: object) -> Row:
    """A row of costs (lower is better): the best repetition of either side."""
    value, peer_value = min(values), min(peer_values)
    return Row(name, value, peer, peer_value, peer_value / value, unit, repeats={"value": values, "peer_value": peer_values}, **more)  # type: ignore[arg-type]


def save(rows: list[Row]) -> None:
    """Writes benchmarks/results.json."""
    RESULTS.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def load() -> list[Row]:
    """The rows of the last run."""
    return [Row(**row) for row in json.loads(RESULTS.read_text())] if RESULTS.exists() else []
