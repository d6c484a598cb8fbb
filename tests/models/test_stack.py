"""Layers on top of each other: network, deep twin and shallow twin from one definition of a block."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nqf_pipeline.forms.taylor import quadratic_form
from nqf_pipeline.models import MLP, DeepAttention, DeepMLP
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.tasks import Digits, Teacher, TeacherNetwork
from nqf_pipeline.tasks.base import TaskError

STACKS = (
    DeepMLP(inputs=3, between=4, outputs=2, width=5),
    DeepMLP(inputs=3, between=4, outputs=2, width=5, layers=3),
    DeepAttention(dimension=3, key_size=2, value_size=4, tokens=5, outputs=2, width=2),
    DeepAttention(dimension=3, key_size=2, value_size=4, tokens=5, outputs=2, width=2, layers=3),
)
SAMPLES = 7


@pytest.fixture(params=STACKS, ids=lambda stack: f"{stack.name}_{stack.layers}")
def stack(request):
    return request.param


def softmax(scores):
    return np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()


def by_hand(a, weights, x):
    """One input, in plain loops over layers, heads and tokens."""
    if isinstance(a, DeepMLP):
        rows = iter(np.split(weights, np.cumsum([size for block in a.blocks for size in (block.inputs, block.outputs)])[:-1]))
        for level, (first, second) in enumerate(zip(rows, rows, strict=True)):
            x = np.tanh(x) if level else x
            x = second @ np.tanh(first.T @ x)
        return x
    row = 0
    for level in range(a.layers):
        outputs = a.outputs if level == a.layers - 1 else a.dimension
        asking = [a.tokens - 1] if level == a.layers - 1 else range(a.tokens)
        new = np.zeros((outputs, len(asking)))
        sizes = [(a.dimension, a.value_size), (outputs, a.value_size), (a.dimension, a.key_size), (a.dimension, a.key_size)]
        count = sum(np.prod(size) for size in sizes)
        for head in weights[row : row + count].T:
            parts = np.split(head, np.cumsum([np.prod(size) for size in sizes])[:-1])
            values, readout, keys, queries = (part.reshape(size) for part, size in zip(parts, sizes, strict=True))
            for place, n in enumerate(asking):
                scores = np.array([(keys.T @ x[:, m]) @ (queries.T @ x[:, n]) for m in range(a.tokens)]) / np.sqrt(a.key_size)
                new[:, place] += readout @ values.T @ x @ softmax(scores)
        x, row = new, row + count
    return x[:, 0]


def test_the_network_is_its_layers_one_after_another(stack, rng):
    weights, inputs = stack.initial(rng), stack.draw_inputs(rng, SAMPLES)
    assert weights.shape == (stack.unit_size, stack.width)
    expected = np.array([by_hand(stack, weights, inputs[..., m]) for m in range(SAMPLES)]).T
    np.testing.assert_allclose(stack.apply(weights, inputs), expected, rtol=1e-12, atol=1e-12)


def test_the_deep_twin_is_the_expansion_of_every_block(stack, rng):
    weights, inputs = stack.initial(rng), stack.draw_inputs(rng, SAMPLES)
    structure = stack.structure(inputs)
    closed = structure.offset + structure.apply(stack.order(weights))
    np.testing.assert_allclose(closed, stack.expanded(weights, inputs), rtol=1e-12, atol=1e-12)
    assert not np.allclose(closed, stack.apply(weights, inputs), rtol=0.01)
    parts, x = stack.parts(weights), inputs
    for level, (block, part) in enumerate(zip(stack.blocks, parts, strict=True)):
        x = quadratic_form(block.apply)(part, stack.handed(x) if level else x)
    np.testing.assert_allclose(closed, x, rtol=1e-12, atol=1e-12)


def test_the_shallow_twin_is_one_block_between_the_ends(stack, rng):
    shallow = stack.model_copy(update={"twin_depth": "shallow"})
    weights, inputs = stack.initial(rng), stack.draw_inputs(rng, SAMPLES)
    np.testing.assert_array_equal(shallow.apply(weights, inputs), stack.apply(weights, inputs))
    structure = shallow.structure(inputs)
    (order,) = shallow.order(weights)
    single = stack.single.structure(inputs)
    np.testing.assert_allclose(structure.apply((order,)), single.apply(order), rtol=1e-12)
    bottom, top = stack.parts(weights)[0], stack.parts(weights)[-1]
    np.testing.assert_allclose(order, stack.blocks[0].factors(bottom)[0] @ stack.blocks[-1].factors(top)[1].T, rtol=1e-12)


def test_the_whole_map_has_no_quadratic_form(stack, rng):
    weights, inputs = stack.initial(rng), stack.draw_inputs(rng, SAMPLES)
    assert np.abs(quadratic_form(stack.network)(weights, inputs)).max() < 1e-12


def test_small_weights_leave_the_deep_twin_alone(stack, rng):
    """Relative distance of network and deep twin falls as the square of the weights' scale (the blocks are even)."""
    weights, inputs = stack.initial(rng), stack.draw_inputs(rng, SAMPLES)
    structure, gaps = stack.structure(inputs), []
    for scale in (0.02, 0.01):
        twin = structure.apply(stack.order(scale * weights))
        gaps.append(np.abs(stack.apply(scale * weights, inputs) - twin).max() / np.abs(twin).max())
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.1)


def test_single_precision_stays_single(stack, rng):
    weights, inputs = (jnp.asarray(a, jnp.float32) for a in (stack.initial(rng), stack.draw_inputs(rng, SAMPLES)))
    structure = stack.structure(inputs)
    assert jax.jit(stack.network)(weights, inputs).dtype == jnp.float32
    assert jax.jit(lambda w: structure.apply(stack.order(w)))(weights).dtype == jnp.float32


def test_twins_of_one_network_start_alike_on_the_same_data():
    cells = [
        Cell(architecture=DeepMLP(twin_depth=twin), task=TeacherNetwork(), optimizer={"kind": "gd"}, sigma=0.1, steps=300)
        for twin in ("deep", "shallow")
    ]
    assert cells[0].id != cells[1].id
    assert cells[0].data_id == cells[1].data_id
    draws = [cell.architecture.initial(cell.stream("init")) for cell in cells]
    np.testing.assert_array_equal(*draws)


def test_tasks_that_know_one_quadratic_form_refuse_several():
    with pytest.raises(TaskError, match="use task teacher_network"):
        Teacher().check(DeepMLP())
    problem = Digits(samples=50).problem(DeepMLP(inputs=64), np.random.default_rng(0))
    assert np.isnan(problem.moments.floor)
    assert problem.modes.target == pytest.approx(np.sqrt(np.mean(problem.targets**2)))


def test_blocks_of_the_paper():
    assert [(b.inputs, b.width, b.outputs) for b in DeepMLP().blocks] == [(8, 16, 16), (16, 16, 1)]
    assert DeepMLP().single == MLP(inputs=8, width=16, outputs=1)
