"""Learning-rate schedules: the share of `learning_rate` that each step takes, and with it a change of time.

One function for NumPy and JAX, so that training and theory read the same schedule; its numbers may be traced. The shapes are those of
optax (linear_schedule, cosine_decay_schedule, exponential_decay with an end, piecewise_constant_schedule), after a linear warmup. A
scheduled gradient flow is the unscheduled one in the time that the shares add up to; weight decay and momentum are unchanged by it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.forms.structure import namespace

Array = Any
Shape = Literal["constant", "linear", "cosine", "exponential", "step"]
SHAPES: tuple[Shape, ...] = get_args(Shape)


class Schedule(NamedTuple):
    """The share of the learning rate: 1 at the end of the warmup, `final_share` from `decay_steps` later on."""

    shape: Shape
    warmup_steps: int
    decay_steps: int
    final_share: float

    def share(self, step: Int[Array, "..."]) -> Float[Array, "..."]:
        """Of the steps counted from 0."""
        step = namespace(step).asarray(step, dtype=float)
        return share(self.shape, step, self.warmup_steps, self.decay_steps, self.final_share)

    def elapsed(self, step: Float[Array, "..."]) -> Float[np.ndarray, "..."]:
        """Sum of the shares of all steps before these, linear in between: full steps that take the learner as far."""
        steps, settled = np.asarray(step, float), self.warmup_steps + self.decay_steps
        inside = np.interp(np.minimum(steps, settled), np.arange(settled + 1), self._running_sum)
        late = steps > settled
        return np.asarray(inside + (np.where(late, steps - settled, 0.0) * self.final if self.final > 0 else 0.0))

    def steps_to(self, elapsed: Float[Array, "..."]) -> Float[np.ndarray, "..."]:
        """The inverse; inf where the learning rate has gone to zero before."""
        wanted, total, settled = np.asarray(elapsed, float), self._running_sum, self.warmup_steps + self.decay_steps
        inside = np.interp(np.minimum(wanted, total[-1]), total, np.arange(settled + 1))
        late = wanted > total[-1]
        beyond = np.where(late, wanted - total[-1], 0.0) / self.final if self.final > 0 else np.where(late, np.inf, 0.0)
        return np.asarray(inside + beyond)

    @property
    def final(self) -> float:
        """Share once everything has settled."""
        return 1.0 if self.shape == "constant" else self.final_share

    @property
    def _running_sum(self) -> Float[np.ndarray, "steps+1"]:
        steps = np.arange(self.warmup_steps + self.decay_steps)
        return np.concatenate([[0.0], np.cumsum(self.share(steps))])


def share(shape: Shape, step: Array, warmup_steps: Array, decay_steps: Array, final_share: Array) -> Array:
    """The share of the learning rate that these steps take."""
    xp = namespace(step)
    rise = xp.minimum((step + 1.0) / xp.maximum(warmup_steps, 1), 1.0)
    progress = xp.clip((step - warmup_steps) / xp.maximum(decay_steps, 1), 0.0, 1.0)
    if shape == "constant":
        return rise
    if shape == "linear":
        return rise * (1 - (1 - final_share) * progress)
    if shape == "cosine":
        return rise * (final_share + (1 - final_share) * (1 + xp.cos(np.pi * progress)) / 2)
    if shape == "exponential":
        return rise * final_share**progress
    return rise * xp.where(progress < 1, 1.0, final_share)
