"""Model comparison: the law that made a curve is the best one, and what noise hides is not decided."""

from __future__ import annotations

import numpy as np
import pytest

from nqf_pipeline.analysis.curves import describe
from nqf_pipeline.analysis.curves.columns import Series
from nqf_pipeline.analysis.curves.models import DECISIVE, decided
from tests.analysis.curve_files import noise, staircase

TIME = np.geomspace(1, 1e4, 400)
CURVES = {
    "power law": 2 * TIME**-0.7 + 1e-3,
    "exponential": np.exp(-TIME / 300) + 0.01,
    "stretched exponential": np.exp(-((TIME / 50) ** 0.4)),
    "broken power law": TIME**-0.3 * (1 + (TIME / 100) ** 3) ** -0.3,
    "staircase": staircase(TIME / 15, 0.3 ** np.arange(4.0))[0],
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("sigma", [0.0, 0.02])
def test_the_law_that_made_the_curve_wins(name, sigma):
    loss = CURVES[name] * np.exp(sigma * noise("white", 400, np.random.default_rng(8)))
    (found,) = describe(Series("loss", "step", TIME, loss, None))
    models = found.models
    assert models[0].model == name, [(model.model, round(model.bic, 1)) for model in models]
    if name != "power law":
        assert next(model for model in models if model.model == "power law").bic > DECISIVE
        assert decided(models) or "exponential" in name  # those are special cases of richer models
    assert models[0].misfit < 0.02 + 1.3 * sigma
    assert [model.bic for model in models] == sorted(model.bic for model in models)


def test_parameters_are_in_the_units_of_the_file():
    (found,) = describe(Series("loss", "step", 7 * TIME, CURVES["staircase"], None))
    ignition = 7 * 15 * staircase(TIME, 0.3 ** np.arange(4.0))[1]
    assert list(found.models[0].parameters.values()) == pytest.approx(list(ignition), rel=0.01)
    (found,) = describe(Series("loss", "step", 7 * TIME, CURVES["exponential"], None))
    assert found.models[0].parameters["time_constant"] == pytest.approx(2100, rel=0.02)


def test_a_short_noisy_curve_decides_nothing():
    time = np.geomspace(1, 15, 40)
    (found,) = describe(Series("loss", "step", time, time**-0.5 * np.exp(0.05 * noise("white", 40, np.random.default_rng(2))), None))
    assert not decided(found.models)
