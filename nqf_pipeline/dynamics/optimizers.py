"""Optimizers as data: what a study may name. The update rules themselves are optax chains in the training engine.

Two programs serve all of them. The "linear" one, v <- momentum v + gradient + weight_decay W, W <- W - learning_rate v, stays in
the linear span of past gradients, so the moment closure applies (theory: Theorem 2 and Corollary 2). Adam has its own program.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

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
    beta1: float = Field(default=0.9, ge=0, lt=1, description="Adam: decay of the first moment")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="Adam: decay of the second moment")
    eps: float = Field(
        default=1e-8, gt=0, description="Adam: added to the root of the second moment; smaller gradients follow plain descent"
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
        return self

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
