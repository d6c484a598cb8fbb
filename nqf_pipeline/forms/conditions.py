"""Is a module an NQF? The conditions of Theorem 1, measured on the module itself (theory: section 1).

Everything is read from values and directional derivatives at random weights, in double precision: no matrix of size
unit_size is formed, so that any module can be checked. Defects are relative to the size of what they are a defect of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, TypeVar

import lazy_loader
import numpy as np
from jaxtyping import Float

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.calling import Module, as_inputs, flat, foreign, refuse_unusable
from nqf_pipeline.forms.taylor import quadratic_form

Array = Any
T = TypeVar("T")
jax = lazy_loader.load("jax")

SEED = 20260813
DEFECT = 1e-9
"""Relative defects up to this are rounding."""
SCALES = (0.5, 0.05, 0.005)
"""Standard deviations of the random weights that conditions are checked at: the first at which the module is finite."""
DIRECTIONS, PERMUTATIONS = 4, 8
MANY = 32
"""Units, or pairs of units, that are looked at one by one."""
STEPS = (1e-2, 1e-4, 1e-6, 1e-8)
"""Distances from the origin at which one-sided derivatives are taken."""
JUMP = 1e-2
"""Share of a derivative by which its two one-sided values may differ at the smallest step."""
ROUNDING = (1e-12, 1e-12, 1e-8, 1e-5)
"""Derivatives (value, slope, ...) below this share of the output are rounding at the smallest steps."""
SHRINK = 0.5 ** np.arange(28)
"""Weight scales at which the remainder is measured."""
NOISE = 300.0
"""Remainders below this many roundings of the output have no order."""
VALID = 0.1
"""Share of the quadratic part up to which a remainder is called small."""


@dataclass(frozen=True)
class Conditions:
    """What was measured. `None`: not measurable, since the module has no value or no derivative there."""

    width: int
    unit_size: int
    finite: bool
    """The module has a value at zero weights."""
    finite_around: bool
    """It has one at random weights of some scale."""
    permutation_defect: float | None = None
    sign_defect: float | None = None
    """Change under w_i -> -w_i of one unit."""
    additive_defect: float | None = None
    """Difference from the sum over units taken alone."""
    gradient_at_zero: float | None = None
    """|g| relative to the curvature."""
    gradient_among_others: float | None = None
    """The gradient of a unit at zero while the others are not."""
    cross_curvature: float | None = None
    """|H_ij| between two units, relative to that of one."""
    curvature_spread: float | None = None
    """Differences of the curvature from unit to unit."""
    curvature: float | None = None
    """|H_ii| itself: zero when the module has no quadratic part."""
    jump: int | None = None
    """Order of the first derivative whose one-sided values at zero differ (0: the value itself); None when none up to the third."""
    remainder_order: float | None = None
    """None when there is no remainder (exactly quadratic) or no expansion."""
    exactly_quadratic: bool = False
    valid_to: float | None = None
    """Largest weight standard deviation at which the remainder is below a tenth of the quadratic part."""


def check(apply: Module, x: Array, width: int, unit_size: int) -> Conditions:
    """Measure the conditions of `apply(W, x)`, W of shape (unit_size, width), at the input(s) x.

    Raises InputError when the module cannot be called; everything else is a finding.
    """
    if width < 1 or unit_size < 1:
        raise InputError(f"width = {width} and unit_size = {unit_size} must both be 1 or more: a module has at least one unit")
    with foreign("check of the module"):
        inputs = as_inputs(x)
        refuse_unusable(apply, inputs, (unit_size, width))
        return _Probe(flat(apply, inputs), (unit_size, width)).measure()


class _Probe:
    """The module as compiled functions of batches of weights."""

    def __init__(self, module: Callable[[Array], Array], shape: tuple[int, int]) -> None:
        self.shape = shape
        self.rng = np.random.default_rng(SEED)
        self.size = 1.0
        """Typical output."""
        self.value = _on_arrays(jax.vmap(module))
        self.twin = _on_arrays(jax.vmap(quadratic_form(module)))
        self.second = _on_arrays(jax.vmap(lambda at, a, b: _second(module, at, a, b)))
        self.line = _on_arrays(jax.vmap(lambda direction, t: _line(module, direction, t)))

    def measure(self) -> Conditions:
        unit_size, width = self.shape
        origin = self.value(np.zeros((DIRECTIONS, *self.shape)))[0]
        scale = next((s for s in SCALES if np.isfinite(self.value(s * self.draw())).all()), None)
        base = Conditions(width, unit_size, bool(np.isfinite(origin).all()), scale is not None)
        if scale is None:
            return base
        weights = scale * self.draw()
        base = replace(base, permutation_defect=self.permutation(weights), sign_defect=self.sign(weights))
        if not base.finite:
            return base
        self.size = float(np.abs(self.value(weights)).max() + np.abs(origin).max())
        base = replace(base, additive_defect=self.additive(weights, origin), jump=self.jump())
        return replace(base, **self.at_zero(weights), **self.remainder(origin))

    def draw(self, count: int = DIRECTIONS) -> Float[np.ndarray, "count unit_size width"]:
        return self.rng.standard_normal((count, *self.shape))

    def some(self, choices: Sequence[T]) -> Sequence[T]:
        """All of a few choices, or as many at random, the first and the last among them."""
        if len(choices) <= MANY:
            return choices
        between = self.rng.choice(len(choices) - 2, MANY - 2, replace=False) + 1
        return [choices[0], *(choices[int(i)] for i in sorted(between)), choices[-1]]

    def permutation(self, weights: Array) -> float:
        """Relabel the units, every draw by itself: one exchange of neighbours, the rest at random."""
        width = self.shape[1]
        orders = [np.roll(np.arange(width), 1), *(self.rng.permutation(width) for _ in range(PERMUTATIONS - 1))]
        values = self.value(weights)
        moved = [self.value(weights[:, :, order]) for order in orders]
        return _relative(np.array(moved) - values, self.change(weights), values)

    def sign(self, weights: Array) -> float:
        values = self.value(weights)
        flipped = [self.value(np.concatenate([-weights[:, :, :1], weights[:, :, 1:]], axis=2))]
        flipped.append(self.value(np.concatenate([weights[:, :, :-1], -weights[:, :, -1:]], axis=2)))
        return _relative(np.array(flipped) - values, self.change(weights), values)

    def change(self, weights: Array) -> Array:
        """f(W) - f(0), or f(W) where zero weights have no value."""
        return self.value(weights) - np.nan_to_num(self.value(0 * weights), posinf=0, neginf=0)

    def additive(self, weights: Array, origin: Array) -> float:
        values = self.value(weights)
        alone = sum(self.value(_only(weights, unit)) - origin for unit in range(self.shape[1]))
        return _relative(alone - (values - origin), values - origin, values)

    def at_zero(self, weights: Array) -> dict[str, Any]:
        """First and second derivatives at the origin along single units, and at zero of one unit while the others are as drawn."""
        units = self.some(range(self.shape[1]))
        directions = self.draw()[:, :, :1]
        zero = np.zeros_like(weights)
        one = [self.second(zero, _place(directions, unit, self.shape), _place(directions, unit, self.shape)) for unit in units]
        slopes, curvatures = (np.array(part) for part in zip(*one, strict=True))
        others = [self.second(_without(weights, unit), _place(directions, unit, self.shape), weights)[0] for unit in units]
        size = float(np.abs(curvatures).max())
        between = self._cross(directions) if self.shape[1] > 1 else np.zeros(1)
        reference = size or float(np.abs(self.change(weights)).max()) or 1.0
        return {
            "gradient_at_zero": float(np.abs(slopes).max()) / reference,
            "gradient_among_others": float(np.abs(others).max()) / reference,
            "cross_curvature": float(np.abs(between).max()) / reference,
            "curvature_spread": float(np.abs(curvatures - curvatures[:1]).max()) / reference,
            "curvature": size,
        }

    def _cross(self, directions: Array) -> Array:
        """H_ij along random directions."""
        pairs = self.some(list(combinations(range(self.shape[1]), 2)))
        other = self.draw()[:, :, :1]
        zero = np.zeros((len(directions), *self.shape))
        return np.array([self.second(zero, _place(directions, i, self.shape), _place(other, j, self.shape))[1] for i, j in pairs])

    def jump(self) -> int | None:
        """Order of the first one-sided derivative (value, slope, ...) that differs left and right of the origin, along random lines."""
        directions = self.draw(2 * DIRECTIONS)
        for order, (right, left) in enumerate(zip(*(self._sided(directions, sign) for sign in (1, -1)), strict=True)):
            size = np.maximum(np.abs(right), np.abs(left)).max(1)
            gap = np.abs(right - left).max(1)
            # At the two smallest steps, since rounding may fake it at the last.
            if not np.isfinite(gap).all() or all(self._jumps(gap, size, order, step) for step in (-2, -1)):
                return order
        return None

    def _jumps(self, gap: Array, size: Array, order: int, step: int) -> bool:
        """A smooth derivative's gap is small and shrinks with the step; that of a jump does neither."""
        return bool(gap[step] > JUMP * max(size[step], gap[:step].max()) and size[step] > ROUNDING[order] * self.size)

    def _sided(self, directions: Array, sign: int) -> Float[np.ndarray, "orders steps directions*outputs"]:
        found = [self.line(directions, np.full(len(directions), sign * step)) for step in STEPS]
        return np.array([[np.ravel(derivative) for derivative in at] for at in found]).swapaxes(0, 1)

    def remainder(self, origin: Array) -> dict[str, Any]:
        """Order in the scale of W of the difference from the second-order Taylor polynomial."""
        directions = self.draw()
        value, twin = (np.array([f(scale * directions) for scale in SHRINK]) for f in (self.value, self.twin))
        if not np.isfinite(twin).all():
            return {}
        gap = np.abs(value - twin).max((1, 2))
        part = np.abs(twin - origin).max((1, 2))
        rounding = np.finfo(float).eps * (np.abs(twin).max((1, 2)) + np.abs(origin).max())
        clear = np.isfinite(gap) & (gap > NOISE * rounding)
        # Valid from the scale below which every one is.
        first = np.flatnonzero(~(gap <= VALID * part + NOISE * rounding)).max(initial=-1) + 1
        valid_to = float(SHRINK[first]) if first < len(SHRINK) else 0.0
        slopes = [np.log2(gap[i] / gap[j]) for i, j in pairwise(range(len(gap))) if clear[i] and clear[j]]
        order = _rounded(float(slopes[-1])) if slopes else None
        return {"remainder_order": order, "exactly_quadratic": not clear.any() and np.isfinite(gap).all().item(), "valid_to": valid_to}


def _on_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled, NumPy arrays in and out."""
    # Each program runs a few times on small arrays: compiling it takes longer than running it unoptimised.
    compiled = jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})
    return lambda *arguments: jax.tree.map(np.asarray, compiled(*arguments))


def _second(module: Callable[[Array], Array], at: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """(D f[a], D^2 f[a, b]) at some weights."""
    return jax.jvp(lambda w: jax.jvp(module, (w,), (a,))[1], (at,), (b,))


def _line(module: Callable[[Array], Array], direction: Array, t: Array) -> tuple[Array, ...]:
    """Value and first three derivatives of f(t direction) in t."""

    def along(s: Array) -> Array:
        return module(s * direction)

    def slope(s: Array) -> Array:
        return jax.jvp(along, (s,), (jax.numpy.ones_like(s),))[1]

    def bend(s: Array) -> Array:
        return jax.jvp(slope, (s,), (jax.numpy.ones_like(s),))[1]

    second, third = jax.jvp(bend, (t,), (jax.numpy.ones_like(t),))
    return along(t), slope(t), second, third


def _place(directions: Float[Array, "count unit_size 1"], unit: int, shape: tuple[int, int]) -> Array:
    """Directions that move one unit alone."""
    full = np.zeros((len(directions), *shape))
    full[:, :, unit] = directions[:, :, 0]
    return full


def _without(weights: Array, unit: int) -> Array:
    kept = weights.copy()
    kept[:, :, unit] = 0
    return kept


def _only(weights: Array, unit: int) -> Array:
    return weights - _without(weights, unit)


def _relative(gap: Array, size: Array, values: Array) -> float:
    """Largest gap over the largest size, less what rounding of the values may add."""
    clear = max(float(np.abs(gap).max()) - NOISE * np.finfo(float).eps * float(np.abs(values).max()), 0.0)
    return clear / (float(np.abs(size).max()) or 1.0)


def _rounded(order: float) -> float:
    """A whole number where the slope is one within measurement, else one decimal."""
    nearest = round(order)
    return float(nearest) if abs(order - nearest) < 0.1 else round(order, 1)
