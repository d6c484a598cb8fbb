"""What limits a training step: its matrix products alone, then with the nonlinearity, on one core at the engine's shapes.

The products are those of forward pass and gradient in the formulation with the least arithmetic (the nonlinearity replaced by the identity,
softmax by a constant); weights move by a negligible step, or the compiler would move the products out of the loop. No update rule, no
twin, no records. Lanes are batched or run one after another, whichever is faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nqf_pipeline.models import CNN, MLP, MultiHead
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.draws import initial_weights, problem_of

Array = Any
STEPS = 50
TINY = 1e-7


def flop(architecture: Architecture, samples: int) -> int:
    """Arithmetic of one step in matrix products: forward pass and gradients of all weights."""
    match architecture:
        case MLP(inputs=inputs, outputs=outputs, width=width):
            return 2 * samples * width * (2 * inputs + 3 * outputs)
        case CNN(outputs=outputs, width=width):
            positions = int(np.prod([n - k + 1 for n, k in zip(architecture.image, architecture.kernel, strict=True)]))
            return 2 * samples * width * (2 * architecture.kernel_size * positions + 3 * outputs)
        case MultiHead(dimension=d, key_size=keys, value_size=values, tokens=tokens, outputs=outputs, width=heads):
            return 2 * heads * (samples * d * (5 * keys + 4 * tokens + 3 * outputs) + 3 * d * values * outputs)
    raise TypeError(f"no count for {architecture.name}")


def products(architecture: Architecture, weights: Array, encoded: Array) -> Array:
    """The network with an identity where its nonlinearity is: outputs (outputs, samples)."""
    import jax.numpy as jnp

    first, second = architecture.factors(weights)
    match architecture:
        case MLP():
            return second @ (first.T @ encoded)
        case CNN(width=width):
            response = first.T @ encoded.reshape(len(encoded), -1)
            return second @ response.reshape(width, *encoded.shape[1:]).sum(1)
        case MultiHead(dimension=d, key_size=keys, value_size=values, outputs=outputs, width=heads):
            pair = weights[-2 * d * keys :].reshape(2, d, keys, heads)
            asked = jnp.einsum("dkh,ds->hks", pair[1], encoded[:, -1])
            looked = jnp.einsum("dkh,hks->hds", pair[0], asked)
            scores = jnp.einsum("hds,dns->hns", looked, encoded)
            mixed = jnp.einsum("hns,dns->hds", scores, encoded)
            folded = jnp.einsum("ovh,dvh->ohd", second.reshape(outputs, values, heads), first.reshape(d, values, heads))
            return folded.reshape(outputs, -1) @ mixed.reshape(heads * d, -1)
    raise TypeError(f"no products for {architecture.name}")


def network(architecture: Architecture, weights: Array, encoded: Array) -> Array:
    """The network as it is."""
    return architecture.network(weights, encoded)


def climb(cells: Sequence[Cell], seconds: float) -> dict[str, float]:
    """Steps per second, over all lanes, of each rung; `flop` is the arithmetic of a step."""
    architecture = cells[0].architecture
    problems = [problem_of(cell) for cell in cells]
    stack = [
        np.stack(arrays).astype(np.float32) for arrays in zip(*(_arrays(c, p) for c, p in zip(cells, problems, strict=True)), strict=True)
    ]
    samples = stack[2].shape[-1]
    rungs: dict[str, Callable[..., Array]] = {"products": products, "nonlinear": network}
    return {name: _rate(architecture, forward, stack, seconds) for name, forward in rungs.items()} | {"flop": flop(architecture, samples)}


def _arrays(cell: Cell, problem: Any) -> tuple[Array, Array, Array]:
    return initial_weights(cell), cell.architecture.encode(problem.inputs), problem.targets


def _rate(architecture: Architecture, forward: Callable[..., Array], stack: list[Array], seconds: float) -> float:
    import jax

    def loss(weights: Array, encoded: Array, targets: Array) -> Array:
        return ((forward(architecture, weights, encoded) - targets) ** 2).sum() / targets.shape[-1]

    def lane(weights: Array, encoded: Array, targets: Array) -> Array:
        return jax.lax.fori_loop(0, STEPS, lambda _, w: w - TINY * jax.grad(loss)(w, encoded, targets), weights)

    ways = [jax.jit(jax.vmap(lane)), jax.jit(lambda *arrays: jax.lax.map(lambda one: lane(*one), arrays))]
    on_device = [jax.device_put(array) for array in stack]
    best = 0.0
    for way in ways:
        jax.block_until_ready(way(*on_device))
        deadline = time.perf_counter() + seconds / len(ways)
        while (start := time.perf_counter()) < deadline:
            jax.block_until_ready(way(*on_device))
            best = max(best, len(stack[0]) * STEPS / (time.perf_counter() - start))
    return best
