"""Networks whose own gradient is computed only where their quadratic form does not already tell it.

With R(W) the gradient of the network's loss minus that of its form's, both at the same weights, a step needs the form's gradient, which
second moments give at a small share of the price, and R. R is of higher order in W: nothing on the first plateau, slow on the later ones,
fast while a mode ignites. So it is computed at some steps and carried on in between, along the parabola through its last three values. At
the next computed step the error of that is measured, and from it follows the interval after. What rounding alone would make of it is no
error: a gradient is known to no more than its machine epsilon times the largest gradient so far (its terms have that size, also where they
cancel, after convergence), and a parabola through three such values carries their errors on, enlarged by its weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Array = Any
Gradient = Callable[[Array], Array]
Move = Callable[[Any, Array], Any]
"""(Run, gradient) to the run one step later."""

LONGEST = 16
"""Most steps between two gradients of the network: beyond, the steps of the form are the price, and ignition is met too late."""
SAFETY = 0.7
"""Share of the allowed error that the next interval is planned for."""


class Lag(NamedTuple):
    """What is known of R, and when it is computed again."""

    rest: Array
    """R at the last computed step."""
    slope: Array
    """Its change a step."""
    bend: Array
    """How that changes, by divided differences of the last three."""
    at: Array
    before: Array
    earlier: Array
    """The last computed step, how many steps it came after the one before, and that after its own."""
    due: Array
    """The next one."""
    computed: Array
    """How many so far."""
    gap: Array
    """The largest error found so far of a gradient carried on, beyond rounding, relative to the network's gradient."""
    largest: Array
    """Norm of the network's largest gradient so far."""
    constant: Array
    """The last error over the product of distances (see `renewed`)."""

    @classmethod
    def of(cls, weights: Array) -> Lag:
        """Before the first step."""
        nothing, zero = jnp.zeros_like(weights), jnp.zeros((), jnp.int32)
        return cls(nothing, nothing, nothing, zero, zero, zero, zero, zero, *[jnp.zeros((), weights.dtype)] * 3)

    def carried(self, step: Array) -> Array:
        """R at a step, from what is known."""
        ahead = (step - self.at).astype(self.rest.dtype)
        return self.rest + ahead * (self.slope + self.bend * (ahead + self.before.astype(ahead.dtype)))

    def rounding(self, ahead: Array) -> Array:
        """Sum of the absolute weights that R and its last three values have in the error so many steps ahead, times the machine epsilon."""
        before, earlier, ahead = (steps.astype(self.rest.dtype) for steps in (self.before, self.earlier, ahead))
        middle = ahead * (ahead + before + earlier) / jnp.maximum(before * earlier, 1.0)
        return 2.0 * (1.0 + middle) * jnp.finfo(self.rest.dtype).eps  # weights sum to 1, and only the middle one is negative

    def renewed(self, step: Array, gradient: Array, rest: Array, allowed: Array) -> Lag:
        """With the network's gradient computed at this step. `allowed`: relative error of a gradient carried on.

        A parabola through steps a, b, c misses at t by a constant times (t - a)(t - b)(t - c): the error just found tells that constant,
        and so that of each interval to come. The larger of two in a row is believed, since one alone may be small by chance.
        """
        steps, size = jnp.maximum(step - self.at, 1), jnp.linalg.norm(gradient)
        largest, tiny = jnp.maximum(self.largest, size), jnp.finfo(size.dtype).tiny
        beyond = jnp.linalg.norm(rest - self.carried(step)) - self.rounding(steps) * largest
        error = jnp.maximum(beyond, 0.0) / jnp.maximum(size, tiny)
        constant = error / (steps * (steps + self.before) * (steps + self.before + self.earlier)).astype(error.dtype)
        expected = jnp.maximum(constant, self.constant)
        interval = jnp.ones((), jnp.int32)
        for power in range(1, LONGEST.bit_length()):
            length = 2**power
            misses = expected * (length * (length + steps) * (length + steps + self.before)).astype(error.dtype)
            fits = (misses < SAFETY * allowed) & (length <= 2 * steps) & (step > 1)
            interval = jnp.where(fits, length, interval)
        gap = jnp.maximum(self.gap, jnp.where(steps > 1, error, 0.0))
        slope = (rest - self.rest) / steps.astype(rest.dtype)
        bend = (slope - self.slope) / (steps + self.before).astype(rest.dtype)
        return Lag(rest, slope, bend, step, steps, self.before, step + interval, self.computed + 1, gap, largest, constant)


def advance(run: Any, start: Array, stop: Array, network: Gradient, form: Gradient, move: Move, allowed: Array) -> Any:
    """The run (`weights`, `lag` and more) from one step to another; `network` and `form`: gradients of their losses by its weights."""

    def carry_on(run: Any, start: Array, stop: Array) -> Any:
        lag = run.lag
        return jax.lax.fori_loop(start, stop, lambda step, run: move(run, form(run.weights) + lag.carried(step)), run)

    def to_computed(state: tuple[Any, Array]) -> tuple[Any, Array]:
        run, step = state
        due = run.lag.due
        run = carry_on(run, step, due)
        gradient = network(run.weights)
        lag = run.lag.renewed(due, gradient, gradient - form(run.weights), allowed)
        return move(run._replace(lag=lag), gradient), due + 1

    start, stop = start.astype(jnp.int32), stop.astype(jnp.int32)
    run, step = jax.lax.while_loop(lambda state: state[0].lag.due < stop, to_computed, (run, start))
    return carry_on(run, step, stop)
