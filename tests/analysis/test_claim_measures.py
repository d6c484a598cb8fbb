"""Measures of claims on tables with a known answer: the right one holds, a shifted one fails."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from nqf_pipeline.analysis.claims import Evidence, Unresolved
from nqf_pipeline.analysis.claims.estimate import Estimate
from nqf_pipeline.analysis.claims.measures import scaled, slope_of, timing
from nqf_pipeline.analysis.claims.staircases import clock_rates, plateau_count, widening, worst
from nqf_pipeline.analysis.claims.subjects import scaling
from nqf_pipeline.report.claims import measured

RATES = np.array([1.0, 0.5, 0.25])
GD = 0.01


def plateaus(shift: float = 0.0, slower: float = 1.0, epsilons=(1e-5, 1e-8, 1e-12, 1e-16), seen: int = 3) -> pd.DataFrame:
    """Rows of `plateaus` for t_k = (ln(1/epsilon) + shift) slower / r_k."""
    rows = []
    for epsilon in epsilons:
        for mode, rate in enumerate(RATES, 1):
            limit = -np.log(epsilon) / rate / GD
            measured = slower * (limit + shift / rate / GD)
            rows.append(
                {
                    "task": "stairs",
                    "cell": f"{epsilon:g}",
                    "source": "network",
                    "tier": "asymptote",
                    "seed": 0,
                    "epsilon": epsilon,
                    "weight_decay": 0.0,
                }
                | {"mode": mode, "t_measured": measured, "t_predicted": limit, "t_asymptotic": limit, "time_scale": GD}
                | {"relative_error": measured / limit - 1, "status": "matched", "plateau_loss": 0.1 if mode <= seen else np.nan}
            )
    return pd.DataFrame(rows)


def evidence(**tables: pd.DataFrame) -> Evidence:
    return Evidence(SimpleNamespace(**tables))


def test_a_constant_shift_leaves_the_clock_and_the_asymptote_misses_it() -> None:
    shifted = evidence(plateaus=plateaus(shift=-1.5))
    assert clock_rates("stairs", 0.01)(shifted).verdict == "holds"
    assert widening("stairs")(shifted).verdict == "holds"
    assert widening("stairs")(shifted).predicted == pytest.approx(3.0)
    found = worst("asymptote", 0.05, task="stairs", epsilon=1e-5)(shifted)
    assert found.measured == pytest.approx(1.5 / np.log(1e5))
    assert found.verdict == "fails"


def test_a_slower_clock_fails() -> None:
    slow = evidence(plateaus=plateaus(slower=1.05))
    assert clock_rates("stairs", 0.01)(slow).verdict == "fails"
    assert clock_rates("stairs", 0.01)(slow).measured == pytest.approx(1.05)
    assert widening("stairs")(slow).verdict == "fails"


def test_too_few_epsilons_are_a_reason() -> None:
    few = evidence(plateaus=plateaus(epsilons=(1e-8, 1e-12)))
    for measure in (clock_rates("stairs", 0.01), widening("stairs")):
        with pytest.raises(Unresolved, match="three"):
            measure(few)
    with pytest.raises(Unresolved, match="below"):
        clock_rates("stairs", 0.01)(evidence(plateaus=plateaus(epsilons=(1e-5,))))


def test_missing_plateaus_are_counted() -> None:
    assert plateau_count("stairs", 1e-5, 3)(evidence(plateaus=plateaus())).verdict == "holds"
    found = plateau_count("stairs", 1e-5, 3)(evidence(plateaus=plateaus(seen=1)))
    assert (found.measured, found.verdict) == (1.0, "fails")


def test_timing_compares_networks_not_modes() -> None:
    """One of five networks is off by 20 %: the median over networks stays, and the worst is named."""
    rows = plateaus(epsilons=(1e-3, 1e-5, 1e-8, 1e-12, 1e-16))
    rows.loc[rows["epsilon"] == 1e-3, "relative_error"] = 0.2
    found = timing(0.05, tier="asymptote")(evidence(plateaus=rows))
    assert (found.measured, found.low, found.high) == (0.0, 0.0, 0.2)
    assert found.verdict == "not resolved"
    assert "worst 20.00%" in found.note


def test_a_mode_that_is_missed_is_infinitely_wrong() -> None:
    """One mode in a network leaves its median; two of three do not, and the worst is never finite."""
    rows = plateaus(epsilons=(1e-5, 1e-8))
    rows.loc[rows["mode"] == 3, ["status", "t_measured", "relative_error"]] = ["unmatched_mode", np.nan, np.nan]
    assert timing(0.05, tier="asymptote")(evidence(plateaus=rows)).verdict == "holds"
    found = worst("asymptote", 0.05, task="stairs")(evidence(plateaus=rows))
    assert (found.measured, found.verdict) == (np.inf, "fails")
    rows.loc[rows["mode"] == 2, ["status", "relative_error"]] = ["unmatched_plateau", np.nan]
    missed = timing(0.05, tier="asymptote")(evidence(plateaus=rows))
    assert missed.verdict == "fails"
    assert "2 of 6 modes due or seen" in missed.note
    assert measured(pd.Series({"measured": missed.measured, "low": missed.low, "high": missed.high})) == "infinite"
    assert measured(pd.Series({"measured": 0.1, "low": 0.0, "high": np.inf})) == "0.1 (0 to infinite)"


def test_slopes() -> None:
    x, rng = np.linspace(0, 1, 20), np.random.default_rng(0)
    found = [slope_of(x, 3 * x + rng.normal(0, 0.1, 20)) for _ in range(400)]
    assert 0.92 <= np.mean([slope.low < 3 < slope.high for slope in found]) <= 0.98
    assert scaled(Estimate(1, 0, 2), 3) == Estimate(3, 0, 6)


def exponents(bias: float) -> pd.DataFrame:
    """Exponents of two settings; 1 / exponent lies `bias` / ln(1/epsilon) of its limit below it."""
    rows = []
    for alpha1, alpha2 in ((2.0, 0.6), (2.0, 0.8)):
        for epsilon in (1e-4, 1e-6, 1e-8, 1e-10):
            limit = (alpha1 - 1) / alpha2
            value = limit / (1 + bias / np.log(epsilon))
            names = {
                "task": "feature_power_law",
                "source": "network",
                "alpha1": alpha1,
                "alpha2": alpha2,
                "epsilon": epsilon,
                "status": "ok",
            }
            sizes = {"exponent": value, "ci_low": value - 0.01, "ci_high": value + 0.01, "predicted_limit": limit, "reason": ""}
            rows.append(names | sizes | {"relative_error": 0.001})
    return pd.DataFrame(rows)


def test_extrapolation_removes_what_epsilon_does() -> None:
    study = evidence(exponents=exponents(bias=2.0))
    assert scaling.against_limit("feature_power_law")(study).verdict == "fails"  # still 9.5 % off at the smallest epsilon
    assert scaling.extrapolated("feature_power_law")(study).verdict == "holds"
    assert scaling.against_finite("feature_power_law")(study).verdict == "holds"
    assert scaling.against_limit("feature_power_law")(evidence(exponents=exponents(bias=0.5))).verdict == "holds"


def test_the_text_on_one_hot_data_is_judged_by_the_setting_it_gives() -> None:
    found = scaling.one_hot_text(evidence(exponents=exponents(bias=0.0)))
    assert found.measured == pytest.approx(1 / 0.6)
    assert found.verdict == "fails"
