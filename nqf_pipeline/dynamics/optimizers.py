"""Optimizers as data: what a study may name. The update rules themselves are optax chains in the training engine.

Two programs serve all of them. The "linear" one, v <- momentum v + gradient + weight_decay W, W <- W - learning_rate v, stays in
the linear span of past gradients, so the moment closure applies (theory: Theorem 2 and Corollary 2). Adam has its own program.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field, model_validator

from nqf_pipeline.dynamics.schedules import Schedule, Shape

Program = Literal["linear", "adam"]

_OWNERS = {"momentum": ("momentum",), "beta1": ("adam",), "beta2": ("adam",), "eps": ("adam",)}
"""Fields that only some kinds read; a value given to any other kind would be ignored, so it is refused."""


def _default_momentum(values: dict[str, Any]) -> float:
    return 0.9 if values.get("kind") == "momentum" else 0.0


class Optimizer(BaseModel):
    """One optimizer with all its numbers resolved."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    kind: Literal["gd", "sgd", "momentum", "adam"] = Field(
        default="gd", description="gradient descent, minibatch gradient descent, Polyak momentum, or Adam"
    )
    learning_rate: float = Field(default=0.02, gt=0, description="step size eta")
    momentum: float = Field(
        default_factory=_default_momentum,
        ge=0,
        lt=1,
        description="Polyak momentum, v <- momentum v + gradient (0.9 for `momentum`, always 0 for other kinds)",
    )
    weight_decay: float = Field(
        default=0.0, ge=0, description="lambda of (lambda/2)|W|^2 added to the loss; decoupled from the gradient in Adam (AdamW)"
    )
    batch_size: int | None = Field(
        default=None, ge=1, description="samples per step, drawn at random; null for the full batch (needed by `sgd`, refused by `gd`)"
    )
    fresh: bool = Field(
        default=False,
        description="online: every batch is drawn anew from the task's distribution, no sample is seen twice; the task's own samples "
        "are held out (needs `batch_size`, and a task that can draw: teacher, teacher_network)",
        json_schema_extra={"absent": False},
    )
    gradient_error: float = Field(
        default=0.0,
        ge=0,
        le=0.1,
        description="above 0 (1e-3, say) a network's gradient is computed only at steps where its quadratic form, corrected by earlier "
        "steps, does not tell it within this share of the gradient; 0: at every step (full batch only; without effect on twins, on losses "
        "other than squared error, and in modules of several layers)",
        json_schema_extra={"absent": 0.0},
    )
    beta1: float = Field(default=0.9, ge=0, lt=1, description="Adam: decay of the first moment")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="Adam: decay of the second moment")
    eps: float = Field(
        default=1e-8, gt=0, description="Adam: added to the root of the second moment; smaller gradients follow plain descent"
    )
    schedule: Shape = Field(
        default="constant",
        description="how the learning rate goes on after the warmup: to `final_share` of itself over `decay_steps` steps, linearly, by "
        "half a cosine, exponentially or in one step at their end",
        json_schema_extra={"absent": "constant"},
    )
    warmup_steps: int = Field(
        default=0, ge=0, description="steps over which the learning rate first rises, linearly", json_schema_extra={"absent": 0}
    )
    decay_steps: int = Field(
        default=0,
        ge=0,
        description="steps of the schedule after the warmup; needed by every one but `constant`",
        json_schema_extra={"absent": 0},
    )
    final_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="share of the learning rate that is left when the schedule has ended (above 0 for `exponential`)",
        json_schema_extra={"absent": 0.0},
    )

    @model_validator(mode="after")
    def _only_fields_in_use(self) -> Optimizer:
        for field in sorted(self.model_fields_set & set(_OWNERS)):
            if self.kind not in _OWNERS[field] and getattr(self, field) != self._neutral(field):
                raise ValueError(f"`{field}` belongs to {' and '.join(_OWNERS[field])}, not to {self.kind}: remove it or change `kind`")
        if self.kind == "sgd" and self.batch_size is None:
            raise ValueError("sgd needs `batch_size`; for the full batch use `kind: gd`")
        if self.kind == "gd" and self.batch_size is not None:
            raise ValueError("gd uses the full batch; with `batch_size` use `kind: sgd`")
        if self.fresh and self.batch_size is None:
            raise ValueError(
                "`fresh` draws a new batch at every step, so it needs `batch_size`; without it the full batch is used: remove `fresh`"
            )
        if self.gradient_error and self.batch_size is not None:
            raise ValueError(
                "`gradient_error` carries what is known of the full batch's gradient from step to step, and every minibatch has another: "
                "remove one of `gradient_error` and `batch_size`"
            )
        self._check_schedule()
        return self

    def _check_schedule(self) -> None:
        if self.schedule == "constant" and (self.decay_steps or self.final_share):
            raise ValueError("`decay_steps` and `final_share` belong to a schedule: remove them or give `schedule` (linear, cosine, ...)")
        if self.schedule != "constant" and not self.decay_steps:
            raise ValueError(f"schedule {self.schedule} needs `decay_steps`, the steps it takes after the warmup")
        if self.schedule == "exponential" and not self.final_share:
            raise ValueError("an exponential schedule never reaches 0: give `final_share` above 0, or use `linear` or `cosine`")

    def _neutral(self, field: str) -> Any:
        return 0.0 if field == "momentum" else type(self).model_fields[field].default

    @property
    def program(self) -> Program:
        """Which compiled update serves this optimizer; its numbers are traced."""
        return "adam" if self.kind == "adam" else "linear"

    @property
    def in_linear_span(self) -> bool:
        """W_t = P_t W_0 + Q_t 1^T holds (Corollary 2), so the closure in (M, mu) is exact for the twin."""
        return self.program == "linear"

    @property
    def time_scale(self) -> float:
        """Gradient-flow time of one step: eta / (1 - momentum); for Adam, which has no such limit, eta itself."""
        return self.learning_rate / (1.0 - self.momentum) if self.program == "linear" else self.learning_rate

    @property
    def timetable(self) -> Schedule | None:
        """The schedule; None where every step takes the whole learning rate."""
        if self.schedule == "constant" and not self.warmup_steps:
            return None
        return Schedule(self.schedule, self.warmup_steps, self.decay_steps, self.final_share)

    def full_steps(self, step: Float[Any, "..."]) -> Float[np.ndarray, "..."]:
        """Steps at the whole learning rate that add up to as much as the scheduled ones before `step`."""
        return np.asarray(step) if self.timetable is None else self.timetable.elapsed(step)

    def scheduled_steps(self, full_steps: Float[Any, "..."]) -> Float[np.ndarray, "..."]:
        """The inverse; inf where the schedule ends before."""
        return np.asarray(full_steps) if self.timetable is None else self.timetable.steps_to(full_steps)

    def flow_time(self, step: Float[Any, "..."]) -> Float[np.ndarray, "..."]:
        """Gradient-flow time of a step: the integral of the learning rate, over (1 - momentum)."""
        return np.asarray(self.full_steps(step) * self.time_scale)
