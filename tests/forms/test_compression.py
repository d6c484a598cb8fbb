"""Spans and compressed starts; training at compressed width is tested in tests/dynamics/test_compressed.py."""

from __future__ import annotations

import numpy as np
import pytest

from nqf_pipeline import normal_form
from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.compression import compress, span_of
from nqf_pipeline.forms.quadratic import DenseForm, Order, StructureForm
from nqf_pipeline.models import MLP, Architecture
from tests.dynamics import weightspace


def form_of(architecture: Architecture, inputs, weights):
    return StructureForm.of(architecture.structure(inputs), architecture.factors(weights), rowwise=architecture.pairing == "rowwise")


def test_span_of_a_structure_is_that_of_its_dense_matrices(architecture: Architecture, rng) -> None:
    inputs = rng.standard_normal((*architecture.input_shape, 3))
    form, units = form_of(architecture, inputs, architecture.initial(rng))
    size = len(units)
    eye = np.eye(size)
    zero = form.apply(Order(0 * eye, eye[0]))
    pairs = [[form.apply(Order((np.outer(a, b) + np.outer(b, a)) / 2, a)) - zero for b in eye] for a in eye]
    dense = DenseForm(
        zero, np.zeros((*zero.shape, size)), np.moveaxis(np.array(pairs), (0, 1), (2, 3)), np.zeros((*zero.shape, size, size))
    )
    found, expected = span_of(form), span_of(dense)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-10)


def test_structures_keep_their_outputs(architecture: Architecture, rng) -> None:
    """Also where V is not all of unit space: two samples, three in eight directions."""
    inputs = rng.standard_normal((*architecture.input_shape, 2))
    form, units = form_of(architecture, inputs, architecture.initial(rng))
    compression = compress(form, units)
    assert compression.weights.shape[1] == min(units.shape[1], compression.basis.shape[1] + 1)
    np.testing.assert_allclose(compression.form.apply(Order.of(compression.weights)), form.apply(Order.of(units)), atol=1e-12)
    assert compression.gap < 1e-12


def test_order_parameters_are_those_of_the_full_width(rng) -> None:
    form, weights = weightspace.random_form(rng), rng.standard_normal((4, 20))
    compression = compress(form, weights)
    assert compression.weights.shape == (4, 5)
    assert (compression.learning_rate_factor, compression.weight_decay_factor) == (4, 0.25)
    found, expected = compression.original(Order.of(compression.weights)), Order.of(weights)
    np.testing.assert_allclose(found.second, expected.second, atol=1e-12)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-12)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_a_smaller_width_keeps_the_leading_spread(width: int, rng) -> None:
    form, weights = weightspace.random_form(rng), rng.standard_normal((4, 20))
    compression = compress(form, weights, width)
    missing = Order.of(weights).second - compression.original(Order.of(compression.weights)).second
    spectrum = np.linalg.eigvalsh(Order.of(weights).second - np.outer(weights.sum(1), weights.sum(1)) / 20)[::-1]
    np.testing.assert_allclose(compression.discarded, spectrum[width - 1 :], rtol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(missing), compression.gap, rtol=1e-10)
    np.testing.assert_allclose(compression.weights.sum(1), weights.sum(1), atol=1e-12)


def test_automatic_expansion_compresses_like_the_closed_form(rng) -> None:
    a = MLP(inputs=4, outputs=2, width=12)
    inputs, weights = rng.standard_normal((4, 3)), a.initial(rng)
    dense = DenseForm.of(normal_form(a.apply, inputs, a.width, a.unit_size))
    closed, _ = form_of(a, inputs, weights)
    assert span_of(dense).shape == span_of(closed).shape == (6, 5)
    assert compress(dense, weights).weights.shape == (6, 6)


@pytest.mark.parametrize("width", [0, 21])
def test_more_units_than_there_are_is_no_compression(width: int, rng) -> None:
    with pytest.raises(InputError, match=r"not between 1 and the module's own 20"):
        compress(weightspace.random_form(rng), rng.standard_normal((4, 20)), width)
