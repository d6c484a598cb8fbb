"""The config of a study: one model tree that validates, documents and generates the schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Union

from pydantic import BeforeValidator, Discriminator, Field, PositiveInt, PrivateAttr, Tag, model_validator

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import ARCHITECTURES
from nqf_pipeline.study.axes import DEFAULT, Strict, axis_model, axis_of, kinds_of
from nqf_pipeline.study.cells import Precision, Trained, check_records
from nqf_pipeline.study.document import Document
from nqf_pipeline.study.errors import fails, raise_all
from nqf_pipeline.study.spelling import no_such
from nqf_pipeline.tasks import TASKS

SCHEMA = 2
"""Version of manifest and results folder; raised when an older one can no longer be read."""
NAME, SIZE = r"^[a-z0-9][a-z0-9_-]*$", r"^[0-9.]+ ?[kKMGT]i?B$"
"""Spellings of a study's name and of an amount of memory."""
Problem = tuple[tuple[str | int, ...], str]
"""Key path and message."""
Positive = Annotated[float, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(gt=0, lt=1)]

OptimizerAxes: Any = axis_model(Optimizer, frozenset({"learning_rate"}))
PositiveAxis: Any = axis_of(Positive)
ArchitectureAxes: Any = Annotated[Union[tuple(axis_model(c) for c in ARCHITECTURES.values())], Field(discriminator="kind")]  # noqa: UP007
TaskAxes: Any = Annotated[Union[tuple(axis_model(c) for c in TASKS.values())], Field(discriminator="kind")]  # noqa: UP007


class Horizon(Strict):
    """How `steps: auto` chooses the number of steps of a cell."""

    margin: float = Field(default=1.5, ge=1, description="steps are this many times the predicted ignition of the last mode asked for")
    mode: int | None = Field(
        default=None, ge=1, description="number of the last mode asked for; null for all watched modes (of a large ensemble the first 30 %)"
    )
    at_least: PositiveInt = Field(default=1, description="never fewer steps than this")
    at_most: PositiveInt = Field(default=1_000_000, description="never more steps than this; `nqf plan` names the cells that it cuts short")


class Auto(Strict):
    """Steps from the predicted ignition, with settings."""

    auto: Horizon = Field(description="settings of the automatic horizon")


def _steps_shape(value: Any) -> str:
    if isinstance(value, dict):
        return "settings" if "auto" in value else "mapping"
    if isinstance(value, Auto):
        return "settings"
    return "word" if isinstance(value, str) else "number"


StepsRule = Annotated[
    Annotated[PositiveInt, Tag("number")] | Annotated[Literal["auto"], Tag("word")] | Annotated[Auto, Tag("settings")],
    Discriminator(_steps_shape),
]
Steps = Annotated[
    Annotated[PositiveInt, Tag("number")]
    | Annotated[Literal["auto"], Tag("word")]
    | Annotated[Auto, Tag("settings")]
    | Annotated[dict[str, StepsRule], Tag("mapping")],
    Discriminator(_steps_shape),
]


def _seed_list(value: Any) -> Any:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if value < 1:
        raise ValueError("must be 1 or more (how many seeds), or a list of seeds")
    return list(range(value))


Seeds = Annotated[list[Natural], Field(min_length=1), BeforeValidator(_seed_list, json_schema_input_type=PositiveInt | list[Natural])]


class Experiment(Strict):
    """A grid: every architecture with every task, optimizer, sigma and seed."""

    architectures: list[ArchitectureAxes] = Field(min_length=1, description="networks; any field may be a list of values")
    tasks: list[TaskAxes] = Field(min_length=1, description="what is learnt; any field may be a list of values")
    optimizers: list[OptimizerAxes] = Field(
        min_length=1,
        description="how it is learnt; any field may be a list of values, `learning_rate` also a mapping by architecture "
        "(`{mlp: 0.05, default: 0.02}`)",
    )
    sigma: PositiveAxis = Field(default=[], description="standard deviation of the initial weights")
    epsilon: PositiveAxis = Field(
        default=[], description="another way to give sigma, by the scale of the initial order parameters: sigma = sqrt(epsilon / degrees)"
    )
    seeds: Seeds = Field(default=[0, 1, 2, 3], description="draws of weights, data and batches: how many (counted from 0), or a list")
    steps: Steps = Field(
        default="auto",
        description="optimizer steps: a number, `auto` (from the predicted ignition), `{auto: {...}}`, or a mapping of these with keys "
        "`architecture/optimizer`, optimizer, architecture or `default` (the first that applies, in this order)",
    )
    records: int = Field(default=256, ge=2, description="recorded steps of a cell, log-spaced, first and last included")
    precision: Precision = Field(default="float32", description="floating-point format of network and twin (predictions are float64)")
    twin: Literal["full", "compressed", "auto"] = Field(
        default="full",
        description="width of the twins: `full`, that of the network; `compressed`, the smallest that gives the same predictions at every "
        "step (not for Adam); `auto`: compressed where it saves time, in wide modules whose twin is the only run",
    )
    train: Trained = Field(
        default="network_and_twin",
        description="what is trained: `network_and_twin`, side by side; `twin`, the quadratic form alone, at a small share of the "
        "price; or `nothing`: cells are only predicted, by closed forms, Lotka-Volterra or the closure in the order parameter",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Experiment:
        raise_all("Experiment", [*self._scale_problems(), *self._rate_problems(), *self._steps_problems()])
        return self

    def _scale_problems(self) -> Iterator[Problem]:
        if not self.sigma and not self.epsilon:
            yield (), "needs `sigma` or `epsilon`, the scale of the initial weights: without it the grid is empty"

    def _rate_problems(self) -> Iterator[Problem]:
        needed = {item.kind for item in self.architectures}
        for position, item in enumerate(self.optimizers):
            place = ("optimizers", position, "learning_rate")
            keys = item.named_architectures()
            yield from _unknown(place, keys, ARCHITECTURES)
            if keys and DEFAULT not in keys and needed - keys:
                yield place, f"has no value for {', '.join(sorted(needed - keys))}: add that key or `{DEFAULT}`"

    def _steps_problems(self) -> Iterator[Problem]:
        rules = self.steps if isinstance(self.steps, dict) else {}
        pairs = {f"{a}/{o}" for a in ARCHITECTURES for o in kinds_of(Optimizer)}
        yield from _unknown(("steps",), set(rules) - pairs, [*ARCHITECTURES, *kinds_of(Optimizer), "architecture/optimizer"])
        for architecture in self.architectures:
            for optimizer in self.optimizers:
                keys = step_keys(architecture.kind, optimizer.kind)
                if rules and not {*keys, DEFAULT} & set(rules):
                    yield ("steps",), f"has no value for {keys[0]}: add one of the keys {', '.join(keys)}, {DEFAULT}"
        numbers: dict[tuple[str, ...], Any] = {("steps", key): rule for key, rule in rules.items() if isinstance(rule, int)}
        for place, steps in (numbers or {("steps",): self.steps}).items():
            message = fails(check_records, steps, self.records) if isinstance(steps, int) else None
            if message:
                yield place, message


def step_keys(architecture: str, optimizer: str) -> tuple[str, str, str]:
    """The keys of a `steps` mapping that apply, most specific first."""
    return f"{architecture}/{optimizer}", optimizer, architecture


def _unknown(place: tuple[str | int, ...], keys: Iterable[str], known: Iterable[str]) -> Iterator[Problem]:
    names = [*known, DEFAULT]
    for key in sorted(keys):
        if key not in names:
            yield (*place, key), no_such("key", key, names)


class DaskSettings(Strict):
    """Where the analysis runs. Its tables are the same bytes wherever that is, and changing it makes nothing run again."""

    kind: Literal["auto", "threads", "processes", "slurm"] = Field(
        default="auto",
        description="`threads` of one process, `processes` pinned to the granted cores, jobs of a SLURM queue, or `auto`: processes for "
        "thousands of cells, else threads",
    )
    workers: PositiveInt = Field(default=2, description="most threads or processes (never more than granted cores), or jobs in the queue")
    memory: str = Field(default="4GB", pattern=SIZE, description="memory of one process or job")
    minutes: PositiveInt = Field(default=60, description="time limit of one job")
    queue: str | None = Field(default=None, description="SLURM partition; null: the cluster's default")
    account: str | None = Field(default=None, description="SLURM account; null: the user's default")
    interface: str | None = Field(default=None, description="network interface by which jobs reach the analysis, such as ib0; null: found")
    options: list[str] = Field(default=[], description="further options of sbatch, such as `--qos=long`")
    patience: PositiveInt = Field(default=30, description="minutes to wait for the first job to start")

    @property
    def cores(self) -> int:
        """What the analysis uses of its own machine: one where the workers are jobs of their own."""
        return 1 if self.kind == "slurm" else self.workers

    @property
    def ignored(self) -> list[str]:
        """What was given for jobs of a queue where there are none, with the way out."""
        given = [name for name in ("queue", "account", "interface", "options") if getattr(self, name)] if self.kind != "slurm" else []
        if not given:
            return []
        return [
            f"engine.dask.{', '.join(given)}: used by `kind: slurm` only, and kind is `{self.kind}`: write `kind: slurm`, or leave it out"
        ]


def _dask_word(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


_DaskInput: Any = Literal["auto", "threads", "processes", "slurm"] | DaskSettings


class EngineSettings(Strict):
    """How the work is cut into jobs. Nothing here changes a cell's identity."""

    lane_width: int = Field(default=4, ge=1, description="cells that one core advances together; frozen with each shard")
    minutes_per_job: Positive | Literal["auto"] = Field(
        default="auto",
        description="work that one job is cut to, by the pilot's rates (`nqf plan --pilot`) or the static cost model; frozen with each "
        "shard. `auto`: half a minute, and more where that would make more than some 200 jobs",
    )
    seconds_per_job: Positive | None = Field(default=None, description="former name of `minutes_per_job`, in seconds; give one of the two")
    device: Literal["cpu", "gpu"] = Field(
        default="cpu", description="what trains float32 cells: `gpu` needs an accelerator where the jobs run (float64 stays on the CPU)"
    )
    gpu_lanes: PositiveInt = Field(default=256, description="cells that an accelerator advances together, at most; frozen with each shard")
    limit_hours: Positive = Field(
        default=24.0, description="a job ends itself after this time: trained cells are kept, the others get status `timed_out`"
    )
    attempts: PositiveInt = Field(
        default=5,
        description="a shard whose job was ended from outside (memory, SIGKILL, power) this often is not tried again: status `killed`",
    )
    workers: PositiveInt = Field(
        default=2, description="cores that the plan counts with and that the merge uses (never more than `--cores`)"
    )
    dask: Annotated[DaskSettings, BeforeValidator(_dask_word, json_schema_input_type=_DaskInput)] = Field(
        default=DaskSettings(), description="where the analysis runs: `auto`, `threads`, `processes` or `slurm`, or a mapping with settings"
    )

    @model_validator(mode="after")
    def _one_target(self) -> EngineSettings:
        if self.seconds_per_job is not None and self.minutes_per_job != "auto":
            raise ValueError("`seconds_per_job` is the former name of `minutes_per_job`: remove it")
        return self

    @property
    def job_seconds(self) -> float | None:
        """The target duration of a job; None where the plan chooses it."""
        return self.seconds_per_job if self.minutes_per_job == "auto" else 60.0 * self.minutes_per_job

    @property
    def renamed(self) -> list[str]:
        """Keys in use that have another name now, with the way out."""
        if self.seconds_per_job is None:
            return []
        new = f"minutes_per_job: {self.seconds_per_job / 60:.3g}"
        return [f"engine.seconds_per_job is now called minutes_per_job: write `{new}` (both work, no shard changes)"]


class WindowRule(Strict):
    """Where a loss curve is fitted."""

    first_mode: PositiveInt = Field(default=3, description="mode whose ignition opens the window")
    last_share: Share = Field(default=0.1, description="share of all modes that may have ignited when the window closes")
    decades: Positive = Field(default=0.5, description="shortest window, in decades of time, that is given an exponent")


class AnalysisSettings(Strict):
    """How results are measured. Changing these never retrains a cell."""

    rho: Share = Field(default=0.5, description="share of a mode's target at which it counts as ignited")
    confidence: Share = Field(default=0.95, description="coverage of every interval")
    window: WindowRule = Field(default=WindowRule(), description="where exponents are fitted")


class ReportSettings(Strict):
    """Figures and report. Changing these never retrains a cell."""

    figures: Literal["all"] | list[str] = Field(
        default="all",
        description="figures to draw, by name, or `all`: those that any study may fill (`figure2`, `collapse` and the like only by name)",
    )
    formats: list[Literal["svg", "png", "pdf"]] = Field(default=["svg", "png"], min_length=1, description="files written for each figure")
    style: Literal["ticks", "whitegrid", "white"] = Field(default="ticks", description="seaborn style")
    palette: str = Field(default="colorblind", description="seaborn palette")
    dpi: int = Field(default=160, ge=50, le=600, description="resolution of png figures")
    sigma: Positive | None = Field(default=None, description="sigma whose curves are drawn; null: the smallest of each experiment")
    optimizer: Literal["gd", "sgd", "momentum", "adam"] = Field(default="gd", description="optimizer whose curves are drawn")
    seed: Natural | None = Field(default=None, description="seed whose curves are drawn; null: the first")


class Study(Strict):
    """One study: its experiments and how they are run, measured and shown."""

    name: str = Field(pattern=NAME, description="name of the results folder: lower-case letters, digits, `-` and `_`")
    experiments: dict[str, Experiment] = Field(min_length=1, description="grids of cells, by name (a label: renaming one retrains nothing)")
    engine: EngineSettings = Field(default=EngineSettings(), description="how the work is cut into jobs")
    analysis: AnalysisSettings = Field(default=AnalysisSettings(), description="how results are measured")
    report: ReportSettings = Field(default=ReportSettings(), description="figures and report")
    _document: Document = PrivateAttr(default=Document(None, "config"))

    @property
    def document(self) -> Document:
        """The file this study was read from, for messages and for paths relative to it."""
        return self._document

    def as_given(self) -> dict[str, Any]:
        """Plain data to store: experiments as they were written, settings with their defaults. It validates to the same study."""
        settings = {name: getattr(self, name).model_dump(mode="json") for name in ("engine", "analysis", "report")}
        return {**self.model_dump(mode="json", exclude_unset=True), **settings}

    def read_from(self, document: Document) -> Study:
        """The same study, remembering its file."""
        copy = self.model_copy()
        copy._document = document
        return copy
