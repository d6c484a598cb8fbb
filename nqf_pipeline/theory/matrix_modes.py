"""Whole matrices predicted without training: isotropic samples in closed form, and by the exact steps of M.

The reduced factor [Z] of one-factor models is the weights' own block; orders are M = Z Z^T at every record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.dynamics.closed_matrix import isotropic_samples
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.forms.quadratic import StructureForm
from nqf_pipeline.tasks.base import Problem

Array = Any


def curvature_of(moments: Moments) -> float:
    """c of isotropic samples: K acts on symmetric matrices as c times the identity (its mean on them, where it only nearly does)."""
    rows = moments.optimum.shape[0]
    return float(np.trace(moments.operator)) / (rows * (rows + 1) / 2)


def isotropic_flow(
    problem: Problem, factor: Float[Array, "rows degrees"], time: Float[Array, "records"], weight_decay: float
) -> Float[Array, "records rows rows"]:
    """M of gradient flow (Theorem 7): Y = 4 K G*, lowered by the decay."""
    moments = problem.moments
    drive = 4 * (moments.linear + moments.linear.T) / 2 - weight_decay * np.eye(len(factor))
    found = isotropic_samples(time, drive, curvature_of(moments), factor)
    return np.asarray(found @ np.swapaxes(found, 1, 2))


def exact_steps(
    problem: Problem, factor: Float[Array, "rows degrees"], optimizer: Optimizer, step_number: Int[Array, "records"]
) -> Float[Array, "records rows rows"]:
    """M at the recorded steps of the full-batch optimizer, by the closed recursion of M (Theorem 2, Corollary 2)."""
    from nqf_pipeline.dynamics.closure import Closure
    from nqf_pipeline.dynamics.losses import squared_error

    form, weights = StructureForm.of(problem.structure, (factor,), rowwise=False)
    kind = "momentum" if optimizer.momentum > 0 else "gd"
    whole = optimizer.model_copy(update={"kind": kind, "batch_size": None})
    (path,) = Closure.single(form, problem.targets, squared_error, weights).train(whole, step_number)
    return np.asarray(path.order.second)
