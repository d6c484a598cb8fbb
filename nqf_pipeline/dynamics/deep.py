"""Several layers, each a quadratic form of the outputs of the one below: closed dynamics per layer (theory: Theorems 14 and 15).

h^(l) = f(0) + g^T mu_l + mu_l^T B mu_l + Tr[M_l A], with f(0), g, A, B functions of h^(l-1). Every layer obeys the recurrences of one
layer with l' = dL/dh^(l), which automatic differentiation through the stack supplies. A layer is any function of its inputs
(features, samples) that returns a form there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.dynamics.closure import Closure, Loss, Objective, Orders
from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.compression import Compression, compress
from nqf_pipeline.forms.quadratic import DenseForm, Form, Order, StructureForm
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.models.stack import Stack

Array = Any
Layer = Callable[[Float[Array, "features samples"]], Form]


@dataclass(frozen=True)
class ArchitectureLayer:
    """The quadratic form of an architecture whose structure can be written down in a compiled program, as a layer."""

    architecture: Architecture
    reads: Callable[[Array], Array] | None = None
    """From the outputs of the layer below to this one's inputs; None: they are the inputs."""

    def __call__(self, inputs: Float[Array, "features samples"]) -> StructureForm:
        architecture = self.architecture
        inputs = self.reads(inputs) if self.reads else inputs
        nothing = architecture.factors(np.zeros((architecture.unit_size, architecture.width)))
        return StructureForm.of(architecture.structure(inputs), nothing, rowwise=architecture.pairing == "rowwise")[0]

    def units(self, weights: Float[Array, "unit_size width"]) -> Float[Array, "rows degrees"]:
        """The stacked factors that the form is about."""
        return np.concatenate(self.architecture.factors(weights))


def layers_of(stack: Stack) -> list[ArchitectureLayer]:
    """The blocks of a stacked architecture as layers of a closure: its deep twin in (M, mu)."""
    return [ArchitectureLayer(block, stack.handed if level else None) for level, block in enumerate(stack.blocks)]


def units_of(stack: Stack, weights: Float[Array, "unit_size width"]) -> list[Float[Array, "rows degrees"]]:
    """What the layers of `layers_of` are about, from the one array W."""
    return [layer.units(part) for layer, part in zip(layers_of(stack), stack.parts(weights), strict=True)]


@dataclass(frozen=True)
class Layers:
    """Layers from the bottom up, as one function of their order parameters."""

    layers: tuple[Layer, ...]

    def __call__(self, inputs: Float[Array, "features samples"], orders: Orders) -> Float[Array, "outputs samples"]:
        for layer, order in zip(self.layers, orders, strict=True):
            inputs = layer(inputs).apply(order)
        return inputs


def deep_closure(
    layers: Sequence[Layer],
    inputs: Float[Array, "features samples"],
    targets: Float[Array, "outputs samples"],
    loss: Loss,
    weights: Sequence[Float[Array, "unit_size width"]],
) -> Closure:
    """The closure of a stack from initial weights, one array a layer; `train` and `flow` give one trajectory a layer."""
    if len(layers) != len(weights):
        raise InputError(f"deep_closure: {len(layers)} layers and weights for {len(weights)}; give one array of weights a layer")
    start, widths = tuple(Order.of(part) for part in weights), tuple(part.shape[1] for part in weights)
    return Closure(Objective(Layers(tuple(layers)), _take, loss), inputs, targets, start, widths)


@dataclass(frozen=True)
class ScaledLayer:
    """A compressed layer: A' = ratio A."""

    layer: Layer
    ratio: float

    def __call__(self, inputs: Float[Array, "features samples"]) -> Form:
        form = self.layer(inputs)
        assert isinstance(form, DenseForm | StructureForm)  # the two forms that can be scaled
        return form.scaled(self.ratio)


def compress_layers(closure: Closure, weights: Sequence[Float[Array, "unit_size width"]]) -> tuple[Closure, list[Array]]:
    """The same stack with every layer at the smallest width that keeps all predictions, and its weights (Theorem 15).

    The first layer's inputs never change, so k_V + 1 units of its own span do. Above it the structure moves with what is learnt below,
    and only a span of all unit_size directions is sure to hold it: unit_size + 1 units. Learning rates and decays are per layer.
    """
    stack = closure.objective.outputs
    assert isinstance(stack, Layers)  # made by `deep_closure`
    parts: list[Compression] = []
    inputs = np.asarray(closure.data)
    for layer, part in zip(stack.layers, weights, strict=True):
        form = layer(inputs)
        assert isinstance(form, DenseForm | StructureForm)  # the two forms that can be compressed
        parts.append(compress(form, part, basis=np.eye(len(part)) if parts else None))
        inputs = np.asarray(form.apply(Order.of(part)))
    ratios, small = tuple(part.ratio for part in parts), [part.weights for part in parts]
    scaled = [ScaledLayer(layer, ratio) for layer, ratio in zip(stack.layers, ratios, strict=True)]
    return replace(deep_closure(scaled, closure.data, closure.targets, closure.objective.loss, small), ratios=ratios), small


def _take(inputs: Array, index: Array) -> Array:
    return inputs[:, index]
