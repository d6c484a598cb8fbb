"""What far larger studies cost, from the lines fitted to whole studies that were run.

Core seconds grow along each stage's own line, jobs follow from the length that the plan cuts them to, and planning, graph and dispatch
follow from cells and jobs. A range is what both ends of the exponents' intervals say, from the largest study measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from benchmarks.growth.studies import STAGES, Measured
from benchmarks.growth.sweeps import Growth, Sweep
from nqf_pipeline.study.cost import JOBS, LONGEST_JOB, SHORTEST_JOB

HOUR, DAY, MB, GB = 3600.0, 86400.0, 1e6, 1e3
STEEPEST = 3.0
"""An interval's end beyond this says nothing: no growth below, the fitted exponent above."""
SERIAL = tuple(stage for stage in STAGES if stage not in ("train", "theory"))
"""Stages that are one job."""


@dataclass(frozen=True)
class Site:
    """Where a study runs."""

    name: str
    cores: int
    replans: bool
    """Whether every job plans the study again: on SLURM each starts a workflow of its own, restricted to its job."""


SITES = (Site("a 2-core machine", 2, False), Site("a 64-core node under SLURM", 64, True))


@dataclass(frozen=True)
class Range:
    """A forecast with what the exponents' intervals leave open."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> Range:
        return Range(self.value * factor, self.low * factor, self.high * factor)

    def plus(self, other: Range) -> Range:
        return Range(self.value + other.value, self.low + other.low, self.high + other.high)


@dataclass(frozen=True)
class Forecast:
    """One mix of cells, from its measured studies and the sweeps of planning and scheduling."""

    mix: str
    runs: list[Measured]
    sweeps: dict[str, Sweep]

    @property
    def measured_to(self) -> int:
        """Cells of the largest study that was run."""
        return max(run.cells for run in self.runs)

    def grown(self, name: str, cells: float) -> Range:
        """A quantity at so many cells (or jobs); where it is flat, its largest value."""
        line = self._lines.get(name)
        if line is None:
            return Range(*(float(self.sweeps[name].y.max()),) * 3)
        low, high = (end if abs(end) < STEEPEST else assumed for end, assumed in ((line.low, 0.0), (line.high, line.exponent)))
        return Range(line.at(cells), line.at(cells, max(low, 0.0)), line.at(cells, high))

    @cached_property
    def _lines(self) -> dict[str, Growth | None]:
        return {name: sweep.growth() or sweep.straight() for name, sweep in self.sweeps.items()}

    @cached_property
    def job_start(self) -> float:
        """Seconds a training job takes beside its kernels, in the mean over all that ran."""
        return sum(run.seconds.get("train", 0.0) - run.kernels for run in self.runs) / max(sum(run.train_jobs for run in self.runs), 1)

    def own(self, name: str, cells: float) -> Range:
        """A quantity of this mix."""
        return self.grown(f"{self.mix}_{name}", cells)

    def jobs(self, cells: float) -> Range:
        """Training jobs as `minutes_per_job: auto` cuts them, and never fewer than the smallest study had: one for each bucket."""
        fewest = min(run.train_jobs for run in self.runs)
        kernels = self.own("kernels", cells)
        return Range(*(max(self._cut(seconds), fewest) for seconds in (kernels.value, kernels.low, kernels.high)))

    def _cut(self, kernels: float) -> float:
        target = min(max(kernels / JOBS, SHORTEST_JOB), LONGEST_JOB)
        return kernels / max(target - self.job_start, SHORTEST_JOB / 2)

    def training(self, cells: float) -> Range:
        """Core seconds of training, start of the jobs included."""
        return self.own("kernels", cells).plus(self.jobs(cells).times(self.job_start))

    def planning(self, cells: float, site: Site) -> Range:
        """Core seconds of planning: once, and where jobs plan again once in each of them."""
        once = self.grown("plan", cells)
        if not site.replans:
            return once
        jobs = self.jobs(cells)
        return Range(once.value * (1 + jobs.value), once.low * (1 + jobs.low), once.high * (1 + jobs.high))

    def dispatch(self, cells: float) -> Range:
        """Seconds in which Snakemake builds its graph and starts all jobs."""
        jobs = self.jobs(cells)
        ends = [(self.grown("snakemake_run", n), self.grown("workflow_dry", n)) for n in (jobs.value, jobs.low, jobs.high)]
        return Range(ends[0][0].value + ends[0][1].value, ends[1][0].low + ends[1][1].low, ends[2][0].high + ends[2][1].high)

    def serial(self, cells: float) -> Range:
        """Seconds of the stages that are one job each."""
        total = Range(0.0, 0.0, 0.0)
        for stage in SERIAL:
            total = total.plus(self.own(f"{stage}_seconds", cells))
        return total

    def wall(self, cells: float, site: Site) -> Range:
        """Seconds to the report: parallel work on all cores, then the serial stages, with dispatch and planning."""
        parallel = self.training(cells).plus(self.own("theory_seconds", cells)).plus(self.planning(cells, site))
        return parallel.times(1 / site.cores).plus(self.serial(cells)).plus(self.dispatch(cells))

    def memory(self, cells: float) -> Range:
        """MB of the hungriest stage that sees all cells."""
        return max((self.own(f"{stage}_megabytes", cells) for stage in SERIAL), key=lambda found: found.value)


Quantity = tuple[str, Callable[[Forecast, float, Site], Range], float, str]
"""(what, how, divisor, unit)."""

QUANTITIES: tuple[Quantity, ...] = (
    ("training, start of jobs included", lambda f, n, s: f.training(n), HOUR, "core hours"),
    ("theory", lambda f, n, _: f.own("theory_seconds", n), HOUR, "core hours"),
    ("planning, in all jobs that plan", lambda f, n, s: f.planning(n, s), HOUR, "core hours"),
    ("merge, analysis, figures, report (one job each)", lambda f, n, _: f.serial(n), HOUR, "hours"),
    ("graph and start of jobs by Snakemake", lambda f, n, s: f.dispatch(n), HOUR, "hours"),
    ("wall time = node hours", lambda f, n, s: f.wall(n, s), HOUR, "hours"),
    ("training jobs", lambda f, n, s: f.jobs(n), 1, "jobs"),
    ("submissions", lambda f, n, s: f.jobs(n).times(1 / f.wall(n, s).value), 1, "jobs/s"),
    ("manifest", lambda f, n, _: f.own("manifest", n), 1e9, "GB"),
    ("files", lambda f, n, _: f.own("files", n), 1, "files"),
    ("bytes on disk", lambda f, n, _: f.own("bytes", n), 1e9, "GB"),
    ("memory to plan", lambda f, n, _: f.grown("plan_memory", n), GB, "GB"),
    ("memory to merge", lambda f, n, _: f.own("merge_megabytes", n), GB, "GB"),
    ("memory to analyse", lambda f, n, _: f.own("analyse_megabytes", n), GB, "GB"),
    ("memory of Snakemake", lambda f, n, s: f.grown("workflow_memory", f.jobs(n).value), GB, "GB"),
)
