"""The constants of the cost model are found again in timings that follow it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.cost import CASES, JOB, compare, show
from benchmarks.rates import Timed, fitted
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import CNN, MLP, Diagonal
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.cost import Sizes, arithmetic
from nqf_pipeline.study.manifest import Manifest
from nqf_pipeline.study.pilot import Timing
from nqf_pipeline.study.plan import plan
from nqf_pipeline.study.rates import AT_ONCE, MOMENTS, OTHER, ROWWISE_MOMENTS, lanes_in_turns
from nqf_pipeline.study.reading import study_from
from nqf_pipeline.tasks import FeaturePowerLaw, Teacher

LANES, SIZES, FACTOR = 4, Sizes(600, 4, 2000.0), 2.5
LARGE, LARGE_ROWWISE = MOMENTS + AT_ONCE, ROWWISE_MOMENTS + AT_ONCE
DISPATCH = {"mlp": 40e-6, "cnn": 200e-6, MOMENTS: 1e-6, ROWWISE_MOMENTS: 0.3e-6, LARGE: 20e-6, LARGE_ROWWISE: 0.0}
RATE = {"mlp": 150e9, "cnn": 80e9, MOMENTS: 40e9, ROWWISE_MOMENTS: 45e9, LARGE: 90e9, LARGE_ROWWISE: 30e9}
BATCH, DOUBLE, RECORD, RECORD_STEPS, IMPORTS = 12e-6, 2.3, 2e-5, 1.6, 2.2


def cells() -> list[tuple[str, Cell]]:
    law = {"task": FeaturePowerLaw(), "optimizer": Optimizer()}
    given = {"task": Teacher(), "optimizer": Optimizer()}
    sgd = {"task": Teacher(), "optimizer": Optimizer(kind="sgd", batch_size=64)}
    wishes = [
        *[("mlp", {**given, "architecture": MLP(width=width)}) for width in (16, 64, 256)],
        ("mlp", {**given, "architecture": MLP(), "precision": "float64"}),
        ("mlp", {**sgd, "architecture": MLP()}),
        *[("cnn", {**given, "architecture": CNN(width=width)}) for width in (16, 64)],
        *[(MOMENTS, {**given, "architecture": MLP(width=width), "train": "twin"}) for width in (16, 256)],
        *[(LARGE, {**given, "architecture": MLP(width=width), "train": "twin"}) for width in (1024, 4096)],
        *[(ROWWISE_MOMENTS, {**law, "architecture": Diagonal(width=width), "train": "twin"}) for width in (1, 8)],
        *[(LARGE_ROWWISE, {**law, "architecture": Diagonal(width=width), "train": "twin"}) for width in (64, 256)],
    ]
    return [(name, Cell(**wish, sigma=0.01, seed=0, steps=1000, records=48)) for name, wish in wishes]


def sharing(cell: Cell) -> int:
    return 1 if lanes_in_turns(cell, SIZES.side) else LANES


def timed(scale: float, noise: np.random.Generator | None) -> list[Timed]:
    found = []
    for name, cell in cells():
        single = cell.model_copy(update={"precision": "float32"})
        lane = arithmetic(single, SIZES) * (DOUBLE if cell.precision == "float64" else 1.0) / (RATE[name] / scale)
        lane += scale * BATCH * (cell.optimizer.batch_size is not None)
        error = 1.0 if noise is None else float(np.exp(0.1 * noise.normal()))
        timing = Timing(
            step=error * (scale * DISPATCH[name] / sharing(cell) + lane),
            record=scale * RECORD + RECORD_STEPS * lane,
            start=IMPORTS + 1.5,
            cell=1e-3,
            estimated_step=0.0,
            lane_width=LANES,
        )
        found.append(Timed(cell, SIZES, timing))
    return found


@settings(max_examples=10)
@given(st.floats(0.3, 3.0))
def test_constants_are_recovered(scale: float) -> None:
    """On machines of any speed, as far as the weak pull to usual values lets them."""
    found = fitted(timed(scale, None), IMPORTS, "nowhere")
    for name, family in found.families.items():
        if name != OTHER:
            assert family.dispatch == pytest.approx(scale * DISPATCH[name], rel=0.15), name
            assert family.rate == pytest.approx(RATE[name] / scale, rel=0.15), name
            assert (family.start, family.cell) == pytest.approx((1.5, 1e-3))
    assert (found.batch, found.double) == pytest.approx((scale * BATCH, DOUBLE), rel=0.15)
    assert found.record == pytest.approx(scale * RECORD, rel=0.1)
    assert found.record_steps == pytest.approx(RECORD_STEPS, rel=0.15)
    assert found.imports == IMPORTS


def test_noise_moves_no_estimate_by_much() -> None:
    found, cases = fitted(timed(1.0, np.random.default_rng(0)), IMPORTS, "nowhere"), timed(1.0, None)
    for (name, cell), case in zip(cells(), cases, strict=True):
        family = found.families[name]
        work = arithmetic(cell.model_copy(update={"precision": "float32"}), SIZES) * (found.double if cell.precision == "float64" else 1.0)
        step = family.dispatch / sharing(cell) + work / family.rate + found.batch * (cell.optimizer.batch_size is not None)
        assert 0.7 < step / case.timing.step < 1.4, name


def test_buckets_that_take_twice_as_long_as_estimated_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = study_from(yaml.safe_load(CASES.read_text()))
    wish = plan(study, Manifest(), tmp_path)
    timings = {
        bucket: Timing(
            step=FACTOR * cost.lane_step(LANES),
            record=FACTOR * cost.record,
            start=FACTOR * cost.start,
            cell=FACTOR * cost.cell,
            estimated_step=cost.lane_step(LANES),
            lane_width=LANES,
        )
        for bucket, cost in wish.costs.items()
    }
    doubled = plan(study, Manifest(), tmp_path, timings)
    first = {cell.bucket: cell for cell in doubled.cells}
    rows = compare(doubled, [Timed(first[bucket], doubled.grid.sizes[bucket], timing) for bucket, timing in timings.items()])
    assert {row[0] for row in rows} == set(wish.costs)
    assert all((step, whole) == pytest.approx((FACTOR, FACTOR)) for *_, step, whole in rows)
    assert not show(rows)
    assert f"0 of {len(rows)} buckets within a factor of two" in capsys.readouterr().out


def test_a_job_is_timed_as_jobs_start() -> None:
    def collections(job: str) -> int:
        code = f"{job}\nimport gc; print(gc.get_stats()[0]['collections'])"
        return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    assert 3 * collections(JOB) < collections(JOB.replace("with quick_start():", "if True:"))
