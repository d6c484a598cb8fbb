"""What one lane of a compiled training program reads and returns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.modes import ModeBasis
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.forms.structure import Structure
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Population, Problem

Array = Any


class Rows(NamedTuple):
    """A split as the network's gradient reads it, one sample a row: in the layout of `Architecture.lay_out`, made once per training."""

    samples: Any
    targets: Float[Array, "samples outputs"]


class Split(NamedTuple):
    """One data split as the network reads it (encoded samples) and as its twin does (structure, moments)."""

    encoded: Array
    targets: Float[Array, "outputs samples"]
    structure: Structure | None
    moments: Moments
    rows: Rows | None = None
    """None outside a training program, and in batches that no other step sees."""


class Data(NamedTuple):
    """Everything a lane knows about its problem. Lanes of a task without random data share one copy."""

    train: Split
    test: Split
    modes: ModeBasis
    probe: Structure
    """The structure at the few samples between which tangent kernels are compared."""
    population: Population | None = None
    """Where every batch is drawn from anew; None where batches are samples of the training split."""


class Hyper(NamedTuple):
    """Traced optimizer numbers: one program serves every value."""

    learning_rate: Array
    momentum: Array
    weight_decay: Array
    beta1: Array
    beta2: Array
    eps: Array
    warmup_steps: Array
    decay_steps: Array
    final_share: Array
    gradient_error: Array


class Record(NamedTuple):
    """What is written down at a recorded step (docs/data_dictionary.md)."""

    network_loss: Array | None
    """None, like all else about the network, where only the twin is trained."""
    twin_loss: Array
    network_test_loss: Array | None
    twin_test_loss: Array
    divergence: Array | None
    network_mode: Array | None
    twin_mode: Array
    order_parameter: Array
    twin_kernel_change: Array
    twin_kernel_turn: Array
    network_test_accuracy: Array | None = None
    twin_test_accuracy: Array | None = None
    """None where targets are no labels."""
    network_gradients: Array | None = None
    gradient_gap: Array | None = None
    """None where the network's gradient is computed at every step (see `dynamics.lagging`)."""


KERNEL_ENTRIES = 64
"""Outputs times samples whose tangent kernel is followed: 64 x 64 numbers, for about the price of a step."""


def hyper_of(optimizer: Optimizer) -> Hyper:
    """The optimizer's numbers in the order the program traces them."""
    return Hyper(*(np.float64(getattr(optimizer, name)) for name in Hyper._fields))


def data_of(architecture: Architecture, problem: Problem, *, samples_needed: bool, fresh: bool = False) -> Data:
    """A problem as one lane's data. Without `samples_needed` (an exactly quadratic module on the full batch) only its moments.

    The twin reads test samples where moments do not tell: other losses than squared error, and accuracy.
    `fresh` is for batches that are drawn anew.
    """
    tested = problem.labels is not None or problem.loss != "squared_error" or architecture.layered
    test_structure = architecture.structure(problem.test_inputs) if tested else None
    probe = kernel_probe(problem.structure)
    nothing = np.zeros((0,))
    if not samples_needed:
        train = Split(nothing, nothing, None, problem.moments)
        test = Split(nothing, problem.test_targets if tested else nothing, test_structure, problem.test_moments)
        return Data(train, test, problem.modes, probe)
    train = Split(architecture.encode(problem.inputs), problem.targets, problem.structure, problem.moments)
    test = Split(architecture.encode(problem.test_inputs), problem.test_targets, test_structure, problem.test_moments)
    return Data(train, test, problem.modes, probe, problem.population if fresh else None)


def kernel_probe(structure: Structure) -> Structure:
    """A structure at evenly spread samples, as many as `KERNEL_ENTRIES` allow."""
    count = min(max(KERNEL_ENTRIES // len(structure.offset), 1), structure.samples)
    return structure.take(np.linspace(0, structure.samples - 1, count).round().astype(int))
