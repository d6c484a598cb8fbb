"""Compute-optimal envelopes on models whose losses are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqf_pipeline.analysis.tradeoffs import Model, Sweep, sweep_rows
from nqf_pipeline.theory.compute import tradeoff
from tests.analysis.synthetic import logistic

EPSILON = 1e-8


def model(size: int, alpha1: float, alpha2: float, whole: int = 4096, seeds: int = 3) -> Model:
    """Logistic modes of an infinite target (4096 modes stand for it): those up to `size` are learnt, the others never."""
    k = np.arange(1.0, whole + 1)
    time = np.geomspace(0.1, 3 * np.log(1 / EPSILON) * size**alpha2, 300)
    own = k[:size]
    draws = np.random.default_rng(size).chisquare(8, (seeds, size)) / 8
    left = [(1 - logistic(time, own**-alpha2, np.ones(size), EPSILON * draw)) ** 2 @ own**-alpha1 for draw in draws]
    loss = np.array(left) + np.sum(k[size:] ** -alpha1)
    expected = (1 - logistic(time, own**-alpha2, np.ones(size), np.full(size, EPSILON))) ** 2 @ own**-alpha1 + np.sum(k[size:] ** -alpha1)
    number = np.unique(np.geomspace(1, size, 40).round())
    ignition = np.log(1 / (EPSILON * draws[:, number.astype(int) - 1])) * number**alpha2
    return Model(size, time, loss, expected, number, ignition)


def sweep(alpha1: float, alpha2: float) -> Sweep:
    return Sweep({}, tuple(model(2**p, alpha1, alpha2) for p in range(3, 10)), alpha1, alpha2)


@pytest.mark.parametrize(("alpha1", "alpha2"), [(2.0, 0.8), (2.5, 1.2)])
def test_envelopes_follow_the_derived_exponents(alpha1: float, alpha2: float) -> None:
    rows = {row["quantity"]: row for row in sweep_rows(sweep(alpha1, alpha2))}
    assert set(rows) == {"loss of compute", "modes of compute", "time of compute", "loss of modes learnt"}
    for row in rows.values():
        assert row["status"] == "ok"
        assert row["exponent"] == pytest.approx(row["predicted_limit"], rel=0.04)
        assert row["exponent"] == pytest.approx(row["predicted_finite"], rel=0.03)
        assert row["ci_low"] <= row["exponent"] <= row["ci_high"] < row["ci_low"] + 0.4


def test_sizes_that_are_never_best_in_the_sweep_give_no_exponent() -> None:
    """Two sizes alone have no best one between them."""
    whole = sweep(2.0, 0.8)
    rows = list(sweep_rows(Sweep({}, whole.models[:2], 2.0, 0.8)))
    assert [row["status"] for row in rows if "compute" in row["quantity"]] == ["not_resolved"] * 3
    assert "inside the sweep" in rows[0]["reason"]


@settings(max_examples=30)
@given(alpha1=st.floats(1.1, 4), alpha2=st.floats(0.2, 3))
def test_the_derived_split_minimises_the_two_terms(alpha1: float, alpha2: float) -> None:
    """n^-(alpha1 - 1) + (C / n)^-((alpha1 - 1) / alpha2) by a fine search, at two values of C."""
    n = np.exp(np.linspace(0, np.log(1e12), 200_001))
    best = []
    for compute in (1e8, 1e10):
        loss = n ** -(alpha1 - 1) + (compute / n) ** -((alpha1 - 1) / alpha2)
        best.append((n[loss.argmin()], loss.min()))
    slopes = np.log(np.array(best[1]) / np.array(best[0])) / np.log(100)
    found = tradeoff(alpha1, alpha2)
    assert slopes == pytest.approx([found.modes, -found.loss], rel=1e-3)
    assert found.modes + found.time == pytest.approx(1)
