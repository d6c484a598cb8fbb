"""The teacher is the architecture's own quadratic form with the modes it was given."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from nqf_pipeline.models import CNN, MLP, Architecture, Diagonal, FourierMLP, MixtureOfExperts, MultiHead, PhaseRetrieval, QueryKey
from nqf_pipeline.tasks import Problem, TaskError, Teacher

STRENGTHS = (1.0, 0.5)


def problem(task: Teacher, architecture: Architecture, seed: int = 0) -> Problem:
    return task.problem(architecture, np.random.default_rng(seed))


def test_optimum_is_the_teacher(architecture: Architecture) -> None:
    drawn = problem(Teacher(strengths=STRENGTHS, samples=300, test_samples=40), architecture)
    np.testing.assert_allclose(drawn.modes.strength(drawn.moments.optimum), np.ones(2), rtol=1e-9)
    assert drawn.moments.floor <= 1e-12 * drawn.moments.loss(0 * drawn.moments.optimum)
    np.testing.assert_allclose(drawn.structure.offset + drawn.structure.apply(drawn.moments.optimum), drawn.targets, atol=1e-9)
    np.testing.assert_allclose(drawn.test_moments.excess(drawn.moments.optimum), 0, atol=1e-12)


def test_shapes(architecture: Architecture) -> None:
    drawn = problem(Teacher(strengths=STRENGTHS, samples=30, test_samples=11), architecture)
    assert drawn.inputs.shape == (*architecture.input_shape, 30)
    assert drawn.test_inputs.shape == (*architecture.input_shape, 11)
    assert drawn.targets.shape == (architecture.output_size, 30)
    assert drawn.test_targets.shape == (architecture.output_size, 11)
    assert drawn.initial_scale.shape == (architecture.unit_size, 1)
    for array in (drawn.inputs, drawn.targets, drawn.moments.optimum, drawn.initial_scale):
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float64


def test_test_moments_are_those_of_the_test_split(architecture: Architecture) -> None:
    drawn = problem(Teacher(strengths=STRENGTHS, samples=300, test_samples=40, label_noise=0.1), architecture)
    structure = architecture.structure(drawn.test_inputs)
    residual = structure.offset + structure.apply(drawn.moments.optimum) - drawn.test_targets
    assert drawn.test_moments.loss(drawn.moments.optimum) == pytest.approx((residual**2).sum() / 40)
    differ = drawn.inputs[..., :11] != drawn.test_inputs[..., :11]
    assert differ.all() if architecture.gaussian_inputs else differ.any()


def test_same_stream_same_problem_other_stream_other_problem() -> None:
    first, again, other = (problem(Teacher(), MLP(), seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.targets, again.targets)
    assert (first.inputs != other.inputs).all()
    assert (first.modes.left != other.modes.left).all()


@pytest.mark.parametrize("architecture", [MLP(), MultiHead(), MLP(activation="gelu")], ids=["mlp", "multi_head", "slope"])
def test_white_inputs_make_the_closed_regime_exact(architecture: Architecture) -> None:
    """K = c 1 and the singular values of K G* are c s_k: each mode is logistic with r = 4 c s, C = 2 c (theory: section 3)."""
    drawn = problem(Teacher(inputs="white"), architecture)
    plain = problem(Teacher(), architecture)
    scale = np.trace(plain.moments.operator) / 20
    np.testing.assert_allclose(drawn.moments.operator, scale * np.eye(20), atol=1e-12)
    values = np.linalg.svd(drawn.moments.linear, compute_uv=False)
    np.testing.assert_allclose(values[:5], scale * np.array([1, 0.5, 0.25, 0.125, 0]), atol=1e-12)
    test = np.linalg.eigvalsh(drawn.test_moments.operator / scale)
    assert 0.5 < test[0] < test[-1] < 1.6


def test_white_leaves_other_features_plain() -> None:
    white, plain = (problem(Teacher(inputs=inputs), CNN()) for inputs in ("white", "gaussian"))
    np.testing.assert_array_equal(white.inputs, plain.inputs)
    assert np.ptp(np.linalg.eigvalsh(white.moments.operator)) > 1


def test_white_needs_enough_samples() -> None:
    with pytest.raises(TaskError, match=r"samples = 10 < 20; raise samples"):
        problem(Teacher(inputs="white", samples=10), MLP())


@pytest.mark.parametrize("condition", [1.0, 25.0])
def test_correlated_inputs_have_the_condition_number(condition: float) -> None:
    drawn = problem(Teacher(inputs="correlated", condition=condition, samples=200_000, test_samples=1), MLP(inputs=5))
    values = np.linalg.eigvalsh(drawn.moments.operator)
    assert values[-1] / values[0] == pytest.approx(condition, rel=0.03)
    assert values.mean() == pytest.approx(1, rel=0.02)


def test_label_noise_is_the_floor() -> None:
    noisy = problem(Teacher(label_noise=0.3, samples=4000), MLP())
    clean = problem(Teacher(samples=4000), MLP())
    np.testing.assert_array_equal(noisy.inputs, clean.inputs)
    assert noisy.moments.floor == pytest.approx(8 * 0.09, rel=0.03)
    assert (noisy.targets - clean.targets).std() == pytest.approx(0.3, rel=0.02)
    assert (noisy.test_targets - clean.test_targets).std() == pytest.approx(0.3, rel=0.05)


def test_degenerate_modes_are_told_apart_by_direction() -> None:
    drawn = problem(Teacher(strengths=(1, 1, 1)), MLP())
    np.testing.assert_allclose(drawn.modes.left.T @ drawn.modes.left, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(drawn.modes.strength(drawn.moments.optimum), np.ones(3))


@pytest.mark.parametrize("architecture", [MLP(), QueryKey(), MultiHead(), CNN(), MixtureOfExperts(outputs=2)], ids=lambda a: a.name)
def test_with_two_factors_a_negative_strength_is_a_reversed_direction(architecture: Architecture) -> None:
    task = Teacher(strengths=(1, -0.5))
    drawn = problem(task, architecture)
    assert (drawn.modes.target > 0).all()
    np.testing.assert_allclose(drawn.modes.strength(drawn.moments.optimum), np.ones(2), rtol=1e-9)
    assert task.warnings(architecture) == []


@pytest.mark.parametrize("architecture", [PhaseRetrieval(), Diagonal(inputs=4)], ids=lambda a: a.name)
def test_a_negative_mode_of_a_positive_model_is_announced(architecture: Architecture) -> None:
    task = Teacher(strengths=(1, -0.5, -0.25))
    (message,) = task.warnings(architecture)
    assert "modes [2, 3] are negative" in message
    assert "never learnt" in message
    assert Teacher().warnings(architecture) == []
    basis = problem(task, architecture).modes
    np.testing.assert_array_equal(np.sign(basis.target), [1, -1, -1])


def test_negative_entry_of_the_fourier_network_can_be_learnt() -> None:
    task = Teacher(strengths=(1, -0.5))
    assert task.warnings(FourierMLP(width=4)) == []
    np.testing.assert_array_equal(problem(task, FourierMLP(width=4)).modes.target, [1, -0.5])


def test_mixture_teacher_is_symmetric_where_only_that_shows() -> None:
    drawn = problem(Teacher(strengths=STRENGTHS), MixtureOfExperts(inputs=5, outputs=3))
    for block in drawn.moments.optimum.reshape(3, 5, 5):
        np.testing.assert_allclose(block, block.T, atol=1e-9)
    np.testing.assert_allclose(np.linalg.svd(drawn.moments.optimum, compute_uv=False)[:2], STRENGTHS, rtol=1e-9)


def test_query_key_modes_lie_where_the_readouts_look() -> None:
    architecture = QueryKey()
    drawn = problem(Teacher(samples=4_000, test_samples=1), architecture)
    inside = architecture.readouts @ drawn.modes.left
    np.testing.assert_allclose((inside**2).sum(0), np.ones(4), atol=0.05)


def test_more_modes_than_rank_are_refused() -> None:
    with pytest.raises(TaskError, match=r"4 modes do not fit into mlp.* rank 2 at most; give at most 2 strengths"):
        Teacher().check(MLP(outputs=2))
    with pytest.raises(TaskError, match="give at most 3 strengths"):
        problem(Teacher(), PhaseRetrieval(inputs=3))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"strengths": (1, 0)}, "different from 0"),
        ({"strengths": ()}, "at least 1 item"),
        ({"strengths": (1, float("nan"))}, "finite"),
        ({"samples": 0}, "greater than or equal to 1"),
        ({"condition": 0.5}, "greater than or equal to 1"),
        ({"label_noise": -1}, "greater than or equal to 0"),
        ({"inputs": "withe"}, "'white'"),
        ({"sample": 3}, "sample"),
    ],
)
def test_impossible_teachers_are_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Teacher(**wrong)
