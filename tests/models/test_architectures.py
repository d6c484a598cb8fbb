"""Networks against plain loops over units and samples, and the properties that the theory asks of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from nqf_pipeline.models import (
    ARCHITECTURES,
    CNN,
    MLP,
    AnyArchitecture,
    Architecture,
    Augmentation,
    BilinearSequence,
    Custom,
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

SAMPLES = 7


def mlp(a: MLP, unit: np.ndarray, x: np.ndarray) -> np.ndarray:
    return unit[a.inputs :] * np.tanh(unit[: a.inputs] @ x)


def cnn(a: CNN, unit: np.ndarray, image: np.ndarray) -> np.ndarray:
    rows, columns = a.kernel
    kernel, readout = unit[: rows * columns].reshape(a.kernel), unit[rows * columns :]
    total = 0.0
    for r in range(a.image[0] - rows + 1):
        for c in range(a.image[1] - columns + 1):
            total += np.tanh((kernel * image[r : r + rows, c : c + columns]).sum())
    return readout * total


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores) / np.exp(scores).sum()


def query_key(a: QueryKey, unit: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    keys, queries = (half.reshape(a.dimension, a.key_size).T for half in np.split(unit, 2))
    scores = [(keys @ tokens[:, n]) @ (queries @ tokens[:, -1]) / np.sqrt(a.key_size) for n in range(a.tokens)]
    return a.readouts @ tokens @ softmax(np.array(scores))


def multi_head(a: MultiHead, unit: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    shapes = [(a.dimension, a.value_size), (a.outputs, a.value_size), (a.dimension, a.key_size), (a.dimension, a.key_size)]
    parts = np.split(unit, np.cumsum([np.prod(s) for s in shapes])[:-1])
    values, readout, keys, queries = (part.reshape(s) for part, s in zip(parts, shapes, strict=True))
    scores = [(keys.T @ tokens[:, n]) @ (queries.T @ tokens[:, -1]) / np.sqrt(a.key_size) for n in range(a.tokens)]
    return readout @ values.T @ tokens @ softmax(np.array(scores))


def mixture_of_experts(a: MixtureOfExperts, unit: np.ndarray, x: np.ndarray) -> np.ndarray:
    router, expert = unit[: a.inputs], unit[a.inputs :].reshape(a.outputs, a.inputs)
    return np.tanh(router @ x) * (expert @ x)


def phase_retrieval(a: PhaseRetrieval, unit: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.array([(unit @ x) ** 2])


def diagonal(a: Diagonal, unit: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.array([(x * unit**2 / 4).sum()])


def diagonal_product(a: DiagonalProduct, unit: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.array([unit[: a.inputs] @ np.diag(x) @ unit[a.inputs :]])


def psd_sensing(a: PSDSensing, unit: np.ndarray, sensing: np.ndarray) -> np.ndarray:
    return np.array([np.trace(sensing.T @ np.outer(unit, unit))])


def matrix_sensing(a: MatrixSensing, unit: np.ndarray, sensing: np.ndarray) -> np.ndarray:
    return np.array([np.trace(sensing.T @ np.outer(unit[: a.rows], unit[a.rows :]))])


def entry(a: MatrixCompletion | WordContext, unit: np.ndarray, x: np.ndarray) -> np.ndarray:
    (row,), (column,) = np.flatnonzero(x[: a.rows]), np.flatnonzero(x[a.rows :])
    return np.array([unit[row] * unit[a.rows + column]])


def tied_attention(a: TiedAttention, unit: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    return np.array([(unit @ tokens[:, 0]) * (unit @ tokens[:, 1]) / np.sqrt(a.width)])


def bilinear_sequence(a: BilinearSequence, unit: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.array([(x[: a.rows] @ unit[: a.rows]) * (unit[a.rows :] @ x[a.rows :])])


def augmentation(a: Augmentation, unit: np.ndarray, views: np.ndarray) -> np.ndarray:
    return np.array([(unit @ views[:, 0] - unit @ views[:, 1]) ** 2])


def custom(a: Custom, unit: np.ndarray, x: np.ndarray) -> np.ndarray:
    return unit[4:6] * np.tanh(unit[:4] @ x) * (1 + unit[6] ** 2)


UNITS = {
    **{f.__name__: f for f in (mlp, cnn, query_key, multi_head, mixture_of_experts, phase_retrieval, diagonal, diagonal_product)},
    **{f.__name__: f for f in (custom, psd_sensing, matrix_sensing, tied_attention, bilinear_sequence, augmentation)},
    "matrix_completion": entry,
    "word_context": entry,
}


def single_head(a: SingleHead, weights: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    keys, queries = weights[: a.dimension].T, weights[a.dimension :].T
    scores = [(keys @ tokens[:, n]) @ (queries @ tokens[:, -1]) / np.sqrt(a.width) for n in range(a.tokens)]
    return a.readouts @ tokens @ softmax(np.array(scores))


def by_loops(a: Architecture, weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    samples = range(inputs.shape[-1])
    if isinstance(a, FourierMLP):
        inner, outer = weights
        return np.array([[sum(outer * np.tanh(inner * inputs[:, m])) / np.sqrt(a.width) for m in samples]])
    if isinstance(a, SingleHead):
        return np.array([single_head(a, weights, inputs[..., m]) for m in samples]).T
    return np.array([sum(UNITS[a.name](a, unit, inputs[..., m]) for unit in weights.T) for m in samples]).T


def drawn(a: Architecture, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return a.initial(rng), a.draw_inputs(rng, SAMPLES)


def test_network_is_what_its_units_make(architecture: Architecture, rng: np.random.Generator) -> None:
    weights, inputs = drawn(architecture, rng)
    expected = by_loops(architecture, weights, inputs)
    assert expected.shape == (architecture.output_size, SAMPLES)
    np.testing.assert_allclose(architecture.apply(weights, inputs), expected, rtol=1e-12, atol=1e-12)


def test_units_may_be_permuted_exactly_where_declared(architecture: Architecture, rng: np.random.Generator) -> None:
    weights, inputs = drawn(architecture, rng)
    permuted = architecture.apply(weights[:, ::-1], inputs)
    alike = np.allclose(permuted, architecture.apply(weights, inputs), rtol=1e-12, atol=1e-12)
    assert alike == architecture.exchangeable


def test_zero_weights_give_the_offset_and_no_gradient(architecture: Architecture, rng: np.random.Generator) -> None:
    weights, inputs = drawn(architecture, rng)
    origin = jnp.zeros_like(weights)
    np.testing.assert_allclose(architecture.apply(origin, inputs), architecture.structure(inputs).offset, atol=1e-14)
    probe = rng.standard_normal((architecture.output_size, SAMPLES))
    assert not np.asarray(jax.jit(jax.grad(lambda w: (probe * architecture.apply(w, inputs)).sum()))(origin)).any()


def test_exactly_quadratic_only_where_declared(architecture: Architecture, rng: np.random.Generator) -> None:
    weights, inputs = drawn(architecture, rng)
    structure = architecture.structure(inputs)
    twin = structure.offset + structure.apply(architecture.order(weights))
    assert np.allclose(architecture.apply(weights, inputs), twin, rtol=1e-12, atol=1e-12) == architecture.exactly_quadratic


def test_lanes_do_not_mix(architecture: Architecture, rng: np.random.Generator) -> None:
    inputs = drawn(architecture, rng)[1]
    encoded = architecture.encode(inputs)
    assert isinstance(encoded, np.ndarray)
    lanes = np.stack([architecture.initial(rng) for _ in range(3)])
    together = jax.jit(jax.vmap(architecture.network, in_axes=(0, None)))(lanes, encoded)
    alone = jax.jit(architecture.network)
    for lane, result in zip(lanes, together, strict=True):
        np.testing.assert_allclose(result, alone(lane, encoded), rtol=1e-12, atol=1e-12)


def test_single_precision_stays_single(architecture: Architecture, rng: np.random.Generator) -> None:
    weights, inputs = drawn(architecture, rng)
    encoded = architecture.encode(inputs)
    network = jax.jit(architecture.network)
    result = network(jnp.asarray(weights, dtype=jnp.float32), jnp.asarray(encoded, dtype=jnp.float32))
    assert result.dtype == jnp.float32
    assert architecture.encode(inputs.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(result, network(weights, encoded), rtol=2e-4, atol=2e-5)


def test_factors_have_one_column_for_each_degree_of_freedom(architecture: Architecture, rng: np.random.Generator) -> None:
    factors = architecture.factors(architecture.initial(rng))
    assert len(factors) == (1 if architecture.positive else 2)
    assert {factor.shape[1] for factor in factors} == {architecture.degrees}


def test_initial_weights_depend_on_the_stream_alone(architecture: Architecture) -> None:
    first, again, other = (architecture.initial(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.shape == (architecture.unit_size, architecture.width)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_sizes_of_the_paper() -> None:
    assert MultiHead().unit_size == 880
    assert MultiHead().degrees == 80
    assert QueryKey().unit_size == 320
    assert QueryKey().degrees == 32
    assert CNN().encode(np.zeros((5, 7, 3))).shape == (20, 6, 3)
    assert FourierMLP().degrees == 1


def test_readouts_are_orthonormal_and_never_change() -> None:
    readouts = QueryKey(dimension=6, outputs=4).readouts
    np.testing.assert_allclose(readouts @ readouts.T, np.eye(4), atol=1e-14)
    np.testing.assert_array_equal(readouts, QueryKey(dimension=6, outputs=4, width=9).readouts)
    more = QueryKey(dimension=3, outputs=5).readouts
    assert more.shape == (5, 3)
    np.testing.assert_allclose(more[:3] @ more[:3].T, np.eye(3), atol=1e-14)


def test_signs_start_has_the_same_order_parameter_for_every_seed() -> None:
    network = Diagonal(inputs=50, width=3)
    draws = [network.initial(np.random.default_rng(seed)) for seed in (0, 1)]
    assert (draws[0] != draws[1]).any()
    for draw in draws:
        np.testing.assert_array_equal(network.order(draw), np.full(50, network.degrees))
    assert not network.gaussian_start
    assert Diagonal(start="gaussian").gaussian_start


def test_completion_is_sensing_with_one_hot_matrices(rng: np.random.Generator) -> None:
    """One structure at different inputs: S = e_i e_j^T, and a b^T for any bilinear model."""
    sensing = MatrixSensing(rows=4, columns=3, width=2)
    for a in (
        MatrixCompletion(rows=4, columns=3, width=2),
        WordContext(rows=4, columns=3, width=2),
        BilinearSequence(rows=4, columns=3, width=2),
    ):
        weights, inputs = drawn(a, rng)
        matrices = np.einsum("im,jm->ijm", inputs[:4], inputs[4:])
        np.testing.assert_allclose(a.apply(weights, inputs), sensing.apply(weights, matrices), atol=1e-14)
        assert a.structure(inputs).second_moment()[1] == pytest.approx(sensing.structure(matrices).second_moment()[1])


def test_words_occur_by_zipfs_law() -> None:
    a = WordContext(rows=3, columns=2, zipf=1.0)
    often = a.draw_inputs(np.random.default_rng(0), 60_000).mean(1)
    np.testing.assert_allclose(often, [6 / 11, 3 / 11, 2 / 11, 2 / 3, 1 / 3], atol=0.01)


def test_a_single_head_is_one_head_of_query_key_attention(rng: np.random.Generator) -> None:
    rows, head = SingleHead(dimension=4, width=3, tokens=5, outputs=2), QueryKey(dimension=4, key_size=3, width=1, tokens=5, outputs=2)
    weights, inputs = drawn(rows, rng)
    np.testing.assert_allclose(rows.apply(weights, inputs), head.apply(weights.reshape(-1, 1), inputs), rtol=1e-12)


def test_registry_is_the_union() -> None:
    adapter = TypeAdapter(AnyArchitecture)
    for kind, cls in ARCHITECTURES.items():
        needed = {"path": "own.py:block", "unit_size": 5, "inputs": 4} if cls is Custom else {}
        assert type(adapter.validate_python({"kind": kind, **needed})) is cls
    assert list(ARCHITECTURES) == [
        "mlp", "cnn", "query_key", "multi_head", "mixture_of_experts", "phase_retrieval", "diagonal", "fourier_mlp",
        "single_head", "diagonal_product", "psd_sensing", "matrix_sensing", "matrix_completion", "word_context", "tied_attention",
        "bilinear_sequence", "augmentation", "deep_mlp", "deep_attention", "custom",
    ]  # fmt: skip


def test_every_field_is_described() -> None:
    for cls in ARCHITECTURES.values():
        for name, field in cls.model_fields.items():
            assert name == "kind" or field.description, (cls, name)


@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        ("cnn", {"kernel": (6, 2)}, "no valid position"),
        ("mlp", {"width": 0}, "greater than or equal to 1"),
        ("mlp", {"activation": "tahn"}, "'tanh'"),
        ("query_key", {"tokens": 1}, "greater than or equal to 2"),
        ("diagonal", {"widht": 1}, "widht"),
    ],
)
def test_impossible_architectures_are_refused(kind: str, wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        ARCHITECTURES[kind](**wrong)


@pytest.mark.parametrize("activation", ["relu", "softsign"])
def test_kinks_are_not_smooth(activation: str) -> None:
    assert not MLP(activation=activation).smooth
    assert not CNN(activation=activation).smooth
    assert MLP(activation="gelu").smooth
