"""A cell: one complete set of coordinates, with its identity, its random streams and its recorded steps."""

from __future__ import annotations

import json
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from jaxtyping import Int
from pydantic import BaseModel, ConfigDict, Field, model_validator

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import AnyArchitecture, Architecture
from nqf_pipeline.study.errors import ConfigError
from nqf_pipeline.study.identity import canonical, digest, entropy, identifying_fields
from nqf_pipeline.tasks import AnyTask, Problem, Task

Purpose = Literal["init", "data", "batches", "noise"]
Precision = Literal["float32", "float64"]
Trained = Literal["network_and_twin", "twin", "nothing"]


class Cell(BaseModel):
    """Everything that decides the numbers of one network, its twin and its predictions."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    experiment: str = Field(default="", description="the experiment's name, a label only", json_schema_extra={"label": True})
    architecture: AnyArchitecture
    task: AnyTask
    optimizer: Optimizer
    sigma: float = Field(gt=0, description="standard deviation of the initial weights")
    seed: int = Field(default=0, ge=0, description="chooses the draw of weights, data and batches")
    steps: int = Field(ge=1, description="optimizer steps")
    records: int = Field(default=256, ge=2, description="recorded steps, log-spaced, first and last included")
    precision: Precision = Field(default="float32", description="floating-point format of network and twin")
    twin: Literal["full", "compressed"] = Field(
        default="full",
        description="width of the twin: its network's, or the smallest that reproduces it (theory: Theorem 3)",
        json_schema_extra={"absent": "full"},
    )
    train: Trained = Field(
        default="network_and_twin",
        description="what is trained; `nothing`: the cell is only predicted",
        json_schema_extra={"absent": "network_and_twin"},
    )
    fingerprint: str = Field(
        default="",
        description="hash of the contents of the data file and of the module's file, where there are any",
        json_schema_extra={"absent": ""},
    )

    @model_validator(mode="after")
    def _enough_steps(self) -> Cell:
        check_records(self.steps, self.records)
        return self

    @model_validator(mode="after")
    def _no_name_for_what_changes_nothing(self) -> Cell:
        """`gradient_error` is 0 in cells that it cannot touch, so that they keep one identity whatever it says."""
        if self.optimizer.gradient_error and not self._can_lag:
            object.__setattr__(self, "optimizer", self.optimizer.model_copy(update={"gradient_error": 0.0}))
        return self

    @cached_property
    def id(self) -> str:
        """16 hex digits naming the numbers: equal ids, equal results."""
        return digest(self)

    @cached_property
    def bucket(self) -> str:
        """Name of the compiled program and array shapes this cell shares with others."""
        program = self.optimizer.program if self.optimizer.timetable is None else f"{self.optimizer.program}_{self.optimizer.schedule}"
        key = [
            self.architecture,
            shape_of(self.task),
            [program, self.optimizer.batch_size, self.records, self.precision, self.fingerprint],
            *(["fresh"] if self.optimizer.fresh else []),
            *(["lagging"] if self.lags else []),
            *([self.twin] if self.twin == "compressed" else []),
            *([["train", self.train]] if self.train != "network_and_twin" else []),
        ]
        job = {"network_and_twin": program, "twin": f"{program}_twin", "nothing": "predicted"}[self.train]
        parts = (self.architecture.name, str(self.architecture.width), self.task.name, job, digest(key, 8))
        return "_".join(parts)

    @cached_property
    def data_id(self) -> str:
        """Cells with equal data ids train on the same data set."""
        return digest(self._data_key())

    @property
    def trained(self) -> bool:
        """Whether a job trains anything for this cell; otherwise its prediction is all there is."""
        return self.train != "nothing"

    @property
    def has_network(self) -> bool:
        """Whether there is a network to measure."""
        return self.train == "network_and_twin"

    @property
    def lags(self) -> bool:
        """Whether the network's gradient is computed at some steps only (see `dynamics.lagging`)."""
        return self._can_lag and self.optimizer.gradient_error > 0

    @property
    def _can_lag(self) -> bool:
        """Whether there is a network, no quadratic form itself, whose form's gradient is to be had for little."""
        return self.has_network and self.reads_moments and not self.is_own_twin

    @property
    def reads_moments(self) -> bool:
        """Whether second moments tell the gradient of the quadratic form: squared error on the full batch, outputs linear in one order
        parameter."""
        return self.optimizer.batch_size is None and self.task.loss_name == "squared_error" and not self.architecture.layered

    @property
    def is_own_twin(self) -> bool:
        """Whether network and twin are one run (see `Architecture.is_own_twin`)."""
        return self.architecture.is_own_twin(self.optimizer.batch_size)

    @property
    def shares_data(self) -> bool:
        """Whether lanes read one copy of the samples, which no seed changes."""
        return self.task.shared_data and not self.is_own_twin

    @cached_property
    def lane_key(self) -> tuple[int, str]:
        """Lanes of one call share the step grid and, where the network reads samples that no seed changes, the data set (for all seeds)."""
        return self.steps, self.data_id if self.shares_data else ""

    @property
    def epsilon(self) -> float:
        """Scale of the initial order parameters, E z_k(0) = degrees sigma^2."""
        return self.architecture.degrees * self.sigma**2

    @property
    def twin_width(self) -> int:
        """Columns of the twin's factors: `degrees`, or fewer in a compressed twin."""
        return self.architecture.compressed_width if self.twin == "compressed" else self.architecture.degrees

    @property
    def time_scale(self) -> float:
        """Gradient-flow time of one step at the whole learning rate (see `Optimizer.time_scale`)."""
        return self.optimizer.time_scale

    def stream(self, purpose: Purpose) -> np.random.Generator:
        """The random stream for one purpose; equal wherever nothing that matters for it differs.

        Weights depend on the architecture and the seed only, so that one draw serves every sigma, task and optimizer; data on the task,
        the kind of architecture and its input shape, so that one data set serves every width.
        """
        keys: dict[Purpose, Any] = {
            "init": [self.architecture.drawn_as, self.seed],
            "data": self._data_key(),
            "batches": [self._data_key(), self.optimizer.batch_size, self.seed],
            "noise": [self, self.seed],
        }
        return generator([purpose, keys[purpose]])

    def _data_key(self) -> list[Any]:
        return data_key(self.architecture, self.task, None if self.task.shared_data else self.seed, self.fingerprint)

    def problem(self) -> Problem:
        """The data set this cell trains on. Raises ConfigError when its data or module file has changed since the cell was planned."""
        if contents_of(self.architecture, self.task) != self.fingerprint:
            what = " or ".join(name for name, part in (("data file", self.task), ("module's file", self.architecture)) if part.fingerprint)
            raise ConfigError(
                f"cell {self.id}, {self.architecture.name} on {self.task.name}: the {what} has changed since the study was planned, so the "
                "results would belong to another cell; plan the study again"
            )
        return self.task.problem(self.architecture, self.stream("data"))

    def step_grid(self) -> Int[np.ndarray, "records"]:
        """The recorded steps."""
        return step_grid(self.steps, self.records)

    def coordinates(self) -> dict[str, Any]:
        """Flat scalars for data set coordinates and tables. Fields keep their names; where two parts of a cell share one, the later
        part's name goes before (`task_samples`). An absent value (no batch size) is NaN; a sequence is its JSON text."""
        flat: dict[str, Any] = {
            "cell": self.id,
            "bucket": self.bucket,
            "experiment": self.experiment,
            "architecture": self.architecture.name,
            "task": self.task.name,
            "optimizer": self.optimizer.kind,
            "sigma": self.sigma,
            "epsilon": self.epsilon,
            "seed": self.seed,
            "steps": self.steps,
            "records": self.records,
            "precision": self.precision,
            "train": self.train,
            "degrees": self.architecture.degrees,
            "twin_width": self.twin_width,
            "time_scale": self.time_scale,
        }
        for part, model in (("optimizer", self.optimizer), ("architecture", self.architecture), ("task", self.task)):
            for name, value in model:
                if name != "kind":
                    flat[f"{part}_{name}" if name in flat else name] = _scalar(value)
        return flat


def incompressible(architecture: Architecture, optimizer: Optimizer) -> str:
    """Why a twin cannot be compressed; empty where it can."""
    if not optimizer.in_linear_span:
        return f"{optimizer.kind} steps by the size of every single weight, which another width changes"
    if architecture.layered:
        return f"the layers of {architecture.name} share one width, and each would need its own"
    if architecture.degrees <= architecture.compressed_width:
        return f"{architecture.name} has {architecture.degrees} columns and needs {architecture.compressed_width}"
    return ""


def pays(architecture: Architecture, optimizer: Optimizer) -> bool:
    """Whether a compressed twin saves time: where it is the only run. Beside a network its step is a small share of the work."""
    return architecture.is_own_twin(optimizer.batch_size) and not incompressible(architecture, optimizer)


def _scalar(value: Any) -> Any:
    if value is None:
        return float("nan")
    return value if isinstance(value, (str, bool, int, float)) else json.dumps(canonical(value))


def shape_of(task: BaseModel) -> Any:
    """The part of a task that fixes array shapes and program: everything but its real numbers, which are traced.

    A task names real fields that do change shapes (a test fraction) in `shape_fields`.
    """
    kept: frozenset[str] = getattr(type(task), "shape_fields", frozenset())
    return {name: getattr(task, name) if name in kept else _skeleton(getattr(task, name)) for name in identifying_fields(task)}


def _skeleton(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_skeleton(item) for item in value]
    return "real" if isinstance(value, float) else value


def contents_of(architecture: Architecture, task: Task) -> str:
    """Hash of the files that architecture and task read; empty where there are none."""
    found = [part.fingerprint for part in (task, architecture) if part.fingerprint]
    return found[0] if len(found) == 1 else digest(found, 64) if found else ""


def data_key(architecture: Architecture, task: Task, seed: int | None, fingerprint: str = "") -> list[Any]:
    """What a data set depends on; `seed` is None for data shared by all seeds."""
    return [task, architecture.name, list(architecture.input_shape), seed, fingerprint]


def generator(key: Any) -> np.random.Generator:
    """A PCG64 stream seeded by the hash of its key."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy(key))))


def check_records(steps: int, records: int) -> None:
    """Integers 0..steps must hold `records` different ones."""
    if records < 2 or steps < records - 1:
        raise ConfigError(
            f"{records} recorded steps do not fit into {steps} steps: records must be at least 2 and at most steps + 1 = {steps + 1}; "
            "raise `steps` or lower `records`"
        )


@lru_cache(maxsize=1024)
def step_grid(steps: int, records: int) -> Int[np.ndarray, "records"]:
    """Exactly `records` different integers from 0 to `steps`, log-spaced as far as integers allow.

    Each next one is the larger of previous + 1 and the next term of the geometric series from the previous to the last. A geometric
    term never exceeds the arithmetic one, so room for the remaining integers is never lost. Read-only: cells share it.
    """
    check_records(steps, records)
    grid = [0] if records == 2 else [0, 1]
    while len(grid) < records - 1:
        left = records - len(grid)
        grid.append(max(grid[-1] + 1, round(grid[-1] * (steps / grid[-1]) ** (1.0 / left))))
    found = np.array([*grid, steps], dtype=np.int64)
    found.flags.writeable = False
    return found
