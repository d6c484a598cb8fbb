"""The discrete tier where no closed clock holds: the twin's exact steps in M = W W^T, without any weights (theory: Theorem 2, Corollary 2).

What it costs is known before: a step multiplies two matrices of the size of M with the blocks of H, and reads second moments, or the
samples of its batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.forms.structure import SensingStructure
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks.base import Problem

if TYPE_CHECKING:
    from nqf_pipeline.theory.predict import CellInputs

Array = Any
AFFORDABLE = 2e10
"""Multiply-adds of all steps of one cell up to which the closure is stepped (five to ten seconds on one core)."""
TRAFFIC = 40.0
"""Multiply-adds in the time that one entry of M takes to be read and written again: what counts where M is large (784 pixels)."""
LANES = 4
"""Cells stepped together; a call that has fewer is filled up to a power of two, so that few programs are compiled."""


def step_cost(architecture: Architecture, problem: Problem, batch_size: int | None) -> float:
    """Multiply-adds of one step."""
    factors = architecture.factors(np.zeros((architecture.unit_size, architecture.width)))
    if architecture.pairing == "rowwise":
        entries, update = len(factors[0]), 8.0 * len(factors[0])
    else:
        rows = sum(len(factor) for factor in factors)
        entries = len(factors[0]) * len(factors[-1])
        update = (4.0 * entries * rows if len(factors) == 2 else 2.0 * rows**3) + TRAFFIC * rows**2
    return update + _slope_cost(problem, batch_size, entries)


def _slope_cost(problem: Problem, batch_size: int | None, entries: int) -> float:
    if reads_moments(problem, batch_size):
        operator = problem.moments.operator
        return float(operator.size if problem.moments.kind == "diagonal" else entries * len(operator))
    outputs = len(problem.targets) if isinstance(problem.structure, SensingStructure) else 1
    return 2.0 * (batch_size or problem.targets.shape[-1]) * entries * outputs


def reads_moments(problem: Problem, batch_size: int | None) -> bool:
    """Whether second moments tell the whole gradient."""
    return problem.loss == "squared_error" and batch_size is None


def refusal(architecture: Architecture, problem: Problem, optimizer: Optimizer, steps: int) -> str:
    """Why the closure is not stepped; empty where it is."""
    if optimizer.fresh:
        return "fresh samples are drawn while training, in the precision of the run, so no prediction can see the same ones"
    work = steps * step_cost(architecture, problem, optimizer.batch_size)
    if work <= AFFORDABLE:
        return ""
    return f"its {steps:,} steps would take {work:.2g} multiply-adds, more than the {AFFORDABLE:.1g} that a prediction may cost"


def order_curves(cells: Sequence[CellInputs]) -> list[tuple[Float[Array, "records watched"], Float[Array, "records"]]]:
    """(strengths of the watched modes, training loss) of each cell at its recorded steps; cells of equal shapes are stepped together."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for i, cell in enumerate(cells):
        groups[_kind(cell)].append(i)
    found: dict[int, tuple[Array, Array]] = {}
    for members in groups.values():
        for start in range(0, len(members), LANES):
            part = members[start : start + LANES]
            found.update(zip(part, _step([cells[i] for i in part]), strict=True))
    return [found[i] for i in range(len(cells))]


def _kind(cell: CellInputs) -> Hashable:
    """Cells with equal kinds run in one call."""
    problem, optimizer = cell.problem, cell.optimizer
    shapes = tuple(np.shape(part) for part in (problem.targets, problem.moments.operator, problem.modes.target, cell.weights))
    program = (problem.loss, optimizer.batch_size, optimizer.momentum > 0, optimizer.timetable)
    return cell.architecture, shapes, program, np.asarray(cell.step_number).tobytes()


def _step(cells: list[CellInputs]) -> list[tuple[Array, Array]]:
    from nqf_pipeline.dynamics import pytrees
    from nqf_pipeline.dynamics.reduced import March, Numbers, Reading, Seen, march

    lanes = [*cells, *[cells[-1]] * ((1 << (len(cells) - 1).bit_length()) - len(cells))]
    first = cells[0]
    architecture, optimizer, loss = first.architecture, first.optimizer, first.problem.loss
    shared = all(cell.problem is first.problem for cell in cells)
    on_moments = reads_moments(first.problem, optimizer.batch_size)
    data = [Seen(None if on_moments else p.structure, p.targets, p.moments, p.modes) for p in (cell.problem for cell in lanes)]
    factors = [architecture.factors(np.asarray(cell.weights, float)) for cell in lanes]
    reading = Reading.of(factors[0], rowwise=architecture.pairing == "rowwise")
    path = march(
        March(reading, loss, optimizer.batch_size, optimizer.momentum > 0, shared, optimizer.timetable),
        data[0] if shared else pytrees.stack(data),
        np.stack([reading.start(factor) for factor in factors]),
        Numbers(*(np.array([getattr(cell.optimizer, name) for cell in lanes]) for name in Numbers._fields)),
        np.array([cell.batch_seed for cell in lanes]),
        np.asarray(first.step_number),
    )
    return list(zip(path.strength[: len(cells)], path.loss[: len(cells)], strict=True))
