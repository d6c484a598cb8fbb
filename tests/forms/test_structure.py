"""The closed-form structure of every architecture against its own Taylor expansion, and the algebra of the linear map."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.structure import (
    BilinearStructure,
    DiagonalStructure,
    GatedStructure,
    LinearStructure,
    PairStructure,
    ProductStructure,
    SensingStructure,
    Structure,
    SymmetricSensingStructure,
    SymmetricStructure,
)
from nqf_pipeline.forms.taylor import quadratic_form
from nqf_pipeline.models import (
    CNN,
    MLP,
    Architecture,
    Augmentation,
    BilinearSequence,
    Diagonal,
    DiagonalProduct,
    FourierMLP,
    MatrixCompletion,
    MatrixSensing,
    MixtureOfExperts,
    MultiHead,
    PhaseRetrieval,
    PSDSensing,
    QueryKey,
    SingleHead,
    TiedAttention,
    WordContext,
)

SAMPLES = 9
size = partial(st.integers, 1)
smooth = st.sampled_from(["tanh", "sin", "erf", "silu", "gelu", "linear"])
images = st.tuples(size(4), size(4)).flatmap(lambda k: st.tuples(st.tuples(st.integers(k[0], 5), st.integers(k[1], 5)), st.just(k)))
architectures = st.one_of(
    st.builds(MLP, width=size(5), inputs=size(5), outputs=size(3), activation=smooth),
    images.flatmap(lambda s: st.builds(CNN, width=size(4), image=st.just(s[0]), kernel=st.just(s[1]), outputs=size(3), activation=smooth)),
    st.builds(QueryKey, width=size(3), dimension=size(4), key_size=size(3), tokens=st.integers(2, 4), outputs=size(5)),
    st.builds(MultiHead, width=size(3), dimension=size(4), key_size=size(3), value_size=size(3), tokens=size(4), outputs=size(3)),
    st.builds(MixtureOfExperts, width=size(4), inputs=size(4), outputs=size(3), activation=smooth),
    st.builds(PhaseRetrieval, width=size(4), inputs=size(5)),
    st.builds(Diagonal, width=size(3), inputs=size(6), start=st.just("gaussian")),
    st.builds(FourierMLP, width=size(6), activation=smooth),
    st.builds(SingleHead, width=size(3), dimension=size(4), tokens=st.integers(2, 4), outputs=size(5)),
    st.builds(DiagonalProduct, width=size(3), inputs=size(6)),
    st.builds(PSDSensing, width=size(4), rows=size(5)),
    st.builds(MatrixSensing, width=size(4), rows=size(4), columns=size(5)),
    st.sampled_from([MatrixCompletion, WordContext, BilinearSequence]).flatmap(
        lambda cls: st.builds(cls, width=size(4), rows=size(4), columns=size(5))
    ),
    st.builds(TiedAttention, width=size(4), inputs=size(5)),
    st.builds(Augmentation, width=size(4), inputs=size(5)),
)


def drawn(a: Architecture, seed: int) -> tuple[np.ndarray, np.ndarray, Structure]:
    """Random weights of order one, inputs and the structure at them."""
    rng = np.random.default_rng(seed)
    inputs = a.draw_inputs(rng, SAMPLES)
    return a.initial(rng), inputs, a.structure(inputs)


@pytest.fixture
def case(architecture: Architecture) -> tuple[Architecture, np.ndarray, Structure, np.ndarray]:
    """(architecture, weights, structure, targets): targets no quadratic form of this module would give."""
    weights, _, structure = drawn(architecture, 1)
    return architecture, weights, structure, np.random.default_rng(2).standard_normal(structure.offset.shape)


def sample_loss(structure: Structure, order: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return ((structure.offset + structure.apply(order) - targets) ** 2).sum() / structure.samples


def test_closed_form_is_the_taylor_twin(architecture: Architecture) -> None:
    """Every kind once."""
    assert_taylor_twin(architecture, 0)


@settings(max_examples=10)
@given(a=architectures, seed=st.integers(0, 99))
def test_closed_form_is_the_taylor_twin_at_any_shape(a: Architecture, seed: int) -> None:
    assert_taylor_twin(a, seed)


def assert_taylor_twin(a: Architecture, seed: int) -> None:
    weights, inputs, structure = drawn(a, seed)
    closed = structure.offset + structure.apply(a.order(weights))
    expanded = np.asarray(jax.jit(quadratic_form(a.network))(weights, a.encode(inputs)))
    assert expanded.shape == (a.output_size, SAMPLES)
    assert np.abs(closed - expanded).max() <= 1e-12 * np.abs(expanded).max()


@given(a=architectures, seed=st.integers(0, 99))
def test_adjoint(a: Architecture, seed: int) -> None:
    weights, _, structure = drawn(a, seed)
    order = a.order(weights)
    residual = np.random.default_rng(seed).standard_normal(structure.offset.shape)
    gradient = structure.adjoint(residual)
    assert gradient.shape == order.shape
    scale = np.linalg.norm(gradient) * np.linalg.norm(order)
    assert (residual * structure.apply(order)).sum() == pytest.approx((gradient * order).sum(), abs=1e-12 * scale)


@given(a=architectures, seed=st.integers(0, 99))
def test_second_moment_is_the_mean_square_output(a: Architecture, seed: int) -> None:
    weights, _, structure = drawn(a, seed)
    moments = structure.moments(structure.offset)
    order = np.random.default_rng(seed).standard_normal(a.order(weights).shape)
    expected = (structure.apply(order) ** 2).sum() / SAMPLES
    assert (order * moments.act(order)).sum() == pytest.approx(expected, rel=1e-11)
    np.testing.assert_allclose(moments.act(order), structure.adjoint(structure.apply(order)) / SAMPLES, rtol=1e-9, atol=1e-10 * expected)


def test_moments_give_the_loss_through_samples(case: tuple[Architecture, np.ndarray, Structure, np.ndarray]) -> None:
    a, weights, structure, targets = case
    order = a.order(weights)
    assert structure.moments(targets).loss(order) == pytest.approx(sample_loss(structure, order, targets), rel=1e-11)


def test_moments_give_the_gradient_through_samples(case: tuple[Architecture, np.ndarray, Structure, np.ndarray]) -> None:
    a, weights, structure, targets = case
    moments = structure.moments(targets)
    by_moments = jax.jit(jax.grad(lambda w: moments.loss(a.order(w))))(weights)
    by_samples = jax.jit(jax.grad(lambda w: sample_loss(structure, a.order(w), targets)))(weights)
    np.testing.assert_allclose(by_moments, by_samples, rtol=1e-9, atol=1e-11 * np.abs(by_samples).max())


def test_optimum_is_the_least_squares_fit(case: tuple[Architecture, np.ndarray, Structure, np.ndarray]) -> None:
    a, weights, structure, targets = case
    shape = a.order(weights).shape
    units = np.eye(int(np.prod(shape))).reshape(-1, *shape)
    design = np.stack([structure.apply(unit).ravel() for unit in units], axis=1)
    fit, *_ = np.linalg.lstsq(design, (targets - structure.offset).ravel(), rcond=1e-9)
    moments = structure.moments(targets)
    assert moments.floor == pytest.approx(sample_loss(structure, fit.reshape(shape), targets), rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(moments.optimum, fit.reshape(shape), rtol=1e-6, atol=1e-7 * np.abs(fit).max())


def test_a_representable_target_has_no_floor(case: tuple[Architecture, np.ndarray, Structure, np.ndarray]) -> None:
    a, weights, structure, _ = case
    reachable = structure.offset + structure.apply(a.order(weights))
    moments = structure.moments(reachable)
    assert 0 <= moments.floor <= 1e-12 * moments.loss(0 * moments.optimum)


def test_take_is_the_structure_of_the_minibatch(architecture: Architecture) -> None:
    weights, inputs, structure = drawn(architecture, 3)
    index = np.array([4, 0, 4])
    batch, alone = structure.take(index), architecture.structure(inputs[..., index])
    assert batch.samples == 3
    for field in fields(batch):
        np.testing.assert_allclose(getattr(batch, field.name), getattr(alone, field.name), rtol=1e-12, atol=1e-14)
    assert type(batch) is type(structure)
    whole = structure.apply(architecture.order(weights))
    np.testing.assert_allclose(batch.apply(architecture.order(weights)), whole[:, index], rtol=1e-12)


def test_works_on_jax_arrays_in_single_precision(case: tuple[Architecture, np.ndarray, Structure, np.ndarray]) -> None:
    a, weights, structure, targets = case
    single = {f.name: jnp.asarray(getattr(structure, f.name), dtype=jnp.float32) for f in fields(structure)}

    @jax.jit
    def run(arrays: dict[str, jax.Array], w: jax.Array, residual: jax.Array) -> tuple[jax.Array, jax.Array]:
        traced = replace(structure, **arrays)
        return traced.apply(a.order(w)), traced.adjoint(residual)

    applied, adjoint = run(single, jnp.asarray(weights, dtype=jnp.float32), jnp.asarray(targets, dtype=jnp.float32))
    assert applied.dtype == adjoint.dtype == jnp.float32
    np.testing.assert_allclose(applied, structure.apply(a.order(weights)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(adjoint, structure.adjoint(targets), rtol=1e-4, atol=1e-4)


def test_each_architecture_has_its_kind_of_structure() -> None:
    expected: dict[type[Architecture], type[Structure]] = {
        MLP: LinearStructure,
        CNN: LinearStructure,
        MultiHead: LinearStructure,
        QueryKey: BilinearStructure,
        MixtureOfExperts: GatedStructure,
        PhaseRetrieval: SymmetricStructure,
        Diagonal: DiagonalStructure,
        FourierMLP: DiagonalStructure,
        SingleHead: BilinearStructure,
        DiagonalProduct: DiagonalStructure,
        PSDSensing: SymmetricSensingStructure,
        MatrixSensing: SensingStructure,
        MatrixCompletion: ProductStructure,
        WordContext: ProductStructure,
        BilinearSequence: ProductStructure,
        TiedAttention: PairStructure,
        Augmentation: SymmetricStructure,
    }
    for cls, kind in expected.items():
        a = cls(inputs=5) if cls is Diagonal else cls()
        assert isinstance(a.structure(np.ones((*a.input_shape, 2))), kind)


@pytest.mark.parametrize("orthogonal", ["one_hot", "sampled"])
def test_orthogonal_features_have_a_diagonal_operator(orthogonal: str) -> None:
    rng = np.random.default_rng(0)
    coefficients = np.diag(rng.standard_normal(6)) if orthogonal == "one_hot" else np.linalg.qr(rng.standard_normal((6, 6)))[0]
    structure = DiagonalStructure(np.zeros((1, 6)), coefficients)
    kind, operator = structure.second_moment()
    assert kind == "diagonal"
    np.testing.assert_allclose(operator, np.diag(coefficients @ coefficients.T) / 6, rtol=1e-14)


def test_overlapping_features_have_a_dense_operator() -> None:
    coefficients = np.random.default_rng(0).standard_normal((4, 6))
    assert DiagonalStructure(np.zeros((1, 6)), coefficients).second_moment()[0] == "dense"


def test_a_feature_without_data_stays_at_zero() -> None:
    structure = DiagonalStructure(np.zeros((1, 2)), np.diag([1.0, 0.0]))
    np.testing.assert_array_equal(structure.moments(np.array([[3.0, 5.0]])).optimum, [3.0, 0.0])


def test_a_second_moment_beyond_memory_is_refused() -> None:
    structure = PhaseRetrieval(inputs=784).structure(np.ones((784, 2)))
    with pytest.raises(InputError, match=r"614656 x 614656 .*reduce the input dimension"):
        structure.moments(np.ones((1, 2)))
