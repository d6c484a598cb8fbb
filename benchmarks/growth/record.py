"""What the last run of the sweeps measured: benchmarks/growth.json."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.growth.studies import Kind, Measured, study_sweeps
from benchmarks.growth.sweeps import Sweep
from benchmarks.rows import FOLDER

FILE = FOLDER / "growth.json"


def load() -> dict[str, Any]:
    """Sweeps and studies by part; empty before the first run."""
    return dict(json.loads(FILE.read_text())) if FILE.exists() else {}


def studies(found: dict[str, Any]) -> list[Measured]:
    """The studies that were run, smallest first."""
    runs = found.get("studies", {}).get("measured", [])
    restored = [Measured(**{**run, "kinds": {name: Kind(**kind) for name, kind in run["kinds"].items()}}) for run in runs]
    return sorted(restored, key=lambda run: (run.mix, run.cells))


def sweeps(found: dict[str, Any]) -> dict[str, Sweep]:
    """All sweeps by name, those of whole studies included."""
    plain = [Sweep(**sweep) for part, held in found.items() if part != "studies" for sweep in held["measured"]]
    return {sweep.name: sweep for sweep in [*plain, *study_sweeps(studies(found))]}
