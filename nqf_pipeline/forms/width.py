"""How g, A and B of a module scale with its width: what stays of the tangent kernel when a module grows (theory: section 2, Proposition 8).

At independent random weights the kernel is d |g|^2 + 4 Tr[A A' M] + ..., with M = d sigma^2 on the diagonal. Its first part never changes
in training (lazy), the second is what features learn; both have an exponent in the width at fixed sigma.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import lazy_loader
import numpy as np
from jaxtyping import Float

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.calling import Module, as_inputs, flat, foreign, refuse_unusable
from nqf_pipeline.forms.conditions import DEFECT, SEED

Array = Any
jax = lazy_loader.load("jax")
WIDTHS = (8, 16, 32, 64)
DIRECTIONS = 4


@dataclass(frozen=True)
class WidthScaling:
    """Sizes along the same random directions at each width, and the exponents in the width; None for a part that is zero."""

    widths: tuple[int, ...]
    g: Float[np.ndarray, "widths"]
    A: Float[np.ndarray, "widths"]
    B: Float[np.ndarray, "widths"]

    @property
    def exponents(self) -> dict[str, float | None]:
        """Exponents of g, A, B and of the two parts of the kernel, which are d g^2 and d A^2."""
        found = {name: self._exponent(getattr(self, name)) for name in ("g", "A", "B")}
        for name, part in (("fixed_kernel", "g"), ("feature_kernel", "A")):
            exponent = found[part]
            found[name] = None if exponent is None else 1 + 2 * exponent
        return found

    @property
    def lazy(self) -> bool | None:
        """With growing width the fixed part of the kernel outgrows the learnt one; None where both grow alike."""
        fixed, learnt = self.exponents["fixed_kernel"], self.exponents["feature_kernel"]
        if fixed is None or learnt is None:
            return fixed is not None
        return None if abs(fixed - learnt) < 0.1 else fixed > learnt

    def _exponent(self, size: Array) -> float | None:
        largest = max(self.g.max(), self.A.max(), self.B.max())
        if not (size > DEFECT * largest).all():
            return None
        return float(np.polyfit(np.log(self.widths), np.log(size), 1)[0])


def width_scaling(module: Callable[[int], Module], x: Array, unit_size: int, widths: Sequence[int] = WIDTHS) -> WidthScaling:
    """Measure a module at several widths; `module(width)` is the apply(W, x) of that width, `lambda width: apply` for a plain function."""
    if len(widths) < 2 or min(widths) < 2:
        raise InputError(f"widths {tuple(widths)}: give at least two, each of two units or more: B couples pairs of units")
    rng = np.random.default_rng(SEED)
    first, second = rng.standard_normal((2, DIRECTIONS, unit_size))
    with foreign("the module at several widths"):
        inputs = as_inputs(x)
        sizes = np.array([_sizes(module(width), inputs, (unit_size, width), first, second) for width in widths]).T
    return WidthScaling(tuple(widths), *sizes)


def _sizes(apply: Module, x: Array, shape: tuple[int, int], first: Array, second: Array) -> tuple[float, float, float]:
    """|g|, |A| and |B| along random directions, in the (M, mu) convention: B = H_ij / 2, A = (H_ii - H_ij) / 2."""
    refuse_unusable(apply, x, shape)
    module = flat(apply, x)

    def along(a: Array, b: Array) -> tuple[Array, Array, Array]:
        def curvature(left: Array, right: Array) -> tuple[Array, Array]:
            return jax.jvp(lambda w: jax.jvp(module, (w,), (left,))[1], (jax.numpy.zeros(shape),), (right,))

        left, same, other = (jax.numpy.zeros(shape).at[:, unit].set(vector) for unit, vector in ((0, a), (0, b), (1, b)))
        slope, own = curvature(left, same)
        cross = curvature(left, other)[1]
        return slope, (own - cross) / 2, cross / 2

    found = jax.jit(jax.vmap(along))(first, second)
    return tuple(float(np.sqrt(np.mean(np.asarray(part) ** 2))) for part in found)  # type: ignore[return-value]  # three parts
