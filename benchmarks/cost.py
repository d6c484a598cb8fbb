"""The constants of the static cost model, measured and written to nqf_pipeline/study/rates.json: `python -m benchmarks.cost`.

The pilot (`nqf plan --pilot`) times the buckets of benchmarks/rates.yaml on one core; the constants are those that come nearest to all of
them, in ratios. `--check CONFIG` instead times the buckets of a study in the same way and prints how far its estimates are off; what a
table of a former pilot holds (`--pilot results/large/pilot.json`) is not timed again. Seconds are of processor time, but caches are
shared: run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.machine import machine
from benchmarks.rates import Timed, fitted
from nqf_pipeline.cli import bar
from nqf_pipeline.stages.pilot import prepare_pilot, time_buckets, untimed
from nqf_pipeline.store.atomic import write_json
from nqf_pipeline.study.plan import Plan, costs_of, plan_file
from nqf_pipeline.study.rates import FILE, Rates

CASES = Path(__file__).with_name("rates.yaml")
JOB = """
import nqf_pipeline.cli
from nqf_pipeline.stages.starting import quick_start
with quick_start():
    import nqf_pipeline.stages.run
    from nqf_pipeline.stages.placing import Work, ready
    ready(Work(lane_width=1))
    import jax
    jax.numpy.zeros(1).block_until_ready()
"""
"""What `nqf train` does before its first cell."""


def timed(config: Path, known: Path | None = None) -> tuple[Plan, list[Timed]]:
    """The plan of a study over an empty results folder, and what the pilot says of each of its trained buckets."""
    with tempfile.TemporaryDirectory(prefix="nqf-cost-") as folder:
        prepare_pilot(config, folder)
        wish = plan_file(config, folder)
        if known is not None:
            wish.layout.root.mkdir()
            shutil.copy(known, wish.layout.pilot)
            wish = plan_file(config, folder)
        with bar("buckets", len(untimed(wish))) as progress:
            wish = time_buckets(wish, progress)
    first = {cell.bucket: cell for cell in reversed(wish.cells)}
    found = [Timed(first[bucket], wish.grid.sizes[bucket], timing) for bucket, timing in sorted(wish.timings.items()) if bucket in first]
    return wish, found


def imports() -> float:
    """Processor seconds of a job without cells, the best of three."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", JOB], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(3))


def measure() -> Rates:
    """All constants, from this machine."""
    before_first_cell = imports()
    _, found = timed(CASES)
    return fitted(found, before_first_cell, machine())


def compare(wish: Plan, found: list[Timed]) -> list[tuple[str, float, float, float, float]]:
    """Of each bucket: microseconds of a lane-step as estimated and as timed, and the ratio timed/estimated of a step and of all its cells
    with one start."""
    estimates = costs_of(wish.grid, {})
    work: dict[str, list[float]] = {}
    for cell in wish.cells:
        if cell.bucket in wish.timings:
            pair = work.setdefault(cell.bucket, [estimates[cell.bucket].start, wish.costs[cell.bucket].start])
            lanes = wish.timings[cell.bucket].lane_width
            pair[0] += estimates[cell.bucket].of_cell(cell, lanes)
            pair[1] += wish.costs[cell.bucket].of_cell(cell, lanes)
    rows = []
    for case in found:
        bucket, timing = case.cell.bucket, case.timing
        step = estimates[bucket].lane_step(timing.lane_width)
        rows.append((bucket, 1e6 * step, 1e6 * timing.step, timing.step / step, work[bucket][1] / work[bucket][0]))
    return rows


def show(rows: list[tuple[str, float, float, float, float]]) -> bool:
    """A table; whether every ratio of whole buckets is within two."""
    print(f"{'bucket':60} {'estimated us':>12} {'timed us':>9} {'step':>6} {'all cells':>9}")
    for bucket, estimated, measured, step, whole in rows:
        print(f"{bucket:60} {estimated:12.3f} {measured:9.3f} {step:6.2f} {whole:9.2f}")
    within = [0.5 <= whole <= 2.0 for *_, whole in rows]
    print(f"{sum(within)} of {len(rows)} buckets within a factor of two (timed over estimated, all cells and one start of a job)")
    return all(within)


def main() -> None:
    """Measures and writes the constants, or checks them on a study (exit code 1 where a bucket is off by more than two)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=Path, metavar="CONFIG", help="compare estimates with a pilot of this study; writes nothing")
    parser.add_argument(
        "--pilot", type=Path, metavar="FILE", help="with --check: a former pilot's table, whose buckets are not timed again"
    )
    options = parser.parse_args()
    if options.pilot and not options.check:
        parser.error("--pilot says which timings `--check CONFIG` need not repeat; constants are always measured anew")
    if options.check:
        sys.exit(0 if show(compare(*timed(options.check, options.pilot))) else 1)
    write_json(FILE, measure().model_dump())
    print(f"written: {FILE.relative_to(Path.cwd()) if FILE.is_relative_to(Path.cwd()) else FILE}")


if __name__ == "__main__":
    main()
