"""Measures everything side by side: writes benchmarks/results.json, docs/performance.md and its figure, then how cost grows
(benchmarks/growth.json, docs/scaling.md and its figures).

`make bench` calls it; `make bench ARGS="--quick"` takes a short look (smoke study, short runs, one repetition; nothing is written), and
`--only training` runs one part, keeping the other rows of the last run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import page
from benchmarks.clocks import clock_rows
from benchmarks.cluster import cluster_rows
from benchmarks.compression import compression_rows
from benchmarks.fitting import fitting_rows
from benchmarks.gpu import gpu_rows
from benchmarks.growth.run import growth
from benchmarks.jobs import ROOT, job_rows
from benchmarks.lagging import lagging_rows
from benchmarks.machine import machine
from benchmarks.rows import Row, load, save
from benchmarks.storage import storage_rows
from benchmarks.structures import structure_rows
from benchmarks.training import training_rows


def main() -> None:
    """Runs the parts one after another: nothing else should be running on the machine."""
    options = _options()
    scale, repeats = (0.3, 1) if options.quick else (1.0, options.repeats)
    study = ROOT / "config" / ("smoke.yaml" if options.quick else "config.yaml")
    with tempfile.TemporaryDirectory(prefix="nqf-bench-") as folder:
        scratch = Path(folder)
        parts: dict[str, Callable[[], list[Row]]] = {
            "training": lambda: training_rows(options.torch_python, scratch, repeats, scale),
            "fitting": lambda: fitting_rows(repeats),
            "clocks": lambda: clock_rows(repeats),
            "storage": lambda: storage_rows(scratch, repeats),
            "compression": lambda: compression_rows(repeats, scale),
            "lagging": lambda: lagging_rows(repeats, scale),
            "structures": lambda: structure_rows(repeats),
            "jobs": lambda: job_rows(study, scratch / "jobs"),
            "gpu": lambda: gpu_rows(repeats, scale),
            "cluster": lambda: cluster_rows() if not options.quick else [],
        }
        rows: list[Row] = []
        for name in options.only or parts:
            if name in parts:
                print(f"Measuring: {name}", flush=True)
                rows += parts[name]()
        _keep(rows, write=not options.quick)
        if not options.only or "growth" in options.only:
            growth(scratch / "growth", quick=options.quick)


def _keep(rows: list[Row], *, write: bool) -> None:
    for row in rows:
        print(f"{row.name:26} {row.value:12.4g} {row.unit:12} {row.ratio:8.3g} times {row.peer} ({row.peer_value:.4g})")
    if rows and write:
        measured = {row.name for row in rows}
        save([*rows, *(row for row in load() if row.name not in measured)])
        page.MACHINE.write_text(json.dumps({"summary": machine()}, indent=1) + "\n")
        page.write()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch-python", required=True, help="interpreter of the environment that has PyTorch")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions of each measurement; the best counts")
    parts = ["training", "fitting", "clocks", "storage", "compression", "lagging", "structures", "jobs", "gpu", "cluster", "growth"]
    parser.add_argument("--only", nargs="+", choices=parts, help="run these parts only")
    parser.add_argument("--quick", action="store_true", help="a short look; writes nothing")
    return parser.parse_args()


if __name__ == "__main__":
    main()
