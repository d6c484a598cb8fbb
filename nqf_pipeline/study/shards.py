"""Lane groups and shards: which cells advance together, and which are one job."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from heapq import heapreplace
from itertools import groupby
from math import ceil

from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.identity import digest

Lanes = tuple[Cell, ...]
Seconds = Callable[[Cell], float]


def lane_groups(cells: Iterable[Cell], lane_width: int) -> list[Lanes]:
    """Cells of one bucket, packed into groups of at most `lane_width`; longest first."""
    ordered = sorted(cells, key=lambda cell: (-cell.steps, cell.lane_key, cell.id))
    groups = []
    for _, together in groupby(ordered, key=lambda cell: cell.lane_key):
        lanes = tuple(together)
        groups += [lanes[start : start + lane_width] for start in range(0, len(lanes), lane_width)]
    return groups


@dataclass(frozen=True)
class Shard:
    """The part of a bucket that one job runs."""

    cells: Lanes
    lane_width: int

    @cached_property
    def id(self) -> str:
        """Hash of the cells' ids."""
        return digest([cell.id for cell in self.cells])

    @property
    def bucket(self) -> str:
        return self.cells[0].bucket

    @property
    def trained(self) -> bool:
        """Whether a job trains its cells; the others are only predicted."""
        return self.cells[0].trained

    @property
    def lanes(self) -> list[Lanes]:
        """The groups that run in one call each, padded to `lane_width` by the engine."""
        return lane_groups(self.cells, self.lane_width)


def form_shards(cells: Iterable[Cell], lane_width: int, seconds: Seconds, target: float) -> list[Shard]:
    """Cells of any buckets as shards of about `target` seconds, cut between lane groups into parts of nearly equal duration.

    The result depends on the set of cells only, not on their order.
    """
    shards = []
    for _, together in groupby(sorted(cells, key=lambda cell: cell.bucket), key=lambda cell: cell.bucket):
        groups = lane_groups(together, lane_width)
        shards += [Shard(tuple(cell for lanes in part for cell in lanes), lane_width) for part in _cut(groups, lane_width, seconds, target)]
    return shards


def _cut(groups: list[Lanes], lane_width: int, seconds: Seconds, target: float) -> list[list[Lanes]]:
    """Longest group first into the emptiest part, so that parts end together."""
    durations = [lane_width * seconds(lanes[0]) for lanes in groups]
    count = min(max(ceil(sum(durations) / target), 1), len(groups))
    parts: list[list[Lanes]] = [[] for _ in range(count)]
    filled = [(0.0, part) for part in range(count)]
    for lanes, duration in sorted(zip(groups, durations, strict=True), key=lambda pair: -pair[1]):
        seconds_in_it, emptiest = filled[0]
        parts[emptiest].append(lanes)
        heapreplace(filled, (seconds_in_it + duration, emptiest))
    return parts
