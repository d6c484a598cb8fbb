"""What whole runs say of the time beside kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.jobs import CORES, GOAL, Run

RUN = Run(wall=100.0, kernels=60.0, jobs=150.0, cells=400, stages={"train": 150.0, "merge": 5.0})


def test_a_run_that_trains_for_the_stated_minutes_reaches_the_goal() -> None:
    kernels = 60 * CORES * RUN.minutes_to_goal
    longer = replace(RUN, kernels=kernels, wall=RUN.wall + (kernels - RUN.kernels) / CORES)
    assert longer.kernel_share == pytest.approx(GOAL)
    assert longer.minutes_to_goal == pytest.approx(RUN.minutes_to_goal)


def test_shares_of_both_cores_are_named() -> None:
    assert "kernels 30%" in RUN.limits
    assert "rest of the training jobs 45%" in RUN.limits
    assert f"reach 85% where they train {RUN.minutes_to_goal:.1f} minutes" in RUN.limits
