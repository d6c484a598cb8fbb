"""Problems whose samples are the whole population: nothing is drawn, so test and training data are one."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float

from nqf_pipeline.forms.modes import CoordinateBasis, ModeBasis
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.forms.structure import Structure
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem
from nqf_pipeline.tasks.selection import log_spaced

Array = Any


def whole_population(
    architecture: Architecture,
    inputs: Float[Array, "*input_shape samples"],
    targets: Float[Array, "1 samples"],
    watched: int,
    initial_scale: Float[Array, "unit_size 1"],
) -> Problem:
    """The problem of a commuting structure, one mode an entry of G; at most `watched` modes are recorded one by one."""
    structure = architecture.structure(inputs)
    moments = structure.moments(targets)
    index = log_spaced(len(moments.optimum), watched)
    return population_problem(inputs, targets, structure, moments, CoordinateBasis(index, moments.optimum[index]), initial_scale)


def population_problem(
    inputs: Float[Array, "*input_shape samples"],
    targets: Float[Array, "outputs samples"],
    structure: Structure,
    moments: Moments,
    modes: ModeBasis,
    initial_scale: Float[Array, "unit_size 1"],
) -> Problem:
    """The same samples to train and to test on, and any modes to watch."""
    return Problem(
        inputs=inputs,
        targets=targets,
        test_inputs=inputs,
        test_targets=targets,
        structure=structure,
        moments=moments,
        test_moments=moments,
        modes=modes,
        initial_scale=initial_scale,
    )
