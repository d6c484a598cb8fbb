"""What the measured conditions mean: a verdict, and the reasons in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from nqf_pipeline.forms.conditions import DEFECT, Conditions

Name = Literal["nqf", "nqf_general", "nqf_distinct_units", "not_symmetric", "not_smooth", "not_evaluable"]
SMOOTH = 2.9
"""A remainder of lower order than this is none of a smooth module."""
SMALL_RANGE = 0.01
"""A quadratic form that ends below this weight scale is worth a word."""

_JUMPS = {
    0: "the output itself jumps at zero weights (a sign, a hard choice)",
    1: "it has a kink at zero weights: slopes to the left and to the right differ (a norm or |w| of the weights, normalisation without "
    "epsilon, an L1 term)",
    2: "its curvatures to the left and to the right of zero weights differ (ReLU, |x|, max pooling, a hard choice between units)",
    3: "its third derivatives to the left and to the right of zero weights differ or diverge (softsign, a fractional power): Theorem 1 "
    "asks for three derivatives",
}
"""By the order of the first derivative that jumps."""


@dataclass(frozen=True)
class Verdict:
    """`None` where a condition cannot be asked."""

    verdict: Name
    symmetric: bool | None
    zero_gradient: bool | None
    even: bool | None
    smooth: bool | None
    reasons: tuple[str, ...]


def judge(found: Conditions) -> Verdict:
    """The verdict of measured conditions."""
    symmetric, even, additive = (_holds(defect) for defect in (found.permutation_defect, found.sign_defect, found.additive_defect))
    if not found.finite or not found.finite_around or (found.jump is None and not _differentiable(found)):
        return Verdict("not_evaluable", symmetric, None, even, None, tuple(_no_value(found)))
    # A kink of the value or the slope has no gradient, whatever automatic differentiation takes there.
    still = found.jump is None or found.jump > 1
    zero_gradient = still and bool(_holds(found.gradient_at_zero) and _holds(found.gradient_among_others))
    name: Name
    rough = _roughness(found)
    if rough:
        return Verdict(
            "not_smooth" if symmetric else "not_symmetric", symmetric, zero_gradient, even, False, (*_asymmetry(symmetric), rough)
        )
    flat = _holds(found.gradient_at_zero) and _holds(found.cross_curvature)
    if symmetric:
        name = "nqf" if flat else "nqf_general"
    else:
        name = "nqf_distinct_units" if flat else "not_symmetric"
    reasons = (*_asymmetry(symmetric, distinct=bool(flat)), *_coupling(found, bool(additive)), *_remainder(found))
    return Verdict(name, symmetric, zero_gradient, even, True, reasons)


def _roughness(found: Conditions) -> str:
    """Why the module is not smooth at zero weights; empty when it is."""
    if found.jump is not None:
        return _JUMPS[found.jump]
    if found.remainder_order is not None and found.remainder_order < SMOOTH:
        return (
            "its curvature at zero weights depends on the direction (max pooling, a hard choice between units), or automatic "
            "differentiation does not see it there (`where`, stop_gradient, a derivative of one's own): the remainder is of order "
            f"{found.remainder_order:g} where a smooth module leaves the third"
        )
    return ""


def _holds(defect: float | None) -> bool | None:
    return None if defect is None else bool(defect <= DEFECT)


def _differentiable(found: Conditions) -> bool:
    """Derivatives at zero are numbers."""
    return found.curvature is not None and found.curvature == found.curvature and found.gradient_at_zero == found.gradient_at_zero


def _no_value(found: Conditions) -> Iterator[str]:
    if not found.finite:
        yield (
            "the output at zero weights is not a finite number, so there is nothing to expand around (a normalisation that divides by the "
            "size of the weights, a logarithm, 0/0): add an epsilon to the denominator"
        )
    elif not found.finite_around:
        yield "the output at random weights is not finite at any scale from 0.5 down to 0.005: check the module for overflow"
    else:
        yield (
            "the output at zero weights is finite but its derivatives there are not numbers, although they agree from both sides (0/0 in "
            "a chain rule, such as the square root of a fourth power): write the module so that automatic differentiation can pass zero"
        )


def _asymmetry(symmetric: bool | None, distinct: bool = False) -> Iterator[str]:
    if symmetric:
        return
    if distinct:
        yield (
            "relabelling the units changes the output, but no two units meet at second order: each has a matrix A of its own, as in the "
            "Fourier MLP, and M = W W^T alone does not determine the output"
        )
    else:
        yield "relabelling the units (columns of W) changes the output, so they are not interchangeable"


def _coupling(found: Conditions, additive: bool) -> Iterator[str]:
    slope, cross = not _holds(found.gradient_at_zero), not _holds(found.cross_curvature)
    if slope and additive:
        yield "each unit has a slope at zero weights (a bias, or a nonlinearity with phi(0) != 0), so the linear term g is needed"
    elif slope:
        yield (
            "units have a slope at zero weights and act together (softmax gating or normalisation across units, or a nonlinearity after "
            "the sum), so g is needed"
        )
    if cross:
        yield "pairs of units have a mixed second derivative at zero weights, so B is needed"
    if not slope and not _holds(found.gradient_among_others):
        yield "a unit at zero feels the others: its gradient vanishes only where they are zero too (they meet before the output)"
    elif not additive and not slope and not cross:
        yield (
            "units meet before the output (a nonlinearity after the sum, a softmax over them, or normalisation), which shows beyond "
            "second order only"
        )


def _remainder(found: Conditions) -> Iterator[str]:
    nothing = found.curvature == 0 and found.gradient_at_zero == 0 and found.cross_curvature == 0
    if nothing:
        yield "there is no quadratic part: at this order nothing is learnt from small weights"
    elif found.exactly_quadratic:
        yield "the module is its own quadratic form at any scale"
    if found.valid_to is not None and 0 < found.valid_to < SMALL_RANGE:
        yield (
            f"the quadratic form holds only for weights below about {found.valid_to:.1g} (a normalisation with a small epsilon?): smaller "
            "than most initialisations"
        )
