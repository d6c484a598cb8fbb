"""Which order of the weights drives a loss drop: a cell's network is trained again, and the fall of its loss split (theory: Theorem 13).

Blocks are the rows of W that the quadratic form reads (for attention values and readouts) and all others (queries and keys), which enter
at higher order. A drop that the quadratic form does not account for is then attributed to an order and a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Int

from nqf_pipeline.dynamics.losses import LOSSES
from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.expansion import QUARTIC, Descent, descent, truncated_losses
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.draws import initial_weights, problem_of

Array = Any
BLOCKS = ("read", "other")
RECORDS = 60


def blocks_of(architecture: Architecture) -> tuple[Int[np.ndarray, "rows"], Int[np.ndarray, "others"]]:
    """Rows of W that enter at second order, and the others."""
    rows = np.arange(architecture.unit_size)
    labels = np.repeat(rows[:, None], architecture.width, axis=1)
    read = np.unique(np.concatenate([np.ravel(factor) for factor in architecture.factors(labels)]))
    return read, np.setdiff1d(rows, read)


def attribute(cell: Cell, steps: Sequence[int] | None = None) -> pd.DataFrame:
    """One row per step (default: 60 recorded ones): `step`, `loss`; `loss_to_n`, the loss of the expansion up to order n; `fall`, the
    squared gradient, and its shares `order_n_read` and `order_n_other`, which with `rest` sum to 1.

    Full-batch gradient descent and momentum, in double precision; the cost is that of the network's training, and some 50 steps a row.
    """
    if cell.optimizer.batch_size is not None or not cell.optimizer.in_linear_span:
        raise InputError(f"attribution follows full-batch gd and momentum, not {cell.optimizer.kind}; change the cell's optimizer")
    with jax.enable_x64(True):
        return _attribute(cell, _grid(cell) if steps is None else np.asarray(sorted(steps), int))


def _grid(cell: Cell) -> np.ndarray:
    return np.unique(np.linspace(0, cell.steps, RECORDS).round().astype(int))


def _attribute(cell: Cell, steps: np.ndarray) -> pd.DataFrame:
    architecture, problem, optimizer = cell.architecture, problem_of(cell), cell.optimizer
    encoded, targets = jnp.asarray(architecture.encode(problem.inputs)), jnp.asarray(problem.targets)

    def module(weights: Array) -> Array:
        return architecture.network(weights, encoded)

    def loss(outputs: Array) -> Array:
        return LOSSES[cell.task.loss_name](outputs, targets)

    def one_step(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        weights, memory = state
        gradient = jax.grad(lambda at: loss(module(at)))(weights)
        memory = optimizer.momentum * memory + gradient + optimizer.weight_decay * weights
        return weights - optimizer.learning_rate * memory, memory

    blocks = blocks_of(architecture)
    advance = jax.jit(lambda state, count: jax.lax.fori_loop(0, count, one_step, state))
    look = jax.jit(lambda at: (loss(module(at)), truncated_losses(module, loss, at), descent(module, loss, at, blocks)))
    start = jnp.asarray(initial_weights(cell))
    state, done, rows = (start, jnp.zeros_like(start)), 0, []
    for step in steps:
        state, done = advance(state, int(step) - done), int(step)
        value, truncated, falls = look(state[0])
        rows.append({"step": done, "loss": float(value), **_row(np.asarray(truncated), falls)})
    return pd.DataFrame(rows)


def _row(truncated: np.ndarray, falls: Descent) -> dict[str, float]:
    total = float(falls.total)
    shares = np.asarray(falls.rate) / total
    named = {f"order_{n}_{block}": float(shares[n - 1, b]) for n in range(1, QUARTIC + 1) for b, block in enumerate(BLOCKS)}
    losses = {f"loss_to_{n}": float(truncated[n]) for n in range(2, QUARTIC + 1)}
    return {**losses, "fall": total, **named, "rest": float(np.asarray(falls.remainder).sum()) / total}
