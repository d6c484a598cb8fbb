"""Stage: time a second of every bucket that is to be trained, so that jobs are cut to the length that they take on this machine.

Seconds are of processor time, so that what else runs on the machine does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np

from nqf_pipeline.stages.compiled import keep_programs
from nqf_pipeline.stages.cores import enable_double_precision, prepare_worker
from nqf_pipeline.stages.locks import only_one
from nqf_pipeline.store.atomic import write_json
from nqf_pipeline.study.cells import Cell, step_grid
from nqf_pipeline.study.cost import Cost
from nqf_pipeline.study.devices import device_of, lane_widths
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.pilot import Table, Timing, read_pilot
from nqf_pipeline.study.plan import Plan, plan_study
from nqf_pipeline.study.rates import rates
from nqf_pipeline.study.reading import read_study
from nqf_pipeline.study.shards import lane_groups

SECONDS, GROWTH, MOST_STEPS, REPEATS = 0.15, 3, 10_000_000, 3
"""The steps of a run grow by this factor until it takes that long, or has that many; the best of so many such runs counts, for processes
beside this one take caches and memory from it, which processor time does not tell."""


def prepare_pilot(config: Path | str, results: Path | str) -> None:
    """Set up this process as that of a training job. Must run before the study is planned: where a teacher network labels the data, JAX
    starts then, and takes no flags from there on (attention would take six times as long as in its jobs)."""
    keep_programs(Layout.of(read_study(config).name, results).root)
    prepare_worker()


def time_buckets(wish: Plan, progress: Callable[[int], None] = lambda done: None) -> Plan:
    """Times the buckets of the new shards that have not been timed, writes the table, and plans again by it.

    Buckets that are only predicted, and those of a GPU where planning runs on another machine, keep their estimates. `prepare_pilot` comes
    first.
    """
    with only_one(wish.layout, "pilot"):
        enable_double_precision()
        table = read_pilot(wish.layout.pilot)
        for group, width in untimed(wish):
            table[group[0].bucket] = time_bucket(group, width, wish.costs[group[0].bucket])
            _write(wish.layout.pilot, table)
            progress(1)
    return plan_study(wish.study, wish.layout.root.parent)


def untimed(wish: Plan) -> list[tuple[tuple[Cell, ...], int]]:
    """(lane group, lane width) of every bucket that the pilot would time."""
    engine, known = wish.study.engine, wish.timings
    new = [cell for shard in wish.new_shards for cell in shard.cells if cell.trained and device_of(cell, engine) == "cpu"]
    widths = lane_widths(new, engine)
    by_bucket: dict[str, list[Cell]] = {}
    for cell in new:
        by_bucket.setdefault(cell.bucket, []).append(cell)
    return [(lane_groups(cells, widths[name])[0], widths[name]) for name, cells in sorted(by_bucket.items()) if name not in known]


def time_bucket(cells: tuple[Cell, ...], width: int, estimate: Cost) -> Timing:
    """Rates from runs of one lane group with ever more steps, which are traced: one program serves all. Records are the same in all.

    Networks whose gradients are carried on compute them all here. How many they skip changes along the run, and most in its first steps: a
    short run would promise too much, and this is an upper bound.
    """
    from nqf_pipeline.dynamics.train import train
    from nqf_pipeline.stages.train import assemble, program_of

    begun = process_time()
    program = program_of(cells[0])
    group, _ = assemble(cells, width)
    group = replace(group, hyper=group.hyper._replace(gradient_error=np.zeros(width)))
    executable = program.compile(group)
    once = process_time() - begun
    begun = process_time()
    assemble(cells, width)  # what the first one compiled and read is there by now
    each = process_time() - begun

    def run(steps: int) -> float:
        timed, begun = replace(group, step_number=step_grid(steps, cells[0].records)), process_time()
        train(program, executable, timed)
        return process_time() - begun

    fewest = cells[0].records - 1
    run(fewest)
    short, steps, long = min(run(fewest) for _ in range(REPEATS)), fewest, 0.0
    while long < SECONDS and steps < MOST_STEPS:  # once at least: two lengths tell steps from records
        steps = min(GROWTH * steps, MOST_STEPS)
        long = run(steps)
    if long < REPEATS * SECONDS * GROWTH:
        long = min(long, *(run(steps) for _ in range(REPEATS - 1)))
    step = max(long - short, 0.0) / (steps - fewest)
    return Timing(
        step=step / width,
        record=max(short - fewest * step, 0.0) / cells[0].records / width,
        start=rates().imports + once,
        cell=each / len(cells),
        estimated_step=estimate.lane_step(width),
        lane_width=width,
    )


def _write(path: Path, table: Table) -> None:
    write_json(path, {bucket: timing.model_dump() for bucket, timing in table.items()})


def comparison(wish: Plan) -> list[dict[str, object]]:
    """For every timed bucket in use: microseconds of a lane-step as estimated and as measured, and their ratio."""
    buckets: Iterable[str] = sorted({shard.bucket for shard in wish.shards} & set(wish.timings))
    rows = []
    for bucket in buckets:
        timing = wish.timings[bucket]
        rows.append(
            {
                "bucket": bucket,
                "estimated_us": round(1e6 * timing.estimated_step, 3),
                "measured_us": round(1e6 * timing.step, 3),
                "ratio": round(timing.step / timing.estimated_step, 2) if timing.estimated_step else None,
                "start": round(timing.start, 2),
                "cell_ms": round(1e3 * timing.cell, 2),
            }
        )
    return rows
