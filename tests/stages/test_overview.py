"""What `nqf plan` prints: the facts a newcomer looks for, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from nqf_pipeline.stages.overview import duration, notes, overview, running, size
from nqf_pipeline.stages.reasons import DAMAGED, NEW, OTHER_VERSION, Reason
from nqf_pipeline.study.manifest import Manifest
from nqf_pipeline.study.pilot import Timing
from nqf_pipeline.study.plan import Plan, plan
from nqf_pipeline.study.reading import study_from

EXPERIMENT = {
    "architectures": [{"kind": "mlp", "inputs": 6, "outputs": 3, "width": 4}],
    "tasks": [{"kind": "teacher", "strengths": [1, 0.5], "samples": 40, "test_samples": 40}],
    "optimizers": [{"kind": "gd", "learning_rate": 0.01}, {"kind": "adam", "learning_rate": 0.001}],
    "sigma": [0.1],
    "seeds": 600,
    "steps": 1000,
}
STUDY = study_from({"name": "trial", "experiments": {"tracks": EXPERIMENT}})


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (89, "89 s"), (90, "1.5 min"), (576, "9.6 min"), (1800, "30 min"), (5400, "1.5 h"), (1e5, "28 h"), (1e6, "12 days")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(("count", "words"), [(900, "1 kB"), (8.1e7, "81 MB"), (3.5e9, "3.5 GB"), (2.04e12, "2.0 TB")])
def test_sizes(count: float, words: str) -> None:
    assert size(count) == words


def test_an_overview_tells_cells_time_disk_and_shards(tmp_path: Path) -> None:
    wish = plan(STUDY, Manifest(), tmp_path)
    found, summary = overview(wish), wish.summary()
    assert found["cells"] == "1,200"
    assert found["of them"] == "1,200 networks with twins"
    assert found["time"] == f"about {duration(summary['seconds'])} on 2 cores for {summary['jobs']} jobs (estimated, not timed)"
    assert found["not in this time"] == "merge, analysis, figures and page"
    assert found["disk"].startswith(f"about {size(summary['bytes'])} in at most {summary['files']:,} files in {tmp_path / 'trial'}")
    assert found["shards"] == f"{summary['shards']} in 2 buckets: 0 done, {summary['shards']} to run ({summary['shards']} new)"


def test_an_overview_says_what_the_pilot_timed(tmp_path: Path) -> None:
    wish = plan(STUDY, Manifest(), tmp_path)
    timings = {bucket: Timing(step=1e-5, record=0, start=1, cell=0, estimated_step=1e-5, lane_width=4) for bucket in wish.costs}
    assert overview(plan(STUDY, Manifest(), tmp_path, timings))["time"].endswith("(timed by the pilot)")
    one = dict(list(timings.items())[:1])
    assert overview(plan(STUDY, Manifest(), tmp_path, one))["time"].endswith("(1 of 2 buckets timed by the pilot, the rest estimated)")


def test_an_overview_counts_only_buckets_that_are_left_to_do(tmp_path: Path) -> None:
    wish = plan(STUDY, Manifest(), tmp_path)
    first, second = sorted(wish.costs)
    timings = {first: Timing(step=1e-5, record=0, start=1, cell=0, estimated_step=1e-5, lane_width=4)}
    timed = plan(STUDY, Manifest(), tmp_path, timings)
    _finish(timed, first)
    assert overview(timed)["time"].endswith("(estimated, not timed)")
    _finish(timed, second)
    assert overview(timed)["time"] == "nothing left to train or predict"


def _finish(wish: Plan, bucket: str) -> None:
    for shard in wish.training:
        if shard.bucket == bucket:
            for path in (*wish.results_of(shard), wish.layout.theory_summary(shard.id)):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()


def test_only_what_runs_is_listed_as_running() -> None:
    found = [Reason("train", NEW, 2), Reason("theory", OTHER_VERSION, 23), Reason("train", DAMAGED), Reason("merge", "absent")]
    assert [row["stage"] for row in running(found)] == ["train", "merge"]
    assert running(found)[0]["how many"] == "2 shards"
    assert notes(found) == [f"theory of 23 shards: {OTHER_VERSION}", f"train of 1 shard: {DAMAGED}"]
