"""How XLA is asked to compile a program: lane after lane where that is faster, and which products go to its library."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import jax
import jax.numpy as jnp


def one_after_another(one_lane: Callable[..., Any], axes: tuple[int | None, ...]) -> Callable[..., Any]:
    """Like `jax.vmap`, lane after lane: small steps run twice as fast where one lane alone is in the core's cache."""

    @wraps(one_lane)
    def lanes(*arguments: Any) -> Any:
        own = [argument for argument, axis in zip(arguments, axes, strict=True) if axis == 0]

        def one(lane: list[Any]) -> Any:
            left = iter(lane)
            return one_lane(*(argument if axis is None else next(left) for argument, axis in zip(arguments, axes, strict=True)))

        return jax.lax.map(one, own)

    return lanes


@cache
def compiler_options(small_products: bool) -> dict[str, str | bool]:
    """What XLA is told besides its flags: on a CPU, to hand single matrix products to its library, or none, and nothing with them.

    By default it hands over a product with all that comes before and after, which the library then works off one operation at a time:
    the loss of a 20-64-8 network alone takes as long as its gradient, and that of 64 kernels twelve times as long.
    """
    options: dict[str, str | bool] = {
        "xla_cpu_experimental_ynn_fusion_type": "" if small_products else "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
    }
    try:
        jax.jit(lambda at: at).lower(jnp.zeros(())).compile(options)
    except jax.errors.JaxRuntimeError:  # a version of XLA that knows no such option
        return {}
    return options
