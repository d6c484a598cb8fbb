"""From a study to its cells: the product of the axes, with sigma and steps resolved, and what to know before running them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import product
from math import ceil, floor, log10, sqrt
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel
from threadpoolctl import threadpool_limits

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.dynamics.turns import largest_side
from nqf_pipeline.errors import InputError
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.study.axes import by_kind
from nqf_pipeline.study.cells import Cell, contents_of, data_key, generator, incompressible, pays
from nqf_pipeline.study.config import Auto, Experiment, Horizon, Study, step_keys
from nqf_pipeline.study.cost import Sizes
from nqf_pipeline.study.errors import ConfigError
from nqf_pipeline.study.families import Family
from nqf_pipeline.study.messages import describe, listing
from nqf_pipeline.tasks import Problem, Task
from nqf_pipeline.theory.checks import stability
from nqf_pipeline.theory.horizon import horizon
from nqf_pipeline.theory.regime import regime

DIGITS = 2
"""Horizons are rounded up to this many digits, so that cells share step grids."""


@dataclass
class Grid:
    """Cells of a study, each once and in the order of the file; warnings do not keep a study from running."""

    cells: dict[str, Cell] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    sizes: dict[str, Sizes] = field(default_factory=dict)
    """By bucket, for the cost model: the cells of a bucket are alike."""
    repeated: int = 0

    def add(self, cell: Cell, sizes: Sizes) -> None:
        self.repeated += cell.id in self.cells
        self.cells.setdefault(cell.id, cell)
        self.sizes[cell.bucket] = sizes


@threadpool_limits.wrap(limits=1)  # horizons take many small products: threads only wait for each other
def build_grid(study: Study) -> Grid:
    """All cells. Raises ConfigError with every combination that cannot work, naming its place in the config file."""
    grid, problems = Grid(), []
    for name, experiment in study.experiments.items():
        for place, architecture, task, optimizer in combinations(experiment, study.document.folder):
            try:
                add_cells(grid, name, experiment, Setting.of(architecture, task), optimizer)
            except InputError as error:
                problems.append(describe(study.document, ("experiments", name, *place), str(error)))
    if problems:
        raise listing(study.document, problems)
    if grid.repeated:
        grid.warnings.append(f"{grid.repeated} cells are asked for twice; each runs once, under the first experiment that names it")
    grid.warnings = list(dict.fromkeys(grid.warnings))
    return grid


@dataclass(frozen=True)
class Setting:
    """An architecture on a task: what its data, horizons and checks depend on."""

    architecture: Architecture
    task: Task
    fingerprint: str

    @classmethod
    def of(cls, architecture: Architecture, task: Task) -> Setting:
        """Raises InputError when the architecture cannot take these data."""
        architecture.check()
        task.check(architecture)
        return cls(architecture, task, contents_of(architecture, task))

    @property
    def label(self) -> str:
        return f"{label(self.architecture)}, {label(self.task)}"


Place = tuple[str | int, ...]
Part = TypeVar("Part", bound=BaseModel)


def combinations(experiment: Experiment, folder: Path) -> Iterator[tuple[Place, Architecture, Task, Optimizer]]:
    """(place of the task in the config, architecture, task, optimizer), one task after another, so that its data are built once."""
    for architectures, (position, tasks) in product(experiment.architectures, enumerate(experiment.tasks)):
        for architecture, task in product(architectures.choices(), tasks.choices()):
            for optimizers in experiment.optimizers:
                for optimizer in optimizers.choices(architecture.kind):
                    yield ("tasks", position), located(architecture, folder), located(task, folder), optimizer


def located(part: Part, folder: Path) -> Part:
    """An architecture or task that reads a file, with its path counted from the folder of the config file."""
    path = getattr(part, "path", None)
    return part if path is None else part.model_copy(update={"path": str(folder / Path(path).expanduser())})


def add_cells(grid: Grid, name: str, experiment: Experiment, setting: Setting, optimizer: Optimizer) -> None:
    """The cells of one setting and optimizer, with the warnings that belong to them."""
    architecture, task = setting.architecture, setting.task
    if optimizer.fresh:
        task.check_fresh(architecture)
    where = f"{name}: {setting.label}, {label(optimizer)}"
    sizes = sizes_of(setting)
    grid.warnings += [f"{name}: {text}" for text in task.warnings(architecture)]
    grid.warnings += [f"{where}: {text}" for text in unstable(setting, optimizer)]
    rule, late, silent = rule_for(experiment, architecture, optimizer), {}, {}
    twin = twin_of(experiment, architecture, optimizer)
    for sigma in sigmas(experiment, architecture):
        steps, wanted = resolve_steps(rule, experiment.records, setting, optimizer, sigma)
        if wanted > steps:
            late[sigma] = wanted
        if experiment.train == "nothing" and (reason := unpredicted(setting, optimizer, steps)):
            silent[sigma] = reason
        family = Family(
            Cell(
                experiment=name,
                architecture=architecture,
                task=task,
                optimizer=optimizer,
                sigma=sigma,
                steps=steps,
                records=experiment.records,
                precision=experiment.precision,
                twin=twin,
                train=experiment.train,
                fingerprint=setting.fingerprint,
            )
        )
        for seed in experiment.seeds:
            grid.add(family.member(seed), sizes)
    if silent:
        grid.warnings.append(
            f"{where}: `train: nothing`, and no tier of theory predicts these cells ({next(iter(silent.values()))}); "
            "their rows will stay empty, with status `not_predicted`; use `train: twin` here"
        )
    if late:
        needs = ", ".join(f"{wanted:,} at sigma = {sigma:g}" for sigma, wanted in late.items())
        grid.warnings.append(f"{where}: steps end before the last mode is predicted to ignite (steps needed: {needs})")


def sigmas(experiment: Experiment, architecture: Architecture) -> list[float]:
    """Both ways of giving the initial scale, as standard deviations: epsilon = degrees sigma^2."""
    return [*experiment.sigma, *(sqrt(epsilon / architecture.degrees) for epsilon in experiment.epsilon)]


def twin_of(experiment: Experiment, architecture: Architecture, optimizer: Optimizer) -> Literal["full", "compressed"]:
    """The width of the twins of one setting: `auto` compresses where that saves time."""
    if experiment.twin == "auto":
        if experiment.train == "nothing":
            return "full"  # there is no twin, so none has an identity of its own
        alone = experiment.train == "twin" and not incompressible(architecture, optimizer)
        return "compressed" if alone or pays(architecture, optimizer) else "full"
    reason = incompressible(architecture, optimizer)
    if experiment.twin == "compressed" and reason:
        raise ConfigError(f"twin: compressed does not fit here: {reason}; use `full`, or `auto`, which compresses where it can")
    return experiment.twin


def rule_for(experiment: Experiment, architecture: Architecture, optimizer: Optimizer) -> int | Horizon:
    """The steps rule of this architecture and optimizer."""
    steps = experiment.steps
    rule = by_kind(steps, *step_keys(architecture.name, optimizer.kind)) if isinstance(steps, dict) else steps
    if isinstance(rule, Auto):
        return rule.auto
    return Horizon() if rule == "auto" else rule


def resolve_steps(rule: int | Horizon, records: int, setting: Setting, optimizer: Optimizer, sigma: float) -> tuple[int, int]:
    """(steps, steps that the prediction asks for; 0 where there is none to compare with)."""
    if isinstance(rule, Horizon):
        wanted = max(predicted_steps(setting, optimizer, sigma, rule.mode, rule.margin), rule.at_least, records - 1)
        return max(min(wanted, rule.at_most), records - 1), wanted
    if not optimizer.in_linear_span:
        return rule, 0
    try:
        return rule, predicted_steps(setting, optimizer, sigma, None, 1.0)
    except InputError:
        return rule, 0


@lru_cache(maxsize=1)
def reference_problem(setting: Setting) -> Problem:
    """The problem that horizons and checks look at: one draw that depends on no seed (the data themselves where all seeds share them)."""
    key = data_key(setting.architecture, setting.task, None, setting.fingerprint)
    return setting.task.problem(setting.architecture, generator(["data", key]))


@cache
def sizes_of(setting: Setting) -> Sizes:
    """What a program's arithmetic depends on besides a cell's fields."""
    problem = reference_problem(setting)
    moments = problem.moments
    pull = moments.operator.size if moments.kind == "diagonal" else np.size(moments.optimum) * len(moments.operator)
    side = largest_side(moments, setting.architecture.pairing)
    return Sizes(problem.targets.shape[-1], len(problem.modes.target), float(pull), side)


@cache
def predicted_steps(setting: Setting, optimizer: Optimizer, sigma: float, mode: int | None, margin: float) -> int:
    """Predicted horizon, rounded up to two digits."""
    steps = horizon(setting.architecture, reference_problem(setting), optimizer, sigma, mode=mode, margin=margin)
    return round_up(max(steps, 1))


@cache
def unstable(setting: Setting, optimizer: Optimizer) -> list[str]:
    """A warning where learning_rate times the curvature at the optimum exceeds its bound."""
    rate, bound = stability(setting.architecture, reference_problem(setting), optimizer)
    if not rate > bound:
        return []
    safe = optimizer.learning_rate * bound / rate
    return [f"learning_rate times curvature is {rate:.3g}, above the bound {bound:.3g}: training will not settle; use less than {safe:.2g}"]


@cache
def unpredicted(setting: Setting, optimizer: Optimizer, steps: int) -> str:
    """Why no tier of theory predicts a cell; empty where one does."""
    found = regime(setting.architecture, reference_problem(setting), optimizer, None, steps)
    return "" if found.predicted else found.reason


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
