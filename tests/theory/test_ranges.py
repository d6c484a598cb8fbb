"""The power-law range rule on spectra whose truth is known: found where there is one, refused where there is none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nqf_pipeline.theory.ranges import DECADES, VAGUE, law, power_law_range

NAMES = ("rates", "loss shares")
Make = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def number(count: int) -> np.ndarray:
    return np.arange(1.0, count + 1)


def test_a_pure_power_law_is_found_whole_with_its_exponents() -> None:
    k = number(300)
    found = power_law_range([3 * k**-0.8, 0.2 * k**-2.0], NAMES)
    assert found.found
    assert (found.first, found.last) == (1, 300)
    assert [law.exponent for law in found.laws] == pytest.approx([0.8, 2.0])
    assert all(law.high - law.low < 1e-9 for law in found.laws)


def test_the_range_ends_where_the_law_ends() -> None:
    """A power law with an exponential cut-off at mode 100."""
    k = number(1000)
    found = power_law_range([k**-1.0 * np.exp(-((k / 100) ** 2))], NAMES[:1])
    assert found.found
    assert found.first == 1
    assert 31 < found.last < 100
    assert found.laws[0].exponent == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("count", [64, 400])
def test_intervals_cover_the_exponent_under_scatter(count: int) -> None:
    """Goal 95 %: the search keeps the longest accepted range, whose interval must still cover."""
    rng = np.random.default_rng(count)
    found = [power_law_range([number(count) ** -1.2 * np.exp(0.5 * rng.standard_normal(count))], NAMES[:1]) for _ in range(60)]
    accepted = [one.laws[0] for one in found if one.found]
    assert len(accepted) > 0.7 * len(found)
    assert np.mean([one.low <= 1.2 <= one.high for one in accepted]) > 0.9
    assert abs(np.mean([one.exponent for one in accepted]) - 1.2) < 0.03


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda k, rng: np.exp(-10 * k / len(k) + 0.3 * rng.standard_normal(len(k))), "exponential|bent|scattered"),
        (lambda k, rng: np.sort(rng.random(len(k)))[::-1], "bent|flat|exponential"),
        (lambda k, rng: np.linalg.svd(rng.standard_normal((len(k), 2 * len(k))), compute_uv=False) ** 2, "bent|flat|exponential"),
        (lambda k, rng: np.exp(-(np.log(k) ** 2) / 3), "bent"),
        (lambda k, rng: np.exp(3 * rng.standard_normal(len(k))), "scattered|flat|bent"),
    ],
    ids=["exponential", "uniform", "random matrix", "lognormal in rank", "noise"],
)
def test_other_spectra_have_no_range(make: Make, why: str) -> None:
    rng = np.random.default_rng(5)
    found = [power_law_range([make(number(100), rng)], NAMES[:1]) for _ in range(25)]
    refused = [one for one in found if not one.found]
    assert len(refused) >= 24
    assert any(word in refused[0].reason for word in why.split("|")), refused[0].reason


def test_both_spectra_must_hold_on_one_range() -> None:
    k = number(100)
    found = power_law_range([k**-0.8, np.exp(-k / 10)], NAMES)
    assert not found.found
    assert "loss shares" in found.reason
    assert "rates" not in found.reason


def test_few_modes_are_refused_in_words() -> None:
    found = power_law_range([number(4) ** -1.0], NAMES[:1])
    assert not found.found
    assert "4" in found.reason
    assert not found.laws


def test_an_interval_wider_than_allowed_is_vague() -> None:
    rng = np.random.default_rng(1)
    noisy = law(number(30) ** -1.0 * np.exp(1.5 * rng.standard_normal(30)), 1, 30)
    assert noisy.high - noisy.low > 2 * VAGUE * noisy.exponent
    assert noisy.refused
    assert DECADES == 1.0
