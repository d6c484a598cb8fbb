"""The hand-written gradients of the NumPy peers against finite differences, alone and stacked."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.numpy_peers import GRADIENTS, prepare

SAMPLES, STACKED = 7, 3
SHAPES = {
    "mlp": {"inputs": (SAMPLES, 4), "hidden": (4, 5), "readout": (5, 2)},
    "cnn": {"inputs": (SAMPLES, 1, 4, 3), "kernels": (5, 1, 2, 3), "readout": (5, 2)},
    "multi_head": {"inputs": (SAMPLES, 3, 4), "queries": (2, 4, 3), "keys": (2, 4, 3), "values": (2, 4, 5), "readout": (2, 5, 2)},
}


def draw(kind: str) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {**SHAPES[kind], "targets": (SAMPLES, 2)}
    return prepare(kind, {name: rng.standard_normal((STACKED, *shape)) for name, shape in shapes.items()})


@pytest.mark.parametrize("kind", GRADIENTS)
def test_gradients_are_those_of_the_loss(kind: str) -> None:
    parameters, inputs, targets = draw(kind)
    gradients, _ = GRADIENTS[kind](parameters, inputs, targets)

    def loss(shifted: dict[str, np.ndarray]) -> np.ndarray:
        return (GRADIENTS[kind](shifted, inputs, targets)[1] ** 2).sum((-2, -1)) / SAMPLES

    rng, step = np.random.default_rng(1), 1e-6
    for name, values in parameters.items():
        direction = rng.standard_normal(values.shape)
        ends = [loss({**parameters, name: values + sign * step * direction}) for sign in (1, -1)]
        slope = (gradients[name] * direction).reshape(STACKED, -1).sum(-1)
        # The peers are float32 programs: the factor 2 / samples is rounded to it.
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", GRADIENTS)
def test_stacked_networks_are_those_alone(kind: str) -> None:
    parameters, inputs, targets = draw(kind)
    together, residual = GRADIENTS[kind](parameters, inputs, targets)
    for i in range(STACKED):
        alone, own = GRADIENTS[kind]({name: values[i] for name, values in parameters.items()}, inputs[i], targets[i])
        np.testing.assert_allclose(residual[i], own, rtol=1e-12)
        for name in parameters:
            np.testing.assert_allclose(together[name][i], alone[name], rtol=1e-10, atol=1e-12)
