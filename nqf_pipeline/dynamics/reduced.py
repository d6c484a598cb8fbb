"""The closure in M for structures, many cells at once: all that training does to the quadratic form, without any weights.

A structure has g = B = 0, so mu never enters and v = 0 (theory: Theorem 2). With U = (H + lambda I) M a step of gradient descent is

    M <- M - eta (U + U^T) + eta^2 (H + lambda I) U^T,

and Polyak momentum follows P of W_t = P_t W_0 (Corollary 2). M is that of the stacked factors [Z1; Z2] and H = [[0, D], [D^T, 0]] with
D = dL/dG, so a product with H costs rows(Z1) rows(Z2) rows instead of rows^3; where G is a vector every entry has a 2 x 2 matrix of its
own. Squared error on the full batch reads second moments, everything else the structure at the samples. JAX, float64.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.dynamics import pytrees
from nqf_pipeline.dynamics.losses import LOSSES
from nqf_pipeline.dynamics.schedules import Schedule
from nqf_pipeline.dynamics.steps import batch_index
from nqf_pipeline.forms.losses import LossName
from nqf_pipeline.forms.modes import ModeBasis
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.forms.structure import Structure

Array = Any


class Reading(NamedTuple):
    """How G is read from M of the stacked factors."""

    split: int
    """Rows of Z1; 0 when there is one factor (G = M)."""
    rowwise: bool
    """G is a vector: M is kept row by row, (factors, factors, rows)."""

    @classmethod
    def of(cls, factors: tuple[Float[Array, "rows degrees"], ...], *, rowwise: bool) -> Reading:
        return cls(len(factors[0]) if len(factors) == 2 else 0, rowwise)

    def start(self, factors: tuple[Float[Array, "rows degrees"], ...]) -> Array:
        """M of initial factors."""
        if self.rowwise:
            return np.einsum("ird,jrd->ijr", np.stack(factors), np.stack(factors))
        rows = np.concatenate(factors)
        return rows @ rows.T

    def order(self, second: Array) -> Array:
        """G."""
        if self.rowwise:
            return second[0, -1]
        return second[: self.split, self.split :] if self.split else second

    def act(self, slope: Array, matrix: Array) -> Array:
        """H X for D = dL/dG."""
        if self.rowwise:
            return slope[None, None] * (matrix[::-1] if self.split else 2 * matrix)
        if self.split:
            return jnp.concatenate([slope @ matrix[self.split :], slope.T @ matrix[: self.split]])
        return (slope + slope.T) @ matrix

    def eye(self, second: Array) -> Array:
        """P at the start."""
        eye = jnp.eye(len(second), dtype=second.dtype)
        return jnp.broadcast_to(eye[..., None], second.shape) if self.rowwise else eye

    def carried(self, propagator: Array, start: Array) -> Array:
        """P M_0 P^T."""
        if self.rowwise:
            return jnp.einsum("ijr,jkr,lkr->ilr", propagator, start, propagator)
        return propagator @ start @ propagator.T


class March(NamedTuple):
    """What a compilation is for."""

    reading: Reading
    loss: LossName
    batch_size: int | None
    remembers: bool
    """Momentum: P and its momentum are carried instead of M."""
    shared_data: bool
    schedule: Schedule | None = None
    """None where every step takes the whole learning rate."""


class Seen(NamedTuple):
    """What a lane knows of its problem."""

    structure: Structure | None
    """None where second moments suffice."""
    targets: Float[Array, "outputs samples"]
    moments: Moments
    modes: ModeBasis


class Numbers(NamedTuple):
    """Traced optimizer numbers."""

    learning_rate: Array
    momentum: Array
    weight_decay: Array


class Path(NamedTuple):
    """What a closure predicts at the recorded steps."""

    strength: Float[np.ndarray, "lanes records modes"]
    loss: Float[np.ndarray, "lanes records"]


def march(
    program: March,
    data: Seen,
    start: Float[Array, "lanes ..."],
    numbers: Numbers,
    batch_seed: Int[Array, "lanes"],
    steps: Int[Array, "records"],
) -> Path:
    """Strengths and loss of every lane at the recorded steps, increasing from 0.

    A lane axis leads everything but the steps, and the data where `shared_data`. Batches are those that training draws from these seeds.
    """
    with jax.enable_x64(True):
        data, start, numbers = jax.tree.map(jnp.asarray, pytrees.cast((data, start, numbers), "float64"))
        keys = jax.vmap(jax.random.key)(jnp.asarray(batch_seed))
        return Path(*map(np.asarray, _march(program, data, start, numbers, keys, jnp.asarray(steps))))


@partial(jax.jit, static_argnums=0)
def _march(program: March, data: Seen, start: Array, numbers: Numbers, keys: Array, steps: Array) -> tuple[Array, Array]:
    lanes = jax.vmap(partial(_lane, program), in_axes=(None if program.shared_data else 0, 0, 0, 0, None))
    return lanes(data, start, numbers, keys, steps)


def _lane(program: March, data: Seen, start: Array, numbers: Numbers, key: Array, steps: Array) -> tuple[Array, Array]:
    reading, schedule = program.reading, program.schedule

    def second(state: Any) -> Array:
        return reading.carried(state[0], start) if program.remembers else state

    def one_step(step: Array, state: Any) -> Any:
        slope = _slope(program, data, reading.order(second(state)), key, step)
        rate = numbers.learning_rate if schedule is None else numbers.learning_rate * schedule.share(jnp.asarray(step))
        if program.remembers:
            propagator, velocity = state
            velocity = numbers.momentum * velocity + reading.act(slope, propagator) + numbers.weight_decay * propagator
            return propagator - rate * velocity, velocity
        fall = reading.act(slope, state) + numbers.weight_decay * state
        turned = fall.swapaxes(0, 1)
        return state - rate * (fall + turned) + rate**2 * (reading.act(slope, turned) + numbers.weight_decay * turned)

    def read(state: Any) -> tuple[Array, Array]:
        order = reading.order(second(state))
        return data.modes.strength(order), _loss(program, data, order)

    def to_next_record(state: Any, bounds: tuple[Array, Array]) -> tuple[Any, tuple[Array, Array]]:
        state = jax.lax.fori_loop(bounds[0], bounds[1], one_step, state)
        return state, read(state)

    begin = (reading.eye(start), jnp.zeros_like(start)) if program.remembers else start
    begins = jnp.concatenate([jnp.zeros_like(steps[:1]), steps[:-1]])
    return jax.lax.scan(to_next_record, begin, (begins, steps))[1]


def _slope(program: March, data: Seen, order: Array, key: Array, step: Array) -> Array:
    """D = dL/dG on this step's samples."""
    if data.structure is None:
        return data.moments.gradient(order)
    structure, targets = data.structure, data.targets
    if program.batch_size is not None:
        index = batch_index(key, step, program.batch_size, targets.shape[-1])
        structure, targets = structure.take(index), targets[:, index]
    outputs = structure.offset + structure.apply(order)
    return structure.adjoint(jax.grad(LOSSES[program.loss])(outputs, targets))


def _loss(program: March, data: Seen, order: Array) -> Float[Array, ""]:
    if program.loss == "squared_error":
        return data.moments.loss(order)
    assert data.structure is not None
    return LOSSES[program.loss](data.structure.offset + data.structure.apply(order), data.targets)
