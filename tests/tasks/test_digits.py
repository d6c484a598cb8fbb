"""Odd or even on the digits that scikit-learn ships."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from nqf_pipeline.models import CNN, MLP, Architecture, Diagonal, MultiHead, PhaseRetrieval, QueryKey
from nqf_pipeline.tasks import Digits, Problem, TaskError

READERS: tuple[Architecture, ...] = (
    MLP(inputs=64, outputs=1),
    CNN(image=(8, 8), outputs=1),
    QueryKey(dimension=8, tokens=8, outputs=1),
    MultiHead(dimension=8, tokens=8, outputs=1),
    Diagonal(inputs=64),
)


def problem(architecture: Architecture, seed: int = 0, **fields: int) -> Problem:
    return Digits(**fields).problem(architecture, np.random.default_rng(seed))


def test_images_and_labels_are_the_packaged_ones() -> None:
    bunch = load_digits()
    drawn = problem(MLP(inputs=64, outputs=1))
    images, labels = np.hstack([drawn.inputs, drawn.test_inputs]), np.hstack([drawn.targets, drawn.test_targets])[0]
    assert images.shape == (64, 1797)
    packaged = bunch.data - bunch.data.mean(0)
    varied = packaged.std(0) > 0
    # Up to the common affine scaling, the same set of images with the same labels.
    scale = np.linalg.norm(images[varied] - images[varied].mean(1, keepdims=True)) / np.linalg.norm(packaged)
    mine = np.sort(((images - images.mean(1, keepdims=True)) / scale).T @ np.arange(1.0, 65) * 10 + labels)
    theirs = np.sort(packaged @ np.arange(1.0, 65) * 10 + np.where(bunch.target % 2 == 1, 1, -1))
    np.testing.assert_allclose(mine, theirs, atol=1e-6)


@pytest.mark.parametrize("architecture", READERS, ids=lambda a: a.name)
def test_every_reader_gets_its_shape_and_a_mode(architecture: Architecture) -> None:
    drawn = problem(architecture, samples=1000)
    assert drawn.inputs.shape == (*architecture.input_shape, 1000)
    assert drawn.test_targets.shape == (1, 797)
    assert set(np.unique(drawn.targets)) == {-1.0, 1.0}
    assert 1 <= len(drawn.modes.target) <= 4
    np.testing.assert_allclose(drawn.modes.strength(drawn.moments.optimum), np.ones(len(drawn.modes.target)))


def test_rows_are_tokens() -> None:
    image, tokens = problem(CNN(image=(8, 8), outputs=1)).inputs, problem(MultiHead(dimension=8, tokens=8, outputs=1)).inputs
    np.testing.assert_array_equal(tokens, image.transpose(1, 0, 2))


def test_scaling_is_that_of_the_training_images() -> None:
    drawn = problem(MLP(inputs=64, outputs=1))
    np.testing.assert_allclose(drawn.inputs.mean(1), 0, atol=1e-12)
    assert (drawn.inputs**2).mean() == pytest.approx(1)
    assert (drawn.test_inputs**2).mean() == pytest.approx(1, abs=0.1)


def test_split_is_the_same_for_every_stream() -> None:
    first, other = problem(MLP(inputs=64, outputs=1), 0), problem(MLP(inputs=64, outputs=1), 1)
    np.testing.assert_array_equal(first.inputs, other.inputs)
    assert Digits.shared_data


def test_the_single_linear_mode_is_the_explained_variance() -> None:
    """Strength = <K G*, G> / <K G*, G*>: the first direction that ignites, in the metric of the data."""
    drawn = problem(MLP(inputs=64, outputs=1))
    correlation = drawn.inputs @ drawn.targets.T / 1200
    np.testing.assert_allclose(np.abs(drawn.modes.left[:, 0] @ correlation), np.linalg.norm(correlation))
    order = np.random.default_rng(0).standard_normal((64, 1))
    expected = (correlation * order).sum() / (correlation * drawn.moments.optimum).sum()
    assert drawn.modes.strength(order)[0] == pytest.approx(expected)
    explained = drawn.moments.excess(0 * order)
    assert (correlation * drawn.moments.optimum).sum() == pytest.approx(explained)
    assert 0.6 < explained < 0.9


def test_watched_modes_of_a_positive_model_can_be_learnt() -> None:
    drawn = problem(Diagonal(inputs=64), modes=6)
    assert (drawn.moments.linear[drawn.modes.index] > 0).all()
    assert (drawn.modes.target > 0).all()
    assert (np.diff(drawn.moments.linear[drawn.modes.index]) <= 0).all()


def test_misfits_are_refused_with_the_remedy() -> None:
    for architecture in (MLP(), MLP(inputs=64), CNN(outputs=1), PhaseRetrieval()):
        with pytest.raises(TaskError, match=r"set outputs: 1 .*inputs: 64 .*image: \[8, 8\].*dimension: 8 and tokens: 8"):
            Digits().check(architecture)


def test_ten_classes_are_one_hot_and_their_modes_those_of_the_gradient_at_zero() -> None:
    digits = load_digits().target
    drawn = Digits(labels="classes", loss="softmax_cross_entropy").problem(MLP(inputs=64, outputs=10), np.random.default_rng(0))
    assert (drawn.loss, drawn.labels) == ("softmax_cross_entropy", "classes")
    assert set(np.unique(drawn.targets)) == {0.0, 1.0}
    np.testing.assert_array_equal(drawn.targets.sum(0), 1)
    np.testing.assert_array_equal(drawn.targets.sum(1) + drawn.test_targets.sum(1), np.bincount(digits))
    # At zero weights every class has probability 1/10: the gradient in G is that of (1/10 - y), the modes are its singular directions.
    slope = drawn.structure.adjoint(0.1 - drawn.targets) / drawn.targets.shape[1]
    np.testing.assert_allclose(drawn.moments.gradient(0 * drawn.moments.optimum), slope, atol=1e-12)
    left, _, right = np.linalg.svd(slope, full_matrices=False)
    for k in range(4):
        assert abs(left[:, k] @ drawn.modes.left[:, k]) == pytest.approx(1)
        assert abs(right[k] @ drawn.modes.right[:, k]) == pytest.approx(1)


def test_logistic_labels_are_signs() -> None:
    parity = Digits(loss="logistic").problem(MLP(inputs=64, outputs=1), np.random.default_rng(0))
    classes = Digits(loss="logistic", labels="classes").problem(MLP(inputs=64, outputs=10), np.random.default_rng(0))
    assert set(np.unique(parity.targets)) == set(np.unique(classes.targets)) == {-1.0, 1.0}
    np.testing.assert_array_equal((classes.targets == 1).sum(0), 1)


def test_one_output_is_no_class() -> None:
    with pytest.raises(ValueError, match="set labels: classes, or loss: logistic"):
        Digits(loss="softmax_cross_entropy")
    with pytest.raises(TaskError, match=r"ten outputs .*set outputs: 10"):
        Digits(labels="classes").check(MLP(inputs=64, outputs=1))
