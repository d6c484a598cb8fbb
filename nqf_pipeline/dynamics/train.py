"""Training of a network and of its quadratic twin, side by side, in one compiled program.

Both start from the same weights, see the same batches and follow the same optimizer. Lanes (cells that differ in traced numbers only) are
batched; `dynamics.steps` takes their runs from record to record. Loss: mean over samples of the sum over outputs. Squared error on the
full batch reaches the twin through second moments; every other loss, and every minibatch, through the structure at the samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.dynamics import lagging, pytrees
from nqf_pipeline.dynamics.compiling import compiler_options, one_after_another
from nqf_pipeline.dynamics.lanes import Data, Hyper, Record, Rows, Split
from nqf_pipeline.dynamics.losses import LOSSES
from nqf_pipeline.dynamics.records import Recorder, alone, joined, twin_outputs
from nqf_pipeline.dynamics.schedules import Shape
from nqf_pipeline.dynamics.steps import Run, Track, batch_index, moved, train_tracks, update_rule
from nqf_pipeline.dynamics.turns import LARGEST_PATH, in_turns, largest_side
from nqf_pipeline.dynamics.twins import Held, Twin
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
        """The executable for groups of this shape: (data, weights, twin's weights, hyper, keys, step grid) to a Record.

        On the full batch neither network nor twin needs the other's step. Small twins go their whole way first, in a program that XLA
        compiles to one piece of code (see `stages.cores`); what is recorded of them is read beside the network.
        """
        arguments, small = group.arguments(self.precision), self._small_twin(group)
        if self.one_run:
            return self._compiled(self._alone, arguments, self.architecture.small_products or small, in_turns=small)[0]
        if not small:
            return self._compiled(self._simulate, arguments, self.architecture.small_products)[0]
        twins, path = self._compiled(self._twin_path, arguments, True, in_turns=True)
        networks, _ = self._compiled(self._simulate, (*arguments, path), self.architecture.small_products)
        return lambda *given: networks(*given, twins(*given))

    def _compiled(
        self, one_lane: Callable[..., Any], arguments: tuple[Any, ...], small_products: bool, *, in_turns: bool = False
    ) -> tuple[Executable, Any]:
        """(Executable for all lanes, shapes of what it returns)."""
        axes = (None if self.shared_data else 0, 0, 0, 0, 0, None, 0)[: len(arguments)]
        lanes = one_after_another(one_lane, axes) if in_turns else jax.vmap(one_lane, in_axes=axes)
        lowered = jax.jit(lanes).lower(*arguments)
        return lowered.compile(compiler_options(small_products)), lowered.out_info

    def _small_twin(self, group: LaneGroup) -> bool:
        """Whether a twin reads moments, on a CPU, and is small; beside a network also its whole path (see `dynamics.turns`)."""
        if not self.reads_moments or jax.default_backend() != "cpu":
            return False
        start = group.weights if group.twin_weights is None else group.twin_weights
        path = 0 if self.one_run else start.size * len(group.step_number) * jnp.dtype(self.precision).itemsize
        return in_turns(largest_side(group.data.train.moments, self.architecture.pairing), start[0].size) and path <= LARGEST_PATH

    @property
    def _recorder(self) -> Recorder:
        return Recorder(self.twin, self.loss, self.labels, self.has_moments, self.one_run)

    def _twin_start(self, data: Data, weights: Array, twin_weights: Array | None, hyper: Hyper) -> tuple[Track, Array]:
        """(The twin's track, its first tangent kernel)."""
        held = self.twin.held(weights if twin_weights is None else twin_weights)
        rule = update_rule(self.update, self.twin.rates(hyper), self.schedule)
        return Track(rule, self._twin_gradient, held), self.twin.kernel(data.probe, held)

    def _alone(
        self, data: Data, weights: Array, twin_weights: Array | None, hyper: Hyper, key: Array, steps: Int[Array, "records"]
    ) -> Record:
        """One lane whose twin's weights are all that is trained."""
        track, first_kernel = self._twin_start(data, weights, twin_weights, hyper)

        def see(runs: list[Run], _: None) -> Record:
            return alone(self._recorder.see_twin(data, runs[0].weights, first_kernel), of_both=self.network)

        return train_tracks([track], lambda step: self.batch(data, key, step), see, steps)

    def _twin_path(
        self, data: Data, weights: Array, twin_weights: Array | None, hyper: Hyper, key: Array, steps: Int[Array, "records"]
    ) -> Held:
        """What one lane's twin holds at the recorded steps."""
        track, _ = self._twin_start(data, weights, twin_weights, hyper)
        return train_tracks([track], lambda _: data.train, lambda runs, _: runs[0].weights, steps)

    def _simulate(
        self,
        data: Data,
        weights: Array,
        twin_weights: Array | None,
        hyper: Hyper,
        key: Array,
        steps: Int[Array, "records"],
        twin_path: Held | None = None,
    ) -> Record:
        """One lane of a network beside its twin, or after it."""
        data, recorder = self._laid_out(data), self._recorder
        tracks = [self._network_track(data, weights, hyper)]
        track, first_kernel = self._twin_start(data, weights, twin_weights, hyper)
        if twin_path is None:
            tracks.append(track)

        def see(runs: list[Run], held: Held | None) -> Record:
            twin = recorder.see_twin(data, runs[1].weights if held is None else held, first_kernel)
            record, lag = joined(twin, recorder.see_network(data, runs[0].weights, twin.order)), runs[0].lag
            return record if lag is None else record._replace(network_gradients=lag.computed, gradient_gap=lag.gap)

        return train_tracks(tracks, lambda step: self.batch(data, key, step), see, steps, twin_path)

    def _network_track(self, data: Data, weights: Array, hyper: Hyper) -> Track:
        rule, gradient = update_rule(self.update, hyper, self.schedule), jax.grad(self._network_objective)

        def lags(run: Run, start: Array, stop: Array) -> Run:
            moments = data.train.moments
            quadratic = jax.grad(lambda at: _pulled(moments, self.architecture.order(at)))
            own = partial(gradient, batch=data.train)
            return lagging.advance(run, start, stop, own, quadratic, lambda at, slope: moved(rule, slope, at), hyper.gradient_error)

        return Track(rule, gradient, weights, lags if self.lagging else None)

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

    def _twin_gradient(self, held: Held, batch: Split) -> Held:
        if self.architecture.layered:
            return jax.grad(lambda at: self._twin_loss(batch, self.twin.order(at)))(held)
        order = self.twin.order(held)
        if self.reads_moments:
            return self.twin.pull_back(held, batch.moments.gradient(order))
        return self.twin.pull_back(held, jax.grad(lambda at: self._twin_loss(batch, at))(order))

    def _twin_loss(self, batch: Split, order: Array) -> Float[Array, ""]:
        return LOSSES[self.loss](twin_outputs(batch, order), batch.targets)


def _pulled(moments: Moments, order: Array) -> Float[Array, ""]:
    """Something with the loss's gradient, at the price of one K G instead of two."""
    return (order * jax.lax.stop_gradient(moments.gradient(order))).sum()


def train(program: Program, executable: Executable, group: LaneGroup) -> Record:
    """Trains every lane to the last step. Returns a Record of NumPy arrays (lanes, records, ...).

    A lane that diverges goes on as inf or NaN; `dynamics.divergence` says when.
    """
    return jax.tree.map(np.asarray, jax.block_until_ready(executable(*group.arguments(program.precision))))
