"""The exact steps of logistic modes under a linear-span optimizer, many cells and modes at once (JAX, float64).

A mode's amplitude w, z = w^2, follows m <- momentum m + w (r - a sum_j a_j z_j) / 2 - weight_decay w and w <- w + learning_rate m, with
m = 0 at the start. Members j are the features that share one sample (see `closed_groups.shared_samples`); a mode of its own has one member
and saturation C = a^2. Weight vectors of any length keep their direction, so z alone suffices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.dynamics.optimizers import Optimizer

Array = Any
CHUNK = 4096
"""Amplitudes advanced together: they and their momenta stay in the first-level cache (fastest of 1024 to 65536)."""
COUPLED_LANES = 64
FEWEST_LANES, MOST_LANES = 64, 256
"""Small systems fill up to the same number of lanes, so that few programs are compiled: a step of any of them takes as long."""


def recursion(
    rate: Float[Array, "cells groups members"],
    coupling: Float[Array, "cells groups members"],
    seed: Float[Array, "cells groups members"],
    learning_rate: Float[Array, "cells"],
    momentum: Float[Array, "cells"],
    weight_decay: Float[Array, "cells"],
    step_number: Int[Array, "cells records"],
    share: Float[Array, "cells steps"] | None = None,
) -> Float[np.ndarray, "cells records groups members"]:
    """z at the recorded steps (increasing along the records) for z = seed at step 0.

    `share` is what each step takes of the learning rate (`dynamics.schedules`), for every step up to the last record; None: all of it.
    """
    drive = np.asarray(rate) / 2 - np.asarray(weight_decay)[:, None, None]
    amplitude = np.sqrt(seed)
    result = np.empty((len(drive), step_number.shape[1], *drive.shape[1:]))
    for lanes in _chunks(np.asarray(step_number), drive[0].size):
        padded = np.resize(lanes, _lane_count(len(lanes), drive[0].size))
        # A chunk that is not full is filled up by repeating its cells.
        steps = np.asarray(step_number)[padded]
        part = [np.moveaxis(array[padded], -1, 0) for array in (drive, coupling, amplitude)]
        scalars = [np.broadcast_to(array, len(drive))[padded][None, :, None] for array in (learning_rate, momentum)]
        with jax.enable_x64(True):
            waits = jnp.asarray(np.diff(steps, prepend=0, axis=1).T, jnp.int64)
            arguments = (jnp.asarray(array, jnp.float64) for array in (*part, *scalars))
            shares = None if share is None else jnp.asarray(np.asarray(share)[padded].T, jnp.float64)
            found = _march(*arguments, waits, shares, alike=bool((steps == steps[0]).all()))
            result[lanes] = np.moveaxis(np.asarray(found), (0, 1), (1, -1))[: len(lanes)]
    return result


def _chunks(step_number: Int[Array, "cells records"], size: int) -> list[Int[Array, "lanes"]]:
    """Cells with the same steps together; what is left of them with those of similar length.

    A chunk takes as many steps as its longest lane, at half the speed where lanes wait differently: half a chunk of its own is as good.
    """
    order, lanes = np.lexsort(step_number.T), _lane_count(len(step_number), size)
    changes = np.flatnonzero((np.diff(step_number[order], axis=0) != 0).any(1)) + 1
    chunks: list[Array] = []
    left: list[Array] = []
    for alike in np.split(order, changes):
        for start in range(0, len(alike), lanes):
            part = alike[start : start + lanes]
            (chunks if 2 * len(part) >= lanes else left).append(part)
    mixed = np.concatenate(left) if left else order[:0]
    return chunks + [mixed[start : start + lanes] for start in range(0, len(mixed), lanes)]


def _lane_count(cells: int, size: int) -> int:
    """A power of two, so that few programs are compiled."""
    most = max(1, min(MOST_LANES, CHUNK // size))
    return min(1 << (max(cells, FEWEST_LANES) - 1).bit_length(), 1 << (most.bit_length() - 1))


@partial(jax.jit, static_argnames="alike")
def _march(
    drive: Float[Array, "members cells groups"],
    coupling: Float[Array, "members cells groups"],
    amplitude: Float[Array, "members cells groups"],
    learning_rate: Float[Array, "1 cells 1"],
    momentum: Float[Array, "1 cells 1"],
    waits: Int[Array, "records cells"],
    shares: Float[Array, "steps cells"] | None,
    *,
    alike: bool,
) -> Float[Array, "records members cells groups"]:
    """z after each wait. Unless all lanes wait alike, one that has waited long enough stands still until the others have, too."""

    def rate_of(step: Array) -> Float[Array, "1 cells 1"]:
        if shares is None:
            return learning_rate
        now = jnp.take_along_axis(shares, jnp.minimum(step, len(shares) - 1)[None], 0)[0]
        return learning_rate * now[None, :, None]

    def one_step(count: Array, state: tuple[Array, Array], wait: Array, done: Array) -> tuple[Array, Array]:
        w, m = state
        rate = rate_of(done + count)
        crowd = (coupling * w * w).sum(0, keepdims=True)
        m_next = momentum * m + w * (drive - 0.5 * coupling * crowd)
        if alike:
            return w + rate * m_next, m_next
        # Telling lanes apart halves the speed.
        live = (count < wait)[None, :, None]
        return w + jnp.where(live, rate, 0.0) * m_next, jnp.where(live, m_next, m)

    def to_next_record(state: tuple[Array, Array], bounds: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        wait, done = bounds
        state = jax.lax.fori_loop(0, wait.max(), lambda count, inner: one_step(count, inner, wait, done), state)
        return state, state[0] ** 2

    done = jnp.cumsum(waits, 0) - waits
    return jax.lax.scan(to_next_record, (amplitude, jnp.zeros_like(amplitude)), (waits, done))[1]


def coupled_recursion(
    rate: Float[Array, "cells modes"],
    interaction: Float[Array, "cells modes modes"],
    seed: Float[Array, "cells modes"],
    optimizers: Sequence[Optimizer],
    step_number: Int[Array, "records"],
) -> Float[np.ndarray, "cells records modes"]:
    """z of modes that all interact, with sum_j C_kj z_j in place of a_k sum_j a_j z_j: the rows of P^T W where all A(x) commute.

    Cells share the recorded steps and the schedule of the learning rate.
    """
    found = []
    for start in range(0, len(rate), COUPLED_LANES):
        part = np.arange(start, min(start + COUPLED_LANES, len(rate)))
        # Filled up to a power of two, so that few programs are compiled.
        lanes = np.resize(part, 1 << (len(part) - 1).bit_length())
        with jax.enable_x64(True):
            decay, *numbers = (
                jnp.asarray([getattr(optimizers[int(k)], name) for k in lanes], jnp.float64)
                for name in ("weight_decay", "learning_rate", "momentum")
            )
            drive = jnp.asarray(np.asarray(rate)[lanes] / 2, jnp.float64) - decay[:, None]
            amplitude = jnp.sqrt(jnp.asarray(np.asarray(seed)[lanes], jnp.float64))
            waits = jnp.asarray(np.diff(np.asarray(step_number), prepend=0), jnp.int64)
            table = optimizers[0].timetable
            shares = None if table is None else jnp.asarray(table.share(np.arange(int(step_number[-1]) + 1)))
            path = _march_coupled(drive, jnp.asarray(np.asarray(interaction)[lanes], jnp.float64), amplitude, *numbers, waits, shares)
            found.append(np.asarray(path)[: len(part)])
    return np.concatenate(found)


@jax.jit
@partial(jax.vmap, in_axes=(0, 0, 0, 0, 0, None, None))
def _march_coupled(
    drive: Float[Array, "modes"],
    interaction: Float[Array, "modes modes"],
    amplitude: Float[Array, "modes"],
    learning_rate: Float[Array, ""],
    momentum: Float[Array, ""],
    waits: Int[Array, "records"],
    shares: Float[Array, "steps"] | None,
) -> Float[Array, "records modes"]:
    def one_step(step: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        w, m = state
        m = momentum * m + w * (drive - 0.5 * (interaction @ (w * w)))
        return w + (learning_rate if shares is None else learning_rate * shares[step]) * m, m

    def to_next_record(state: tuple[Array, Array], bounds: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        state = jax.lax.fori_loop(*bounds, one_step, state)
        return state, state[0] ** 2

    done = jnp.cumsum(waits)
    return jax.lax.scan(to_next_record, (amplitude, jnp.zeros_like(amplitude)), (done - waits, done))[1]
