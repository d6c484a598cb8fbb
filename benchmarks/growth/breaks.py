"""What breaks first: each resource with the limit it meets, and the number of cells at which it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.growth.forecast import DAY, HOUR, SITES, Forecast
from nqf_pipeline.study.cost import LONGEST_JOB

MACHINE = SITES[0]
MOST = 1e12
"""Cells up to which a crossing is looked for."""


@dataclass(frozen=True)
class Limit:
    """A resource as a share of its limit, in cells."""

    what: str
    limit: float
    stated: str
    way_out: str
    cost: Callable[[Forecast, float], float]


LIMITS = (
    Limit(
        "merge outgrows its memory",
        12_000,
        "12 GB: what the rule asks for at its third attempt",
        "merge in parts",
        lambda f, n: f.own("merge_megabytes", n).value,
    ),
    Limit(
        "analysis outgrows its memory",
        12_000,
        "12 GB: what the rule asks for at its third attempt",
        "more memory in the profile",
        lambda f, n: f.own("analyse_megabytes", n).value,
    ),
    Limit(
        "figures outgrow their memory",
        4_000,
        "4 GB: what the rule asks for",
        "fewer figures by name, more memory",
        lambda f, n: f.own("figures_megabytes", n).value,
    ),
    Limit(
        "the report outgrows its memory",
        2_000,
        "2 GB: what the rule asks for",
        "more memory in the profile",
        lambda f, n: f.own("report_megabytes", n).value,
    ),
    Limit("planning outgrows memory", 4_000, "4 GB on a login node", "several studies", lambda f, n: f.grown("plan_memory", n).value),
    Limit("a week on two cores", 7 * DAY, "7 days of wall time on a 2-core machine", "a cluster", lambda f, n: f.wall(n, MACHINE).value),
    Limit(
        "the serial stages take a day",
        DAY,
        "24 hours for merge, analysis, figures and report",
        "analysis on a cluster by one entry",
        lambda f, n: f.serial(n).value,
    ),
    Limit(
        "jobs plan longer than they train",
        LONGEST_JOB,
        "1 hour for one plan, the length of the longest jobs, each of which plans again under SLURM",
        "several studies",
        lambda f, n: f.grown("plan", n).value,
    ),
    Limit("planning takes ten minutes", 600, "10 minutes until the first job", "several studies", lambda f, n: f.grown("plan", n).value),
    Limit("too many files", 1e6, "1,000,000 files, a usual quota", "longer jobs", lambda f, n: f.own("files", n).value),
    Limit("disk", 1e12, "1 TB, a usual quota", "fewer records", lambda f, n: f.own("bytes", n).value),
    Limit(
        "too many jobs queued",
        1e4,
        "10,000 jobs of an hour, SLURM's default MaxJobCount",
        "longer jobs",
        lambda f, n: f.jobs(n).value,
    ),
    Limit(
        "Snakemake's graph takes an hour",
        HOUR,
        "1 hour to build the graph and start all jobs",
        "longer jobs",
        lambda f, n: f.dispatch(n).value,
    ),
)


@dataclass(frozen=True)
class Break:
    """A limit with the cells at which it is met; infinite beyond `MOST`."""

    limit: Limit
    cells: float


def breaks(forecast: Forecast) -> list[Break]:
    """All limits, the one met first first."""
    return sorted((Break(limit, crossing(limit, forecast)) for limit in LIMITS), key=lambda found: found.cells)


def crossing(limit: Limit, forecast: Forecast) -> float:
    """Cells at which a cost reaches its limit, by halving decades; costs never fall with cells."""
    low, high = 1.0, MOST
    if limit.cost(forecast, high) < limit.limit:
        return float("inf")
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if limit.cost(forecast, middle) < limit.limit else (low, middle)
    return high
