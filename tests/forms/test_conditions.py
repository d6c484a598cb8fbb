"""The conditions of Theorem 1, measured on modules that meet them and on modules that break one each."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.conditions import check
from nqf_pipeline.forms.verdict import judge
from nqf_pipeline.models import Architecture, FourierMLP
from nqf_pipeline.stages.check import closed_form_error
from tests.forms.violators import ALLOWED, VIOLATORS

X = np.random.default_rng(7).standard_normal(4)


@pytest.mark.parametrize("name", VIOLATORS)
def test_violators_are_found_with_the_reason(name: str) -> None:
    apply, verdict, order, reason = VIOLATORS[name]
    found = check(apply, X, width=6, unit_size=5)
    judged = judge(found)
    assert judged.verdict == verdict
    assert found.remainder_order == order
    assert re.search(reason, " ".join(judged.reasons))
    assert judged.symmetric == (verdict not in ("not_symmetric", "nqf_distinct_units"))


@pytest.mark.parametrize("name", ALLOWED)
def test_what_looks_like_a_violation_and_is_none(name: str) -> None:
    apply, verdict, order, reason = ALLOWED[name]
    found = check(apply, X, width=6, unit_size=5)
    judged = judge(found)
    assert (judged.verdict, judged.smooth, found.remainder_order) == (verdict, True, order)
    assert re.search(reason, " ".join(judged.reasons))


def test_every_architecture_is_an_nqf_with_its_closed_form(architecture: Architecture, rng: np.random.Generator) -> None:
    x = architecture.draw_inputs(rng, 2)
    found = check(architecture.apply, x, architecture.width, architecture.unit_size)
    judged = judge(found)
    assert judged.verdict == ("nqf" if architecture.exchangeable else "nqf_distinct_units")
    assert judged.zero_gradient
    assert found.exactly_quadratic == architecture.exactly_quadratic
    assert found.remainder_order == (None if architecture.exactly_quadratic else 4)
    assert closed_form_error(architecture, x) <= 1e-12
    if isinstance(architecture, FourierMLP):
        assert not judged.symmetric


@settings(max_examples=4)
@given(width=st.integers(2, 6), outputs=st.integers(1, 3), scale=st.floats(0.1, 10), seed=st.integers(0, 99))
def test_verdict_ignores_scale_width_and_outputs(width: int, outputs: int, scale: float, seed: int) -> None:
    mix = np.random.default_rng(seed).standard_normal((outputs, 1))

    def module(weights: jax.Array, x: jax.Array) -> jax.Array:
        return scale * jnp.asarray(mix) * (weights[4] @ jnp.tanh(weights[:4].T @ x))

    found = check(module, np.random.default_rng(seed).standard_normal(4), width, 5)
    assert judge(found).verdict == "nqf"
    assert found.remainder_order == 4
    assert judge(found).even


def test_one_unit_is_symmetric_and_needs_no_b() -> None:
    judged = judge(check(VIOLATORS["exp after the sum"].apply, X, width=1, unit_size=5))
    assert judged.verdict == "nqf_general"
    assert "B is needed" not in " ".join(judged.reasons)


def test_a_large_constant_is_no_asymmetry() -> None:
    judged = judge(check(lambda w, x: 1e9 + w[4] @ jnp.tanh(w[:4].T @ x), X, width=3, unit_size=5))
    assert (judged.verdict, judged.even) == ("nqf", True)


def test_the_last_of_many_units_counts() -> None:
    judged = judge(check(lambda w, x: w[4] @ jnp.tanh(w[:4].T @ x) + w[0, -1], X, width=40, unit_size=5))
    assert judged.verdict == "not_symmetric"


def test_a_module_that_overflows_everywhere_is_not_evaluable() -> None:
    judged = judge(check(lambda w, x: jnp.exp(1e9 * (w**2).sum()) - 1, X, width=3, unit_size=5))
    assert judged.verdict == "not_evaluable"
    assert "overflow" in judged.reasons[0]


def test_batches_and_single_precision_sessions_are_checked_alike() -> None:
    batch = np.random.default_rng(0).standard_normal((4, 7)).astype(np.float32)
    with jax.enable_x64(False):
        found = check(lambda w, x: w[4] @ jnp.tanh(w[:4].T @ x), batch, width=6, unit_size=5)
    assert judge(found).verdict == "nqf"
    assert found.permutation_defect < 1e-12
    assert found.remainder_order == 4


@pytest.mark.parametrize(
    ("apply", "says"),
    [
        (lambda w, x: (w @ x).sum(), r"W of shape \(5, 6\) and x of shape \(4,\): the module raised TypeError"),
        (lambda w, x: np.tanh(np.asarray(w)).sum(), "use jax.numpy"),
        (lambda w, x: w.sum() if w.sum() > 0 else 0.0, "branches on the value"),
        (lambda w, x: [w, x], "returns a list"),
        (lambda w, x: w.sum() * 1j, "real numbers"),
        (lambda w, x: w[:0, 0], "at least one"),
        (lambda w, x: 1 // 0, "ZeroDivisionError"),
        (lambda w, x: w.astype(jnp.float32).sum(), "leave out casts"),
    ],
)
def test_what_cannot_be_called_is_bad_input(apply: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        check(apply, X, width=6, unit_size=5)


@pytest.mark.parametrize(("width", "unit_size"), [(0, 5), (3, 0)])
def test_a_module_has_units(width: int, unit_size: int) -> None:
    with pytest.raises(InputError, match="at least one unit"):
        check(VIOLATORS["relu"].apply, X, width, unit_size)
