"""Where everything of a study lies below results/<study>/: the one place that knows file names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TABLES = (
    *("exponents", "window_scan", "plateaus", "drops", "cells", "timings", "spectra", "spectral_laws"),
    *("extrapolation", "tradeoffs", "collapse", "claims"),
)


@dataclass(frozen=True)
class Layout:
    """Paths of one study's results folder."""

    root: Path

    @classmethod
    def of(cls, study: str, results: Path | str = "results") -> Layout:
        return cls(Path(results) / study)

    @property
    def manifest(self) -> Path:
        """Append-only: every shard ever formed, with the full specification of its cells."""
        return self.root / "manifest.jsonl"

    @property
    def study(self) -> Path:
        """The validated configuration of the latest run."""
        return self.root / "study.json"

    def shard(self, shard: str) -> Path:
        """Trajectories of one shard."""
        return self.root / "shards" / f"{shard}.zarr.zip"

    def shard_summary(self, shard: str) -> Path:
        """Checksum, status and timings of one shard; its presence says that the shard is complete."""
        return self.root / "shards" / f"{shard}.json"

    @property
    def pilot(self) -> Path:
        """Rates of the buckets that a pilot timed."""
        return self.root / "pilot.json"

    @property
    def compiled(self) -> Path:
        """Compiled programs, by kind of processor: jobs of one bucket compile once. May be deleted at any time."""
        return self.root / "compiled"

    def running(self, job: str) -> Path:
        """Locked while a process does the job: a shard's id, a stage's name, or `workflow`."""
        return self.root / "running" / job

    def attempts(self, shard: str) -> Path:
        """A line for each start of the shard's job that did not end by itself; absent after a good end."""
        return self.root / "attempts" / shard

    def stopped(self, shard: str) -> Path:
        """Trained cells of a job that was stopped, for its next attempt."""
        return self.root / "stopped" / f"{shard}.zarr.zip"

    def train_benchmark(self, shard: str) -> Path:
        """Time and memory of a shard's job, written by the workflow when it has ended well."""
        return self.root / "benchmarks" / "train" / f"{shard}.tsv"

    def theory(self, shard: str) -> Path:
        """Predictions for the cells of one shard, made without training."""
        return self.root / "theory" / f"{shard}.zarr.zip"

    def theory_summary(self, shard: str) -> Path:
        """Checksum of one shard's predictions; its presence says that they are complete."""
        return self.root / "theory" / f"{shard}.json"

    @property
    def trajectories(self) -> Path:
        """The merged data set."""
        return self.root / "trajectories.zarr"

    @property
    def merged(self) -> Path:
        """Files of the merged data set with their checksums, written last; outside the store, which holds data only."""
        return self.root / "trajectories.json"

    @property
    def tables(self) -> list[Path]:
        """Every table, as CSV and as Parquet."""
        return [self.table(name, suffix) for name in TABLES for suffix in ("csv", "parquet")]

    def table(self, name: str, suffix: str = "parquet") -> Path:
        return self.root / f"{name}.{suffix}"

    @property
    def figures(self) -> Path:
        return self.root / "figures"

    @property
    def figure_list(self) -> Path:
        return self.figures / "figures.json"

    @property
    def report(self) -> Path:
        return self.root / "report.html"
