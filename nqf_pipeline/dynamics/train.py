"""Training of a network and of its quadratic twin, side by side, in one compiled program.

Both start from the same weights, see the same batches and follow the same optimizer. Steps between two
recorded ones run in an inner loop with traced bounds, so that one program serves every horizon; lanes
(cells that differ in traced numbers only) are batched. Loss: mean over samples of the sum over outputs. Squared error on the full
batch reaches the twin through second moments; every other loss, and every minibatch, through the structure at the samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from nqf_pipeline.dynamics import lagging, pytrees
from nqf_pipeline.dynamics.lanes import Data, Hyper, Record, Rows, Split
from nqf_pipeline.dynamics.losses import LOSSES, accuracy
from nqf_pipeline.dynamics.schedules import Shape, share
from nqf_pipeline.dynamics.twins import Twin
from nqf_pipeline.forms.kernel import drift
from nqf_pipeline.forms.losses import Labels, LossName
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Population

Array = Any
Executable = Callable[..., Record]


@dataclass(frozen=True)
class LaneGroup:
    """Cells that run through one call of a program: a leading lane axis on everything but shared data and the step grid."""

    data: Data
    weights: Float[Array, "lanes unit_size width"]
    hyper: Hyper
    batch_key: Any
    step_number: Int[Array, "records"]
    twin_weights: Float[Array, "lanes rows columns"] | None = None
    """Start of compressed twins; None where twins start from the network's weights."""

    def arguments(self, precision: str) -> tuple[Any, ...]:
        """What `Program.compiled` takes, in the precision of the program."""
        floats = pytrees.cast((self.data, self.weights, self.twin_weights, self.hyper), precision)
        return (*floats, self.batch_key, jnp.asarray(self.step_number))


class _Run(NamedTuple):
    weights: Any
    optimizer: Any
    lag: lagging.Lag | None = None


@dataclass(frozen=True)
class Program:
    """The static part of a bucket: equal programs share one compilation."""

    architecture: Architecture
    update: Literal["linear", "adam"]
    batch_size: int | None
    precision: Literal["float32", "float64"]
    shared_data: bool
    loss: LossName = "squared_error"
    labels: Labels | None = None
    network: bool = True
    """Whether a network is trained beside the twin."""
    compressed: bool = False
    """Twins have the width that Theorem 3 needs instead of the network's; so has a network that is its own twin."""
    schedule: Shape | None = None
    """None where every step takes the whole learning rate."""
    lagging: bool = False
    """Whether the network's gradient is carried on between the steps that compute it (see `dynamics.lagging`)."""

    @property
    def reads_moments(self) -> bool:
        """Whether second moments tell the twin its gradient."""
        return self.has_moments and self.batch_size is None

    @property
    def has_moments(self) -> bool:
        """Whether second moments tell the twin its loss: squared error of outputs that are linear in one order parameter."""
        return self.loss == "squared_error" and not self.architecture.layered

    @property
    def reads_samples(self) -> bool:
        """Whether training needs the samples at all."""
        return not (self.one_run and self.reads_moments)

    @property
    def twin(self) -> Twin:
        """How the twin's weights are read."""
        return Twin(self.architecture, self.compressed)

    @property
    def network_is_twin(self) -> bool:
        """Whether one run stands for both (see `Architecture.is_own_twin`)."""
        return self.architecture.is_own_twin(self.batch_size)

    @property
    def one_run(self) -> bool:
        """Whether the twin's weights are all that is trained: they are the network's too, or there is none."""
        return self.network_is_twin or not self.network

    def compile(self, group: LaneGroup) -> Executable:
        """The executable for groups of this shape: (data, weights, twin's weights, hyper, keys, step grid) to a Record."""
        lanes = jax.vmap(self._simulate, in_axes=(None if self.shared_data else 0, 0, 0, 0, 0, None))
        small_products = self.architecture.small_products or not self.reads_samples
        return jax.jit(lanes).lower(*group.arguments(self.precision)).compile(_compiler_options(small_products))

    def _simulate(
        self, data: Data, weights: Array, twin_weights: Array | None, hyper: Hyper, key: Array, steps: Int[Array, "records"]
    ) -> Record:
        data = self._laid_out(data)
        rule, twin_rule = (_update_rule(self.update, numbers, self.schedule) for numbers in (hyper, self.twin.rates(hyper)))
        beside = self.twin.held(weights if twin_weights is None else twin_weights)
        tracks = (
            [(twin_rule, self._twin_objective)] if self.one_run else [(rule, self._network_objective), (twin_rule, self._twin_objective)]
        )
        start = [_Run(at, update.init(at)) for at, (update, _) in zip([weights, beside][-len(tracks) :], tracks, strict=True)]
        first_kernel = self.twin.kernel(data.probe, beside)
        if self.lagging:
            start[0] = start[0]._replace(lag=lagging.Lag.of(weights))

        def one_step(step: Array, runs: list[_Run]) -> list[_Run]:
            batch, behind = self.batch(data, key, step), tracks[len(tracks) - len(runs) :]
            return [
                _advance(update, lambda w, f=objective: f(w, batch), run) for (update, objective), run in zip(behind, runs, strict=True)
            ]

        def to_next_record(runs: list[_Run], bounds: tuple[Array, Array]) -> tuple[list[_Run], Record]:
            own = [self._lagging(data.train, rule, hyper, runs.pop(0), bounds)] if self.lagging else []
            runs = own + jax.lax.fori_loop(bounds[0], bounds[1], one_step, runs)
            return runs, self._record(data, runs, first_kernel)

        # The first record ends an interval of no steps, so that a record is compiled once.
        return jax.lax.scan(to_next_record, start, (jnp.concatenate([steps[:1], steps[:-1]]), steps))[1]

    def _lagging(self, split: Split, rule: optax.GradientTransformation, hyper: Hyper, run: _Run, bounds: tuple[Array, Array]) -> _Run:
        """The network's run from one recorded step to the next, with gradients of its own where its form does not tell them."""
        form = Twin(self.architecture)
        network = jax.grad(lambda weights: self._network_objective(weights, split))
        quadratic = jax.grad(lambda weights: _pulled(split.moments, form.order(weights)))
        return lagging.advance(run, *bounds, network, quadratic, lambda at, gradient: _moved(rule, gradient, at), hyper.gradient_error)

    def _laid_out(self, data: Data) -> Data:
        """Data whose splits the network reads fast; outside the loops, so that this happens once."""
        if self.one_run:
            return data
        train, test = (s._replace(rows=Rows(self.architecture.lay_out(s.encoded), s.targets.T)) for s in (data.train, data.test))
        return data._replace(train=train, test=test)

    def batch(self, data: Data, key: Array, step: Array) -> Split:
        """What network and twin see at a step: everything, samples drawn from the training split, or fresh ones."""
        split = data.train
        if self.batch_size is None:
            return split
        if data.population is not None:
            return self._fresh(data.population, split, jax.random.fold_in(key, step), self.batch_size)
        index = batch_index(key, step, self.batch_size, split.targets.shape[-1])
        structure = None if split.structure is None else split.structure.take(index)
        return Split(split.encoded[..., index], split.targets[..., index], structure, split.moments)

    def _fresh(self, population: Population, split: Split, key: Array, size: int) -> Split:
        inputs = jax.random.normal(key, (*self.architecture.input_shape, size), split.targets.dtype)
        structure = self.architecture.structure(inputs).like(inputs)
        return Split(self.architecture.encode(inputs), population.label(inputs), structure, split.moments)

    def _network_objective(self, weights: Array, batch: Split) -> Float[Array, ""]:
        rows = batch.rows or Rows(batch.encoded, batch.targets.T)
        return LOSSES[self.loss](self.architecture.by_row(weights, rows.samples), rows.targets, axis=1)

    def _outputs(self, weights: Array, split: Split) -> Float[Array, "outputs samples"]:
        assert split.rows is not None  # whole splits are laid out wherever a network is trained
        return self.architecture.by_row(weights, split.rows.samples).T

    def _twin_objective(self, weights: Any, batch: Split) -> Float[Array, ""]:
        order = self.twin.order(weights)
        if self.reads_moments:
            return _pulled(batch.moments, order)
        return self._loss(_twin_outputs(batch, order), batch.targets)

    def _loss(self, outputs: Array, targets: Array) -> Float[Array, ""]:
        return LOSSES[self.loss](outputs, targets)

    def _twin_loss(self, split: Split, order: Array) -> Float[Array, ""]:
        if self.has_moments:
            return split.moments.loss(order)
        return self._loss(_twin_outputs(split, order), split.targets)

    def _record(self, data: Data, runs: list[_Run], first_kernel: Array) -> Record:
        network, twin = runs[0].weights, runs[-1].weights
        reader = self.twin if self.one_run else Twin(self.architecture)
        network_order, twin_order = reader.order(network), self.twin.order(twin)
        twin_loss, twin_test_loss = self._twin_loss(data.train, twin_order), self._twin_loss(data.test, twin_order)
        test_output = None
        losses: tuple[Array, ...]
        if not self.network:
            losses = (None, twin_loss, None, twin_test_loss, None)
        elif self.network_is_twin:
            losses = (twin_loss, twin_loss, twin_test_loss, twin_test_loss, jnp.zeros_like(twin_loss))
        else:
            structure = data.train.structure
            assert structure is not None  # only a network that is its own twin does without samples
            output, offset = self._outputs(network, data.train), structure.offset
            gap = output - offset - structure.apply(twin_order)
            divergence = jnp.sqrt(_squared_error(gap) / _squared_error(data.train.targets - offset))
            test_output = self._outputs(network, data.test)
            test_loss = self._loss(test_output, data.test.targets)
            losses = (self._loss(output, data.train.targets), twin_loss, test_loss, twin_test_loss, divergence)
        vectors = reader.mode_vectors(network, data.modes)
        seen = data.modes.strength(network_order) if self.network else None
        modes = (seen, data.modes.strength(twin_order), (vectors**2).sum(-1))
        accuracies = self._accuracies(data.test, test_output, twin_order)
        values: tuple[Array, ...] = (*losses, *modes, *drift(self.twin.kernel(data.probe, twin), first_kernel), *accuracies)
        record, lag = Record(*values), runs[0].lag
        return record if lag is None else record._replace(network_gradients=lag.computed, gradient_gap=lag.gap)

    def _accuracies(self, test: Split, network: Array | None, twin_order: Array) -> tuple[Array, Array]:
        if self.labels is None:
            return None, None
        twin = _twin_outputs(test, twin_order)
        if not self.network:
            return None, accuracy(self.labels, twin, test.targets)
        own = accuracy(self.labels, twin, test.targets)
        return own if network is None else accuracy(self.labels, network, test.targets), own


@cache
def _compiler_options(small_products: bool) -> dict[str, str | bool]:
    """What XLA is told besides its flags: on a CPU, to hand single matrix products to its library, or none, and nothing with them.

    By default it hands over a product with all that comes before and after, which the library then works off one operation at a time:
    the loss of a 20-64-8 network alone takes as long as its gradient, and that of 64 kernels twelve times as long.
    """
    options: dict[str, str | bool] = {
        "xla_cpu_experimental_ynn_fusion_type": "" if small_products else "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
    }
    try:
        jax.jit(lambda at: at).lower(jnp.zeros(())).compile(options)
    except jax.errors.JaxRuntimeError:  # a version of XLA that knows no such option
        return {}
    return options


def batch_index(key: Array, step: Array, batch_size: int, samples: int) -> Int[Array, "batch"]:
    """The samples of a step: drawn with replacement, the same for network, twin and closure."""
    return jax.random.randint(jax.random.fold_in(key, step), (batch_size,), 0, samples)


def _twin_outputs(split: Split, order: Array) -> Float[Array, "outputs samples"]:
    assert split.structure is not None  # data_of gives it wherever moments do not tell
    return split.structure.offset + split.structure.apply(order)


def _squared_error(residual: Float[Array, "outputs samples"]) -> Float[Array, ""]:
    return (residual**2).sum() / residual.shape[-1]


def _update_rule(kind: Literal["linear", "adam"], hyper: Hyper, schedule: Shape | None = None) -> optax.GradientTransformation:
    decay, scale = optax.add_decayed_weights(hyper.weight_decay), optax.scale(-hyper.learning_rate)
    if schedule is not None:
        scale = optax.scale_by_schedule(lambda count: -hyper.learning_rate * _share(schedule, count, hyper))
    if kind == "linear":
        return optax.chain(decay, optax.trace(hyper.momentum), scale)
    return optax.chain(optax.scale_by_adam(hyper.beta1, hyper.beta2, hyper.eps), decay, scale)


def _share(schedule: Shape, count: Array, hyper: Hyper) -> Float[Array, ""]:
    step = count.astype(hyper.learning_rate.dtype)
    return share(schedule, step, hyper.warmup_steps, hyper.decay_steps, hyper.final_share)


def _pulled(moments: Moments, order: Array) -> Float[Array, ""]:
    """Something with the loss's gradient, at the price of one K G instead of two."""
    return (order * jax.lax.stop_gradient(moments.gradient(order))).sum()


def _advance(update: optax.GradientTransformation, objective: Any, run: _Run) -> _Run:
    return _moved(update, jax.grad(objective)(run.weights), run)


def _moved(update: optax.GradientTransformation, gradient: Any, run: _Run) -> _Run:
    with jax.numpy_dtype_promotion("standard"):  # optax raises Adam's decay rates, traced here, to the power of an integer count
        step, state = update.update(gradient, run.optimizer, run.weights)
    return run._replace(weights=optax.apply_updates(run.weights, step), optimizer=state)


def train(program: Program, executable: Executable, group: LaneGroup) -> Record:
    """Trains every lane to the last step. Returns a Record of NumPy arrays (lanes, records, ...).

    A lane that diverges goes on as inf or NaN; `dynamics.divergence` says when.
    """
    return jax.tree.map(np.asarray, jax.block_until_ready(executable(*group.arguments(program.precision))))
