"""Exponents of g, A and B in the width, on modules whose exponents are known."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.width import width_scaling
from nqf_pipeline.models import SingleHead

X = np.random.default_rng(3).standard_normal(4)


def hidden(weights: jax.Array) -> jax.Array:
    return weights[:4].T @ X


@pytest.mark.parametrize(
    ("module", "expected", "lazy"),
    [
        (lambda w, x: w[4] @ jnp.tanh(hidden(w)), {"g": None, "A": 0, "B": None, "feature_kernel": 1}, False),
        (lambda w, x: w[4] @ jnp.tanh(hidden(w)) / w.shape[1] ** 0.5, {"g": None, "A": -0.5, "B": None, "feature_kernel": 0}, False),
        (lambda w, x: jax.nn.softmax(hidden(w)) @ w[4], {"g": -1, "A": -1, "B": -2, "fixed_kernel": -1, "feature_kernel": -1}, None),
        (lambda w, x: w[4] @ jax.nn.sigmoid(hidden(w)) / w.shape[1] ** 0.5, {"g": -0.5, "A": -0.5, "B": None, "fixed_kernel": 0}, None),
        (lambda w, x: w[4].sum() + w[4] @ hidden(w) / w.shape[1], {"g": 0, "A": -1, "fixed_kernel": 1, "feature_kernel": -1}, True),
    ],
)
def test_known_exponents(module: object, expected: dict[str, float | None], lazy: bool | None) -> None:
    found = width_scaling(lambda width: module, X, 5, widths=(4, 8, 16))
    for name, value in expected.items():
        assert found.exponents[name] == (None if value is None else pytest.approx(value, abs=1e-9))
    assert found.lazy is lazy


def test_single_head_logits_shrink_with_the_key_size() -> None:
    tokens = np.random.default_rng(0).standard_normal((3, 4, 2))
    found = width_scaling(lambda width: SingleHead(width=width, dimension=3, tokens=4, outputs=2).apply, tokens, 6, widths=(2, 8))
    assert found.exponents["A"] == pytest.approx(-0.5)
    assert found.exponents["g"] is None


def test_one_width_has_no_exponent() -> None:
    with pytest.raises(InputError, match="at least two"):
        width_scaling(lambda width: lambda w, x: w.sum(), X, 5, widths=(4,))
