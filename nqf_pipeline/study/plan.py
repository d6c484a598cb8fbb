"""The plan of a study: a pure function of config and manifest, without JAX.

Cells that the manifest knows stay in their shards; new cells only ever form new shards; a shard none of whose cells is wanted any more
is not run. So extending a study never moves, renames or reruns what is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.config import Study
from nqf_pipeline.study.cost import (
    BUCKET_BYTES,
    FILES_PER_BUCKET,
    FILES_PER_SHARD,
    FILES_PER_STUDY,
    LONGEST_THEORY_JOB,
    MOST_SHARDS,
    MOST_THEORY_JOBS,
    SHARD_BYTES,
    SHORTEST_JOB,
    START,
    STUDY_BYTES,
    Cost,
    cell_bytes,
    seconds_per_job,
    wall_seconds,
)
from nqf_pipeline.study.devices import device_of, lane_widths
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.manifest import Manifest, append, read_manifest
from nqf_pipeline.study.pilot import Table, read_pilot
from nqf_pipeline.study.reading import read_study
from nqf_pipeline.study.shards import Shard, form_shards

if TYPE_CHECKING:  # jobs that read plans without making one need no theory
    from nqf_pipeline.study.grid import Grid


@dataclass(frozen=True)
class Plan:
    """What a study wants, and how it is cut into jobs."""

    study: Study
    layout: Layout
    manifest: Manifest
    grid: Grid
    new_shards: tuple[Shard, ...]
    """Not in the manifest yet; `freeze` adds them."""

    @property
    def warnings(self) -> list[str]:
        return [*self.study.engine.renamed, *self.study.engine.dask.ignored, *self._over_the_limit(), *self.grid.warnings]

    def _over_the_limit(self) -> list[str]:
        """Jobs that the plan itself expects to be ended before they are through."""
        limit = self.study.engine.limit_hours
        hours = [self.seconds(shard) / 3600 for shard in self.training if self.seconds(shard) > 3600 * limit and not self.done(shard)]
        if not hours:
            return []
        message = (
            f"jobs expected to take longer than engine.limit_hours = {limit:g}: {len(hours)} (up to {max(hours):.3g} h). Cells that are "
            "not trained by then get status `timed_out`. Raise the limit; jobs that are not planned yet also get shorter by "
            "`minutes_per_job`, down to a single group of lanes"
        )
        return [message]

    @property
    def cells(self) -> list[Cell]:
        """The wanted cells, in the order of the config file."""
        return list(self.grid.cells.values())

    timings: Table = field(default_factory=dict)
    """The pilot's, by bucket."""

    @cached_property
    def costs(self) -> dict[str, Cost]:
        """By bucket."""
        return costs_of(self.grid, self.timings)

    @cached_property
    def shards(self) -> tuple[Shard, ...]:
        """All shards with at least one wanted cell, longest first."""
        wanted = self.grid.cells
        known = tuple(shard for shard in self.manifest.shards if any(cell.id in wanted for cell in shard.cells))
        return tuple(sorted((*known, *self.new_shards), key=lambda shard: -self.seconds(shard)))

    @cached_property
    def shard_by_id(self) -> dict[str, Shard]:
        return {shard.id: shard for shard in self.shards}

    def wanted(self, shard: Shard) -> list[Cell]:
        """The cells of a shard that the study asks for, under its own experiment names."""
        return [self.grid.cells[cell.id] for cell in shard.cells if cell.id in self.grid.cells]

    @property
    def training(self) -> tuple[Shard, ...]:
        """The shards that have a training job."""
        return tuple(shard for shard in self.shards if shard.trained)

    @cached_property
    def predicting(self) -> tuple[tuple[Shard, ...], ...]:
        """The shards of each job of predictions: about `minutes_per_job` each, and not too many jobs, whose start would dominate.

        In the order in which they were formed, so that what an extension adds lies together.
        """
        wanted = {shard.id for shard in self.shards}
        shards = [shard for shard in (*self.manifest.shards, *self.new_shards) if shard.id in wanted]
        durations = [self.costs[shard.bucket].of_predictions(shard) for shard in shards]
        target = min(max(self.study.engine.job_seconds or SHORTEST_JOB, sum(durations) / MOST_THEORY_JOBS), LONGEST_THEORY_JOB)
        durations = [max(duration, target / MOST_SHARDS) for duration in durations]
        jobs: dict[int, list[Shard]] = {}
        for shard, end, duration in zip(shards, accumulate(durations), durations, strict=True):
            jobs.setdefault(int((end - duration / 2) / target), []).append(shard)
        return tuple(tuple(job) for job in jobs.values())

    @property
    def lost(self) -> list[Path]:
        """What the merged data set was made of and is not there any more, or not yet; where there is none, merging asks for all of it."""
        if not self.layout.merged.exists():
            return []
        files = [path for shard in self.training for path in self.results_of(shard)]
        return [path for path in (*files, *(self.layout.theory_summary(shard.id) for shard in self.shards)) if not path.exists()]

    def results_of(self, shard: Shard) -> tuple[Path, Path]:
        """(arrays, summary) that make the cells of a shard done: trained trajectories, or predictions where nothing is trained."""
        if shard.trained:
            return self.layout.shard(shard.id), self.layout.shard_summary(shard.id)
        return self.layout.theory(shard.id), self.layout.theory_summary(shard.id)

    def done(self, shard: Shard) -> bool:
        """Whether the shard is there with its summary, which is written last."""
        return all(path.exists() for path in self.results_of(shard))

    def seconds(self, shard: Shard) -> float:
        """Estimated duration of a shard's job."""
        return self.costs[shard.bucket].of_shard(shard)

    def gpus(self, shard: str) -> int:
        """Accelerators that a shard's job asks for."""
        return int(device_of(self.shard_by_id[shard].cells[0], self.study.engine) == "gpu")

    def megabytes(self, shard: str, cores: int) -> int:
        """Memory of a shard's job: every core is a process, and an accelerator's libraries take more than the work."""
        return 2000 * cores + 4000 * self.gpus(shard)

    def minutes(self, shard: str) -> int:
        """Time limit of a shard's training job on a scheduler."""
        return _limit(self.seconds(self.shard_by_id[shard]))

    def minutes_of_predictions(self, shards: Sequence[Shard]) -> int:
        """Time limit of a job of predictions on a scheduler."""
        return _limit(self._seconds_of_predictions(shards))

    def _seconds_of_predictions(self, shards: Sequence[Shard]) -> float:
        return START + sum(self.costs[shard.bucket].of_predictions(shard) for shard in shards)

    def _bytes(self, buckets: int) -> float:
        """On disk, when all is done."""
        cells = sum(cell_bytes(cell, self.grid.sizes[cell.bucket]) for cell in self.cells)
        return cells + SHARD_BYTES * len(self.shards) + BUCKET_BYTES * buckets + STUDY_BYTES

    def _durations(self) -> list[float]:
        """Seconds of each job that is left to do: training, and predictions."""
        training = [self.seconds(shard) for shard in self.training if not self.done(shard)]
        missing = [[s for s in job if not self.layout.theory_summary(s.id).exists()] for job in self.predicting]
        return training + [self._seconds_of_predictions(job) for job in missing if job]

    def summary(self) -> dict[str, Any]:
        """What `nqf plan --json` prints. `seconds` is the estimated wall time of the `jobs` of training and predictions left to
        run, on `engine.workers` cores, without merge, analysis, figures and page; `files` an upper bound."""
        to_run, durations = [shard for shard in self.shards if not self.done(shard)], self._durations()
        buckets = {shard.bucket for shard in self.shards}
        return {
            "study": self.study.name,
            "cells": len(self.grid.cells),
            "train": dict(Counter(cell.train for cell in self.cells)),
            "buckets": len(buckets),
            "shards": len(self.shards),
            "seconds": round(wall_seconds(durations, self.study.engine.workers), 1),
            "jobs": len(durations),
            "bytes": round(self._bytes(len(buckets))),
            "files": FILES_PER_STUDY + FILES_PER_SHARD * len(self.shards) + FILES_PER_BUCKET * len(buckets),
            "to_run": len(to_run),
            "already_done": len(self.shards) - len(to_run),
            "new": len(self.new_shards),
            "steps": sum(cell.steps for cell in self.cells),
            "warnings": self.warnings,
        }


def _limit(seconds: float) -> int:
    """Minutes that a job may take: ten to start, and four times the estimate for slower or busy machines."""
    return 10 + ceil(4 * seconds / 60)


def plan(study: Study, manifest: Manifest, results: Path | str = "results", timings: Table | None = None) -> Plan:
    """The plan of a study over what its manifest holds, by the pilot's timings where there are any. Writes nothing."""
    from nqf_pipeline.study.grid import build_grid

    return _plan(study, Layout.of(study.name, results), build_grid(study), manifest, timings or {})


def _plan(study: Study, layout: Layout, grid: Grid, manifest: Manifest, timings: Table) -> Plan:
    new = [cell for cell in grid.cells.values() if cell.id not in manifest.shard_of]
    costs = costs_of(grid, timings)

    def seconds(lanes: int, cell: Cell) -> float:
        return costs[cell.bucket].of_cell(cell, lanes)

    widths, shards = lane_widths(new, study.engine), []
    work = sum(seconds(widths[cell.bucket], cell) for cell in new)
    target = study.engine.job_seconds or seconds_per_job(work, study.engine.workers)
    for width in sorted({*widths.values()}):
        alike = [cell for cell in new if widths[cell.bucket] == width]
        shards += form_shards(alike, width, partial(seconds, width), target)
    return Plan(study, layout, manifest, grid, tuple(shards), timings)


def costs_of(grid: Grid, timings: Table) -> dict[str, Cost]:
    """What the cells of each bucket cost (they are alike): as timed, else as estimated."""
    first = {cell.bucket: cell for cell in reversed(grid.cells.values())}
    costs = {bucket: Cost.estimated(cell, grid.sizes[bucket]) for bucket, cell in first.items()}
    return costs | {bucket: timing.correct(costs[bucket]) for bucket, timing in timings.items() if bucket in costs}


def plan_file(config: Path | str, results: Path | str = "results") -> Plan:
    """The plan of a config file over its results folder. Writes nothing."""
    return plan_study(read_study(config), results)


def plan_study(study: Study, results: Path | str = "results") -> Plan:
    """The plan of a study over its results folder. Writes nothing."""
    layout = Layout.of(study.name, results)
    return plan(study, read_manifest(layout.manifest, study.name), results, read_pilot(layout.pilot))


def freeze(wish: Plan) -> Plan:
    """Append the new shards to the manifest; when another process was faster, plan again over what it wrote."""
    layout, study, grid, timings = wish.layout, wish.study, wish.grid, wish.timings
    while wish.new_shards and not append(layout.manifest, study.name, wish.manifest, wish.new_shards):
        wish = _plan(study, layout, grid, read_manifest(layout.manifest, study.name), timings)
    return Plan(study, layout, Manifest((*wish.manifest.shards, *wish.new_shards)), grid, (), timings)
