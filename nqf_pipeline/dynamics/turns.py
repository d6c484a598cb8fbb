"""Which twins run lane after lane, in one piece of machine code: small ones on second moments. Without JAX: planning asks, too."""

from __future__ import annotations

from typing import Literal

from nqf_pipeline.forms.moments import Moments

LARGEST_SIDE = 128
"""Of matrices that XLA multiplies by itself, without its library."""
LARGEST_TWIN = 2**14
"""Numbers that such a twin holds: more do not stay in the core's cache."""
LARGEST_PATH = 2**26
"""Bytes of what the twins of a call hold at all recorded steps, kept where they are trained before their networks. XLA keeps it twice."""


def largest_side(moments: Moments, pairing: Literal["outer", "rowwise"]) -> int:
    """Of the matrices that a step on these moments multiplies (any axes before the last two are lanes); 0 where it multiplies none."""
    sides = [*moments.optimum.shape[-2:]] if pairing == "outer" else []
    sides += [*moments.operator.shape[-2:]] if moments.kind != "diagonal" else []
    return int(max(sides, default=0))


def in_turns(side: int, held: int) -> bool:
    """Whether lanes run one after another on a CPU: by the largest side, and by the numbers that the twin of one lane holds."""
    return side <= LARGEST_SIDE and held <= LARGEST_TWIN
