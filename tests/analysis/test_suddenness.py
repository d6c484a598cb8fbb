from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from nqf_pipeline.analysis.suddenness import shown
from nqf_pipeline.theory.sudden import verdict


@pytest.mark.parametrize(("times", "sudden"), [([100.0, 300.0, 700.0], True), ([60.0, 80.0, 95.0, 110.0], False)])
def test_recorded_logistic_modes_show_the_verdict_of_their_clocks(times: list[float], sudden: bool) -> None:
    time, rate = np.array(times), np.full(len(times), 0.1)
    steps = np.arange(0, 1500, 3)
    found, expected = shown(steps, expit(rate * (steps[:, None] - time))), verdict(time, rate)
    assert found.sudden == expected.sudden == sudden
    np.testing.assert_allclose(found.separation, expected.separation, rtol=1e-2)


def test_modes_that_never_pass_one_half_make_no_step_and_lowered_plateaus_count_in_full() -> None:
    steps = np.arange(0, 1500, 3)
    strength = np.array([0.8, 0.3]) * expit(0.1 * (steps[:, None] - np.array([100.0, 500.0])))
    found = shown(steps, strength)
    assert found.steps == 1
    np.testing.assert_allclose(found.separation, verdict(np.array([100.0]), np.array([0.1])).separation, rtol=1e-2)
