"""From sample-first arrays of the outside world to a problem."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.forms.losses import Labels, LossName, driving_targets
from nqf_pipeline.forms.modes import ModeBasis, TargetBasis
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.forms.structure import Structure
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem, TaskError
from nqf_pipeline.tasks.correlation import correlation_modes

Array = Any
Pairs = tuple[Float[Array, "*input_shape samples"], Float[Array, "outputs samples"]]


@dataclass(frozen=True)
class Split:
    """Training and test data, samples first: x (samples, *shape), y (samples, outputs)."""

    x: Float[Array, "samples *shape"]
    y: Float[Array, "samples outputs"]
    x_test: Float[Array, "test_samples *shape"]
    y_test: Float[Array, "test_samples outputs"]

    @property
    def outputs(self) -> int:
        return int(self.y.shape[1])


def check_fit(split: Split, architecture: Architecture, source: str) -> None:
    """The architecture takes these inputs and gives these outputs; `source` names the data in messages."""
    entries, needed = math.prod(split.x.shape[1:]), math.prod(architecture.input_shape)
    if entries != needed:
        raise TaskError(
            f"{source}: an input has {entries} entries (shape {split.x.shape[1:]}) but architecture {architecture.name} reads {needed} "
            f"(shape {architecture.input_shape}); change the architecture's input sizes or the data"
        )
    if split.outputs != architecture.output_size:
        remedy = f"set its outputs to {split.outputs}" if "outputs" in type(architecture).model_fields else "it takes a single target only"
        raise TaskError(
            f"{source}: {split.outputs} target(s) per sample but {architecture.name} has {architecture.output_size} output(s); {remedy}"
        )


def standardise(values: Array, reference: Array) -> Array:
    """Remove the reference's mean of every entry and divide by one common standard deviation of the reference."""
    centre = reference.mean(0)
    return (values - centre) / (reference - centre).std()


def data_problem(
    split: Split, architecture: Architecture, modes: int, source: str, loss: LossName = "squared_error", labels: Labels | None = None
) -> Problem:
    """The problem of given data: features first, samples last, modes from the input-output correlation that training sees first."""
    check_fit(split, architecture, source)
    inputs, test_inputs = (_features_first(x, architecture) for x in (split.x, split.x_test))
    return labelled_problem(architecture, (inputs, split.y.T), (test_inputs, split.y_test.T), modes, source, loss, labels)


def labelled_problem(
    architecture: Architecture,
    train: Pairs,
    test: Pairs,
    modes: int,
    source: str,
    loss: LossName = "squared_error",
    labels: Labels | None = None,
) -> Problem:
    """The problem of given (inputs, targets), both samples last; `source` names the data in messages."""
    structure, test_structure = architecture.structure(train[0]), architecture.structure(test[0])
    driving = driving_targets(loss, structure.offset, train[1])
    moments = structure.moments(driving)
    basis = _modes(architecture, structure, moments, driving, modes)
    if not len(basis.target):
        raise TaskError(
            f"{source}: the structure of {architecture.name} explains no variance of the targets that it could learn from small weights, "
            "so there is no mode to watch; check that inputs and targets belong together, or choose another architecture"
        )
    return Problem(
        inputs=train[0],
        targets=train[1],
        test_inputs=test[0],
        test_targets=test[1],
        structure=structure,
        moments=moments,
        test_moments=test_structure.moments(test[1]),
        modes=basis,
        initial_scale=np.ones((architecture.unit_size, 1)),
        loss=loss,
        labels=labels,
    )


def _modes(architecture: Architecture, structure: Structure, moments: Moments, targets: Array, count: int) -> ModeBasis:
    if architecture.layered:
        return TargetBasis(structure, targets - structure.offset)
    return correlation_modes(architecture, moments, count)


def _features_first(x: Float[Array, "samples *shape"], architecture: Architecture) -> Float[Array, "*input_shape samples"]:
    return np.ascontiguousarray(np.moveaxis(x, 0, -1)).reshape(*architecture.input_shape, -1)
