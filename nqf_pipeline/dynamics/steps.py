"""How a run goes on: its update rule, its batches, and the loop from one recorded step to the next.

Steps between two recorded ones run in an inner loop with traced bounds, so that one program serves every horizon.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Float, Int

from nqf_pipeline.dynamics import lagging
from nqf_pipeline.dynamics.lanes import Hyper, Split
from nqf_pipeline.dynamics.schedules import Shape, share

Array = Any


class Run(NamedTuple):
    """What a run carries from step to step."""

    weights: Any
    optimizer: Any
    lag: lagging.Lag | None = None


class Track(NamedTuple):
    """How a run starts and goes on."""

    update: optax.GradientTransformation
    gradient: Callable[[Any, Split], Any]
    """Of the loss, by the weights."""
    start: Any
    lags: Callable[[Run, Array, Array], Run] | None = None
    """Takes the run from one step to another by itself; None where every step computes the gradient."""


def train_tracks(
    tracks: list[Track], batch_at: Callable[[Array], Split], see: Callable[..., Any], steps: Int[Array, "records"], beside: Any = None
) -> Any:
    """What is seen of runs on these tracks at the recorded steps; `see` also takes what is `beside` them at that record."""

    def one_step(step: Array, runs: list[Run]) -> list[Run]:
        batch = batch_at(step)
        return [run if track.lags else _advance(track, run, batch) for track, run in zip(tracks, runs, strict=True)]

    def to_next_record(runs: list[Run], ahead: tuple[Array, Array, Any]) -> tuple[list[Run], Any]:
        start, stop, at_stop = ahead
        runs = [track.lags(run, start, stop) if track.lags else run for track, run in zip(tracks, runs, strict=True)]
        if not all(track.lags for track in tracks):
            runs = jax.lax.fori_loop(start, stop, one_step, runs)
        return runs, see(runs, at_stop)

    runs = [Run(at, update.init(at), lagging.Lag.of(at) if lags else None) for update, _, at, lags in tracks]
    # The first record ends an interval of no steps, so that a record is compiled once.
    return jax.lax.scan(to_next_record, runs, (jnp.concatenate([steps[:1], steps[:-1]]), steps, beside))[1]


def batch_index(key: Array, step: Array, batch_size: int, samples: int) -> Int[Array, "batch"]:
    """The samples of a step: drawn with replacement, the same for network, twin and closure."""
    return jax.random.randint(jax.random.fold_in(key, step), (batch_size,), 0, samples)


def update_rule(kind: Literal["linear", "adam"], hyper: Hyper, schedule: Shape | None = None) -> optax.GradientTransformation:
    """(Gradient, state, weights) to the change of the weights; see `dynamics.optimizers`."""
    decay, scale = optax.add_decayed_weights(hyper.weight_decay), optax.scale(-hyper.learning_rate)
    if schedule is not None:
        scale = optax.scale_by_schedule(lambda count: -hyper.learning_rate * _share(schedule, count, hyper))
    if kind == "linear":
        return optax.chain(decay, optax.trace(hyper.momentum), scale)
    return optax.chain(optax.scale_by_adam(hyper.beta1, hyper.beta2, hyper.eps), decay, scale)


def _share(schedule: Shape, count: Array, hyper: Hyper) -> Float[Array, ""]:
    step = count.astype(hyper.learning_rate.dtype)
    return share(schedule, step, hyper.warmup_steps, hyper.decay_steps, hyper.final_share)


def _advance(track: Track, run: Run, batch: Split) -> Run:
    return moved(track.update, track.gradient(run.weights, batch), run)


def moved(update: optax.GradientTransformation, gradient: Any, run: Run) -> Run:
    """The run after a step along this gradient."""
    with jax.numpy_dtype_promotion("standard"):  # optax raises Adam's decay rates, traced here, to the power of an integer count
        step, state = update.update(gradient, run.optimizer, run.weights)
    return run._replace(weights=optax.apply_updates(run.weights, step), optimizer=state)
