"""What a training program writes down at a recorded step, of the twin and of the network beside it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Float

from nqf_pipeline.dynamics.lanes import Data, Record, Split
from nqf_pipeline.dynamics.losses import LOSSES, accuracy
from nqf_pipeline.dynamics.twins import Twin
from nqf_pipeline.forms.kernel import drift
from nqf_pipeline.forms.losses import Labels, LossName

Array = Any


class TwinSeen(NamedTuple):
    """Of the twin, at one step or (leading axis) at all of them."""

    order: Array
    """G at the network's width; of several layers one each."""
    loss: Array
    test_loss: Array
    mode: Array
    order_parameter: Array | None
    """|p_k|^2 of the twin's weights, recorded where they are all that is trained."""
    kernel_change: Array
    kernel_turn: Array
    test_accuracy: Array | None


class NetworkSeen(NamedTuple):
    """Of the network beside a twin."""

    loss: Array | None
    test_loss: Array | None
    divergence: Array | None
    mode: Array | None
    order_parameter: Array | None
    test_accuracy: Array | None


class Recorder(NamedTuple):
    """How one program reads losses and modes."""

    twin: Twin
    loss: LossName
    labels: Labels | None
    has_moments: bool
    """Whether second moments tell the twin its loss."""
    twin_alone: bool
    """Whether the twin's weights are all that is trained."""

    def see_twin(self, data: Data, held: Any, first_kernel: Array) -> TwinSeen:
        """Everything about the twin that holds these weights."""
        order = self.twin.order(held)
        losses = self._twin_loss(data.train, order), self._twin_loss(data.test, order)
        size = (self.twin.mode_vectors(held, data.modes) ** 2).sum(-1) if self.twin_alone else None
        right = None if self.labels is None else accuracy(self.labels, twin_outputs(data.test, order), data.test.targets)
        turned = drift(self.twin.kernel(data.probe, held), first_kernel)
        return TwinSeen(order, *losses, data.modes.strength(order), size, turned.change, turned.turn, right)

    def see_network(self, data: Data, weights: Float[Array, "unit_size width"], twin_order: Array) -> NetworkSeen:
        """Everything about a network, and how far its outputs are from its twin's."""
        architecture, structure = self.twin.architecture, data.train.structure
        assert structure is not None  # only a network that is its own twin does without samples
        output, offset = self._outputs(weights, data.train), structure.offset
        gap = output - offset - structure.apply(twin_order)
        divergence = jnp.sqrt(_squared_error(gap) / _squared_error(data.train.targets - offset))
        test_output = self._outputs(weights, data.test)
        losses = LOSSES[self.loss](output, data.train.targets), LOSSES[self.loss](test_output, data.test.targets)
        seen = data.modes.strength(architecture.order(weights))
        vectors = architecture.mode_vectors(weights, data.modes)
        right = None if self.labels is None else accuracy(self.labels, test_output, data.test.targets)
        return NetworkSeen(*losses, divergence, seen, (vectors**2).sum(-1), right)

    def _outputs(self, weights: Array, split: Split) -> Float[Array, "outputs samples"]:
        assert split.rows is not None  # whole splits are laid out wherever a network is trained
        return self.twin.architecture.by_row(weights, split.rows.samples).T

    def _twin_loss(self, split: Split, order: Array) -> Float[Array, ""]:
        if self.has_moments:
            return split.moments.loss(order)
        return LOSSES[self.loss](twin_outputs(split, order), split.targets)


def joined(twin: TwinSeen, network: NetworkSeen) -> Record:
    """The record of a network and the twin beside it."""
    return Record(
        network.loss, twin.loss, network.test_loss, twin.test_loss, network.divergence, network.mode, twin.mode, network.order_parameter,
        twin.kernel_change, twin.kernel_turn, network.test_accuracy, twin.test_accuracy,
    )  # fmt: skip


def alone(twin: TwinSeen, *, of_both: bool) -> Record:
    """The record of a twin without a network beside it; `of_both` of a network that is its own twin."""
    if of_both:
        zero = jnp.zeros_like(twin.loss)
        network = NetworkSeen(twin.loss, twin.test_loss, zero, twin.mode, twin.order_parameter, twin.test_accuracy)
    else:
        network = NetworkSeen(None, None, None, None, twin.order_parameter, None)
    return joined(twin, network)


def twin_outputs(split: Split, order: Array) -> Float[Array, "outputs samples"]:
    """What the twin puts out at the samples of a split."""
    assert split.structure is not None  # data_of gives it wherever moments do not tell
    return split.structure.offset + split.structure.apply(order)


def _squared_error(residual: Float[Array, "outputs samples"]) -> Float[Array, ""]:
    return (residual**2).sum() / residual.shape[-1]
