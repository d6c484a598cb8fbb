"""From a study to its cells: the product of the axes, with sigma and steps resolved, and what to know before running them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import product
from math import ceil, floor, log10, sqrt
from typing import Any

from pydantic import BaseModel

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.errors import InputError
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.study.axes import by_kind
from nqf_pipeline.study.cells import Cell, data_key, generator
from nqf_pipeline.study.config import Auto, Experiment, Horizon, Study, step_keys
from nqf_pipeline.study.document import Document
from nqf_pipeline.study.messages import describe, listing
from nqf_pipeline.tasks.base import Problem, Task
from nqf_pipeline.theory.checks import stability
from nqf_pipeline.theory.horizon import horizon

DIGITS = 2
"""Horizons are rounded up to this many digits, so that cells share step grids."""


@dataclass
class Grid:
    """Cells of a study, each once and in the order of the file; warnings do not keep a study from running."""

    cells: dict[str, Cell] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    repeated: int = 0

    def add(self, cell: Cell) -> None:
        self.repeated += cell.id in self.cells
        self.cells.setdefault(cell.id, cell)


def build_grid(study: Study, document: Document) -> Grid:
    """All cells. Raises ConfigError with every combination that cannot work, naming its place in the config file."""
    grid, problems = Grid(), []
    for name, experiment in study.experiments.items():
        for place, architecture, task, optimizer in combinations(experiment):
            try:
                add_cells(grid, name, experiment, architecture, task, optimizer)
            except InputError as error:
                problems.append(describe(document, ("experiments", name, *place), f"{error} ({label(architecture)}, {label(task)})"))
    if problems:
        raise listing(document, problems)
    if grid.repeated:
        grid.warnings.append(f"{grid.repeated} cells are asked for more than once; each runs once, under the first experiment that names it")
    grid.warnings = list(dict.fromkeys(grid.warnings))
    return grid


def combinations(experiment: Experiment) -> Iterator[tuple[tuple[str | int, ...], Architecture, Task, Optimizer]]:
    """(place of the task in the config, architecture, task, optimizer), one task after another, so that its data are built once."""
    for architectures, (position, tasks) in product(experiment.architectures, enumerate(experiment.tasks)):
        for architecture, task in product(architectures.choices(), tasks.choices()):
            for optimizers in experiment.optimizers:
                for optimizer in optimizers.choices(architecture.kind):
                    yield ("tasks", position), architecture, task, optimizer


def add_cells(grid: Grid, name: str, experiment: Experiment, architecture: Architecture, task: Task, optimizer: Optimizer) -> None:
    """The cells of one architecture, task and optimizer, with the warnings that belong to them."""
    where = f"{name}: {label(architecture)}, {label(task)}, {label(optimizer)}"
    grid.warnings += [f"{name}: {text}" for text in task.warnings(architecture)]
    grid.warnings += [f"{where}: {text}" for text in unstable(architecture, task, optimizer)]
    rule = rule_for(experiment, architecture, optimizer)
    late: dict[float, int] = {}
    for sigma in sigmas(experiment, architecture):
        steps, wanted = resolve_steps(rule, experiment.records, architecture, task, optimizer, sigma)
        if wanted > steps:
            late[sigma] = wanted
        for seed in dict.fromkeys(experiment.seeds):
            parts = {"architecture": architecture, "task": task, "optimizer": optimizer, "sigma": sigma, "seed": seed}
            grid.add(Cell(experiment=name, **parts, steps=steps, records=experiment.records, precision=experiment.precision))
    if late:
        needs = ", ".join(f"{steps:,} at sigma = {sigma:g}" for sigma, steps in late.items())
        grid.warnings.append(f"{where}: steps end before the last mode is predicted to ignite (steps needed: {needs})")


def sigmas(experiment: Experiment, architecture: Architecture) -> list[float]:
    """Both ways of giving the initial scale, as standard deviations: epsilon = degrees sigma^2."""
    from_epsilon = [sqrt(epsilon / architecture.degrees) for epsilon in experiment.epsilon]
    return list(dict.fromkeys([*experiment.sigma, *from_epsilon]))


def rule_for(experiment: Experiment, architecture: Architecture, optimizer: Optimizer) -> int | Horizon:
    """The steps rule of this architecture and optimizer."""
    rule = experiment.steps
    if isinstance(rule, dict):
        rule = by_kind(rule, *step_keys(architecture.name, optimizer.kind))
    if isinstance(rule, Auto):
        return rule.auto
    return Horizon() if rule == "auto" else rule


def resolve_steps(
    rule: int | Horizon, records: int, architecture: Architecture, task: Task, optimizer: Optimizer, sigma: float
) -> tuple[int, int]:
    """(steps, steps that the prediction asks for; 0 where there is none to compare with)."""
    if isinstance(rule, Horizon):
        wanted = predicted_steps(architecture, task, optimizer, sigma, rule.mode, rule.margin)
        return max(min(wanted, rule.at_most), records - 1), wanted
    if not optimizer.in_linear_span:
        return rule, 0
    try:
        return rule, predicted_steps(architecture, task, optimizer, sigma, None, 1.0)
    except InputError:
        return rule, 0


@lru_cache(maxsize=1)
def reference_problem(architecture: Architecture, task: Task) -> Problem:
    """The problem that horizons and checks look at: one draw that depends on no seed (the data themselves where all seeds share them)."""
    return task.problem(architecture, generator(["data", data_key(architecture, task, None)]))


@cache
def predicted_steps(architecture: Architecture, task: Task, optimizer: Optimizer, sigma: float, mode: int | None, margin: float) -> int:
    """Predicted horizon, rounded up to two digits."""
    problem = reference_problem(architecture, task)
    return round_up(horizon(architecture, problem, optimizer, sigma, mode=mode, margin=margin))


@cache
def unstable(architecture: Architecture, task: Task, optimizer: Optimizer) -> list[str]:
    """A warning where learning_rate times the curvature at the optimum exceeds its bound."""
    rate, bound = stability(architecture, reference_problem(architecture, task), optimizer)
    if not rate > bound:
        return []
    safe = optimizer.learning_rate * bound / rate
    return [f"learning_rate times curvature is {rate:.3g}, above the bound {bound:.3g}: training will not settle; use less than {safe:.2g}"]


def round_up(steps: int, digits: int = DIGITS) -> int:
    """The smallest number of this many significant digits that is not below `steps`."""
    unit = 10 ** max(floor(log10(steps)) + 1 - digits, 0)
    return ceil(steps / unit) * unit


def label(model: BaseModel) -> str:
    """`mlp(width=16)`: the kind with the fields that were given."""
    given: dict[str, Any] = {name: getattr(model, name) for name in model.model_fields_set if name != "kind"}
    inside = ", ".join(f"{name}={value}" for name, value in sorted(given.items()))
    kind = str(getattr(model, "kind"))  # noqa: B009
    return f"{kind}({inside})" if inside else kind
