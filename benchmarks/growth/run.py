"""Runs the sweeps and keeps them in benchmarks/growth.json: `python -m benchmarks.growth.run [--quick] [--only PART ...]`.

`make bench` runs all of them. A part that is run anew replaces its own sweeps and leaves the others.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.growth import page
from benchmarks.growth.fits import fit_sweeps
from benchmarks.growth.record import FILE, load
from benchmarks.growth.scheduling import scheduling_sweeps
from benchmarks.growth.shapes import shape_sweeps
from benchmarks.growth.stores import store_sweeps
from benchmarks.growth.studies import study_runs
from benchmarks.growth.sweeps import Sweep
from benchmarks.machine import machine

PARTS = ("shapes", "scheduling", "store", "fits", "studies")


def measure(part: str, scratch: Path, scale: float) -> dict[str, Any]:
    """Sweeps, or studies, of one part, as growth.json holds them."""
    sweeps: dict[str, Callable[[], list[Sweep]]] = {
        "shapes": lambda: shape_sweeps(scratch, scale),
        "scheduling": lambda: scheduling_sweeps(scratch, scale),
        "store": lambda: store_sweeps(scratch, scale),
        "fits": lambda: fit_sweeps(scale),
    }
    measured = study_runs(scratch, scale) if part == "studies" else sweeps[part]()
    return {"machine": machine(), "measured": [one.document() for one in measured]}


def growth(scratch: Path, *, quick: bool, only: Sequence[str] = ()) -> None:
    """Measures, and after each part writes growth.json; at the end docs/scaling.md and its figures. A quick look prints only.

    With `quick` each sweep ends a decade or two lower.
    """
    found: dict[str, Any] = {}
    for part in only or PARTS:
        print(f"Measuring how cost grows: {part}", flush=True)
        found[part] = measure(part, scratch, 0.1 if quick else 1.0)
        if not quick:
            FILE.write_text(json.dumps({**load(), part: found[part]}, indent=1) + "\n")
    print(page.growth_table(found))
    if not quick:
        page.write()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short look; writes nothing")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[], help="these parts only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nqf-growth-") as folder:
        growth(Path(folder), quick=options.quick, only=options.only)


if __name__ == "__main__":
    main()
