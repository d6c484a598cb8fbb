"""Growth exponents, forecasts and limits on costs whose law is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.growth.breaks import Limit, crossing
from benchmarks.growth.forecast import SITES, Forecast
from benchmarks.growth.page import growth_table
from benchmarks.growth.studies import QUANTITIES, Kind, Measured, study_sweeps, thinned
from benchmarks.growth.sweeps import Growth, Sweep, fit
from nqf_pipeline.study.cost import JOBS, LONGEST_JOB

SIZES = np.array([100.0, 300, 1000, 3000, 10_000])


def grown(x: np.ndarray, y: np.ndarray) -> Growth:
    line = fit(x, y)
    assert line is not None
    return line


@given(exponent=st.floats(0.3, 2.5), fixed=st.floats(0.01, 10), coefficient=st.floats(0.01, 10))
def test_a_power_law_over_a_fixed_cost_is_recovered(exponent: float, fixed: float, coefficient: float) -> None:
    cost = fixed + coefficient * (SIZES - SIZES[0]) ** exponent
    line = grown(SIZES, cost)
    assert line.exponent == pytest.approx(exponent, rel=1e-6)
    assert line.at(1e6) == pytest.approx(fixed + coefficient * (1e6 - 100) ** exponent, rel=1e-4)
    assert line.reaches(line.at(1e5)) == pytest.approx(1e5, rel=1e-6)


def test_the_interval_covers_the_exponent_as_often_as_it_says() -> None:
    rng = np.random.default_rng(20261130)
    inside = 0
    for _ in range(400):
        line = grown(SIZES, (2 + 0.01 * SIZES) * np.exp(0.02 * rng.standard_normal(len(SIZES))))
        inside += line.low <= 1 <= line.high
    assert 0.88 <= inside / 400 <= 0.99


def test_a_cost_that_does_not_grow_has_no_exponent() -> None:
    assert fit(SIZES, np.array([5.0, 5.1, 4.9, 5.05, 5.0])) is None
    assert fit(SIZES, np.array([5.0, 6.0, 5.0, 5.0, 5.0])) is None


def test_two_increments_leave_the_interval_open() -> None:
    line = grown(SIZES[:3], SIZES[:3])
    assert line.exponent == pytest.approx(1)
    assert line.low == -np.inf
    assert line.high == np.inf


def linear(cells: int) -> Measured:
    """A study whose every quantity is a fixed part and 1 unit a cell; two jobs, a second each to start."""
    stages = ("train", "theory", "merge", "analyse", "figures", "report")
    seconds = dict.fromkeys(stages, 10.0 + cells) | {"train": cells + 2.0}
    kinds = {"nothing": Kind(cells, 0.0, 1.0, 100)}
    return Measured("mlp", cells, float(cells), 2, seconds, dict.fromkeys(stages, 50.0 + cells), cells, 1000 * cells, 10 * cells, kinds)


@pytest.fixture
def forecast() -> Forecast:
    runs = [linear(cells) for cells in (10, 100, 1000, 10_000)]
    planning = {
        name: Sweep(name, "planning", "cells", "plan", "s", "", [[x, 1 + 0.001 * x] for x in (10.0, 100.0, 1000.0, 10_000.0)])
        for name in ("plan", "plan_memory", "snakemake_run", "workflow_dry", "workflow_memory")
    }
    return Forecast("mlp", runs, planning | {sweep.name: sweep for sweep in study_sweeps(runs)})


def test_a_forecast_adds_up(forecast: Forecast) -> None:
    machine, node = SITES
    cells = 1e6
    assert forecast.job_start == pytest.approx(1.0)
    jobs = cells / (LONGEST_JOB - 1.0)
    assert forecast.jobs(cells).value == pytest.approx(jobs, rel=1e-3)
    assert forecast.jobs(3e5).value == pytest.approx(JOBS, rel=1e-2)
    assert forecast.training(cells).value == pytest.approx(cells + jobs, rel=1e-3)
    plan, serial, dispatch = 1 + 0.001 * cells, 4 * (10 + cells), 2 * (1 + 0.001 * jobs)
    assert forecast.wall(cells, machine).value == pytest.approx((cells + jobs + cells + plan) / 2 + serial + dispatch, rel=1e-3)
    assert forecast.planning(cells, node).value == pytest.approx(plan * (1 + jobs), rel=1e-3)


def test_limits_are_met_where_the_line_crosses_them(forecast: Forecast) -> None:
    def merging(f: Forecast, n: float) -> float:
        return f.own("merge_megabytes", n).value

    assert crossing(Limit("merge", 1e6, "", "", merging), forecast) == pytest.approx(1e6 - 50, rel=0.01)
    assert crossing(Limit("never", 1e15, "", "", merging), forecast) == np.inf


def test_the_table_names_every_quantity() -> None:
    runs = [linear(cells) for cells in (10, 100, 1000, 10_000)]
    table = growth_table({"studies": {"machine": "", "measured": [run.document() for run in runs]}})
    assert table.count("\n") == 1 + len(QUANTITIES)


def test_thinning_keeps_experiments_and_at_least_one_seed() -> None:
    study = {"name": "s", "experiments": {"a": {"seeds": 100, "steps": 5}, "b": {"seeds": [0, 1, 2]}, "c": {}}}
    assert thinned(study, 0.1) == {"experiments": {"a": {"seeds": 10, "steps": 5}, "b": {"seeds": 1}, "c": {"seeds": 1}}}
