"""Exact training dynamics of the order parameters (M, mu), for any differentiable loss: no weights, no width in the cost.

With l' = dL/df, v = sum l' (g + 2 B mu), H = sum 2 l' A and weight decay (lambda/2)|W|^2 added to H as lambda I, one step of minibatch
gradient descent is, with S = I - eta (H + lambda I) (theory: Theorem 2),

    mu <- S mu - eta d v,        M <- S M S - eta (S mu v^T + v mu^T S) + eta^2 d v v^T.

Polyak momentum needs the past as well: W_t = P_t W_0 + Q_t 1^T with P and Q following the optimizer's own recurrence (Corollary 2).
Several layers are several pairs (M, mu) whose losses differentiate through each other (Theorem 14; see `dynamics.deep`).
JAX, float64 throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float, Int
from scipy.integrate import solve_ivp

from nqf_pipeline.dynamics import pytrees
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.dynamics.schedules import Schedule
from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.quadratic import DenseForm, Form, Order, Pull, StructureForm, pull_of

Array = Any
Loss = Callable[[Array, Array], Array]
"""(outputs, targets), both (outputs, samples), to a scalar with its own mean over samples (see `dynamics.losses`)."""
Orders = tuple[Order, ...]

jax.tree_util.register_dataclass(DenseForm, data_fields=["f0", "g", "A", "B"], meta_fields=[])
jax.tree_util.register_dataclass(StructureForm, data_fields=["structure", "scale"], meta_fields=["split", "rowwise"])


class Objective(NamedTuple):
    """The loss as a function of data and the layers' order parameters; hashable, so that equal objectives share a compilation."""

    outputs: Callable[[Any, Orders], Array]
    """(data, orders) to f (outputs, samples)."""
    take: Callable[[Any, Array], Any]
    """(data, index) to the data of a minibatch."""
    loss: Loss

    def __call__(self, orders: Orders, data: Any, targets: Array) -> Float[Array, ""]:
        return self.loss(self.outputs(data, orders), targets)

    def pulls(self, orders: Orders, data: Any, targets: Array) -> tuple[Pull, ...]:
        """(H, v) of every layer."""
        return tuple(pull_of(slope) for slope in jax.grad(self.__call__)(orders, data, targets))


class Trajectory(NamedTuple):
    """Order parameters at the recorded steps or times."""

    order: Order
    """(records, unit_size, unit_size) and (records, unit_size)."""
    loss: Float[np.ndarray, "records"]
    """Over all samples, without the weight decay's own term."""


class Hyper(NamedTuple):
    """Traced optimizer numbers of one layer."""

    learning_rate: Array
    momentum: Array
    weight_decay: Array


class Span(NamedTuple):
    """W_t = P W_0 + Q 1^T, and the momentum buffer in the same span (Corollary 2)."""

    propagator: Float[Array, "unit_size unit_size"]
    shift: Float[Array, "unit_size"]
    propagator_momentum: Float[Array, "unit_size unit_size"]
    shift_momentum: Float[Array, "unit_size"]

    @classmethod
    def start(cls, size: int) -> Span:
        """P = I, everything else at rest."""
        eye, nothing = jnp.eye(size), jnp.zeros(size)
        return cls(eye, nothing, jnp.zeros_like(eye), nothing)

    def order(self, start: Order, width: int) -> Order:
        """mu = P mu_0 + d Q, M = P M_0 P^T + P mu_0 Q^T + Q mu_0^T P^T + d Q Q^T."""
        carried = self.propagator @ start.mean
        cross = jnp.outer(carried, self.shift)
        second = self.propagator @ start.second @ self.propagator.T + cross + cross.T + width * jnp.outer(self.shift, self.shift)
        return Order(second, carried + width * self.shift)


def gradient_step(order: Order, pull: Pull, width: int, learning_rate: Array, weight_decay: Array) -> Order:
    """One step of gradient descent, on a minibatch or on all samples (Theorem 2)."""
    step = jnp.eye(len(order.mean)) - learning_rate * _decayed(pull.matrix, weight_decay)
    cross = learning_rate * jnp.outer(step @ order.mean, pull.vector)
    second = step @ order.second @ step - cross - cross.T + width * learning_rate**2 * jnp.outer(pull.vector, pull.vector)
    return Order(second, step @ order.mean - width * learning_rate * pull.vector)


def span_step(span: Span, pull: Pull, hyper: Hyper) -> Span:
    """One step of Polyak momentum, m <- momentum m + gradient, W <- W - eta m, in terms of P and Q."""
    matrix = _decayed(pull.matrix, hyper.weight_decay)
    p_momentum = hyper.momentum * span.propagator_momentum + matrix @ span.propagator
    q_momentum = hyper.momentum * span.shift_momentum + matrix @ span.shift + pull.vector
    return Span(span.propagator - hyper.learning_rate * p_momentum, span.shift - hyper.learning_rate * q_momentum, p_momentum, q_momentum)


def flow_rate(order: Order, pull: Pull, width: int, weight_decay: Array) -> Order:
    """(dM/dt, dmu/dt) of gradient flow: the step's first order in eta."""
    matrix = _decayed(pull.matrix, weight_decay)
    fall = matrix @ order.second + jnp.outer(pull.vector, order.mean)
    return Order(-fall - fall.T, -matrix @ order.mean - width * pull.vector)


def _decayed(matrix: Array, weight_decay: Array) -> Array:
    return matrix + weight_decay * jnp.eye(len(matrix))


@dataclass(frozen=True)
class Closure:
    """One layer, or several, with its data: everything but the optimizer. `single` makes the usual one."""

    objective: Objective
    data: Any
    targets: Float[Array, "outputs samples"]
    start: Orders
    widths: tuple[int, ...]
    ratios: tuple[float, ...] = ()
    """d'/d of compressed layers: their learning rate is divided by it, their weight decay multiplied (Theorem 15). Empty: all 1."""

    @classmethod
    def single(cls, form: Form, targets: Float[Array, "outputs samples"], loss: Loss, weights: Float[Array, "unit_size width"]) -> Closure:
        """One layer with the given form (at the training samples), from initial weights."""
        if targets.shape[-1] != form.samples:
            raise InputError(
                f"closure: targets for {targets.shape[-1]} samples and a form at {form.samples}; give one column a sample to both"
            )
        return cls(Objective(_form_outputs, _form_take, loss), form, targets, (Order.of(weights),), (weights.shape[1],))

    @property
    def layer_ratios(self) -> tuple[float, ...]:
        """`ratios`, one a layer."""
        return self.ratios or (1.0,) * len(self.widths)

    def train(
        self, optimizer: Optimizer, step_number: Int[Array, "records"], batches: Int[Array, "steps batch"] | None = None
    ) -> tuple[Trajectory, ...]:
        """Order parameters of every layer at the recorded steps (increasing). `batches` are the samples of each step; null for all."""
        refuse_outside_span(optimizer)
        steps = np.asarray(step_number)
        if (optimizer.batch_size is None) != (batches is None):
            raise InputError(
                "closure: `batches` go with an optimizer that has `batch_size`, and only with such a one; give both or neither"
            )
        if batches is not None and (len(batches) < steps[-1] or batches.shape[1] != optimizer.batch_size):
            raise InputError(
                f"closure: batches of shape {batches.shape} for {steps[-1]} steps of {optimizer.batch_size} samples; give one row a step"
            )
        with jax.enable_x64(True):
            hyper = tuple(_hyper(optimizer, ratio) for ratio in self.layer_ratios)
            data, targets, start = as_float64((self.data, self.targets, self.start))
            index = None if batches is None else jnp.asarray(batches)
            program = _Program(self.objective, self.widths, optimizer.momentum > 0, optimizer.timetable)
            orders, loss = _march(program, data, targets, start, hyper, jnp.asarray(steps), index)
            return _trajectories(orders, loss)

    def flow(
        self, time: Float[Array, "records"], weight_decay: float = 0.0, tolerance: float = 1e-10, method: str = "DOP853"
    ) -> tuple[Trajectory, ...]:
        """Gradient flow, dW/dt = -dL/dW - weight_decay W, at increasing times from 0 on.

        SciPy's integrators serve: there are few right-hand sides to evaluate, each compiled, so that an integrator inside JAX would
        only save dispatch; diffrax is no run-time dependency, and jax.experimental.ode has order 5 only. Seeds of 1e-8 must grow
        true, so errors are measured against the size of the start.
        """
        with jax.enable_x64(True):
            data, targets, start = as_float64((self.data, self.targets, self.start))
            flat, restore = ravel_pytree(start)
            rate = jax.jit(lambda at: ravel_pytree(_rates(self, restore(at), data, targets, weight_decay))[0])
            solution = solve_ivp(
                lambda _, at: np.asarray(rate(at)),
                (0.0, float(time[-1])),
                np.asarray(flat),
                method,
                np.asarray(time, float),
                rtol=tolerance,
                atol=tolerance * float(jnp.abs(flat).max()),
            )
            if not solution.success:
                raise InputError(
                    f"closure: gradient flow stopped before time {time[-1]}: {solution.message}; try method='LSODA' or a shorter time"
                )
            orders = jax.vmap(restore)(jnp.asarray(solution.y.T))
            return _trajectories(orders, jax.lax.map(lambda at: self.objective(at, data, targets), orders))


def refuse_outside_span(optimizer: Optimizer) -> None:
    """Raise InputError for optimizers whose weights leave the span P W_0 + Q 1^T."""
    if not optimizer.in_linear_span:
        raise InputError(
            f"closure: {optimizer.kind} divides every entry of the gradient by its own running size, so its weights leave the span "
            "P W_0 + Q 1^T and (M, mu) alone no longer say what comes next (theory: Corollary 2); train the twin's weights instead, or use "
            "gd, sgd or momentum"
        )


def _hyper(optimizer: Optimizer, ratio: float) -> Hyper:
    return Hyper(jnp.float64(optimizer.learning_rate / ratio), jnp.float64(optimizer.momentum), jnp.float64(optimizer.weight_decay * ratio))


def _form_outputs(form: Form, orders: Orders) -> Array:
    return form.apply(orders[0])


def _form_take(form: Form, index: Array) -> Form:
    return form.take(index)


def as_float64(tree: Any) -> Any:
    """JAX arrays in double precision (within `enable_x64`)."""
    return jax.tree.map(jnp.asarray, pytrees.cast(tree, "float64"))


def _trajectories(orders: Orders, loss: Array) -> tuple[Trajectory, ...]:
    return tuple(Trajectory(Order(*map(np.asarray, order)), np.asarray(loss)) for order in orders)


def _rates(closure: Closure, orders: Orders, data: Any, targets: Array, weight_decay: float) -> Orders:
    pulls, ratios = closure.objective.pulls(orders, data, targets), closure.layer_ratios
    decays = [jnp.float64(weight_decay * ratio) for ratio in ratios]
    rates = map(flow_rate, orders, pulls, closure.widths, decays)
    return tuple(Order(*(part / ratio for part in rate)) for rate, ratio in zip(rates, ratios, strict=True))


class _Program(NamedTuple):
    """What a compilation is for."""

    objective: Objective
    widths: tuple[int, ...]
    remembers: bool
    schedule: Schedule | None


@partial(jax.jit, static_argnums=0)
def _march(
    program: _Program,
    data: Any,
    targets: Array,
    start: Orders,
    hyper: tuple[Hyper, ...],
    steps: Int[Array, "records"],
    batches: Array | None,
) -> tuple[Orders, Array]:
    """Orders and loss at the recorded steps. Without momentum the state is (M, mu) itself, with it (P, Q) and their momenta."""
    objective, widths, remembers, schedule = program

    def orders_of(state: Any) -> Orders:
        return tuple(span.order(*rest) for span, *rest in zip(state, start, widths, strict=True)) if remembers else state

    def one_step(step: Array, state: Any) -> Any:
        index = None if batches is None else batches[step]
        seen, goal = (data, targets) if index is None else (objective.take(data, index), targets[:, index])
        pulls = objective.pulls(orders_of(state), seen, goal)
        share = 1.0 if schedule is None else schedule.share(jnp.asarray(step))
        now = tuple(numbers._replace(learning_rate=numbers.learning_rate * share) for numbers in hyper)
        if remembers:
            return tuple(map(span_step, state, pulls, now))
        rates = [numbers.learning_rate for numbers in now], [numbers.weight_decay for numbers in now]
        return tuple(map(gradient_step, state, pulls, widths, *rates))

    def to_next_record(state: Any, bounds: tuple[Array, Array]) -> tuple[Any, tuple[Orders, Array]]:
        state = jax.lax.fori_loop(bounds[0], bounds[1], one_step, state)
        orders = orders_of(state)
        return state, (orders, objective(orders, data, targets))

    state = tuple(Span.start(len(order.mean)) for order in start) if remembers else start
    begins = jnp.concatenate([jnp.zeros_like(steps[:1]), steps[:-1]])
    return jax.lax.scan(to_next_record, state, (begins, steps))[1]
