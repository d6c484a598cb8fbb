"""Calling modules that others wrote: their errors become messages, their numbers are double precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import lazy_loader
import numpy as np
from jaxtyping import Float

from nqf_pipeline.errors import InputError

Array = Any
Module = Callable[[Array, Array], Array]
"""apply(W, x): weights (unit_size, width), whatever it takes as input, an array of any shape out."""
jax = lazy_loader.load("jax")

_CAUSES = {
    "TracerArrayConversionError": "it turns arrays into NumPy ones, which cannot be differentiated; use jax.numpy",
    "TracerBoolConversionError": "it branches on the value of an array; use jax.numpy.where or jax.lax.cond",
    "ConcretizationTypeError": "it needs the value of an array to go on; write it with jax.numpy on whole arrays",
    "TracerIntegerConversionError": "it uses a value as an index; write it with jax.numpy on whole arrays",
    "NonConcreteBooleanIndexError": "it indexes by a Boolean array; use jax.numpy.where",
}


@contextmanager
def lenient() -> Iterator[None]:
    """JAX's usual promotion of ranks and types, whatever the session asks of this project's own code."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


@contextmanager
def foreign(what: str) -> Iterator[None]:
    """Double precision and JAX's usual leniency for the code inside; whatever it raises becomes an InputError that names `what`."""
    with jax.enable_x64(True), lenient():
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{what}: {explain(error)}") from error


def explain(error: BaseException) -> str:
    """Kind of an error and the first line of its message, with the way out where it is a known one of JAX."""
    name = type(error).__name__
    if name in _CAUSES:
        return f"JAX cannot follow the module ({name}): {_CAUSES[name]}"
    lines = str(error).strip().splitlines()
    return f"the module raised {name}: {lines[0] if lines else 'no message'}"


def flat(apply: Module, x: Array) -> Callable[[Array], Float[Array, "outputs"]]:
    """The module at fixed inputs as a function of W alone, its outputs in one row."""

    def outputs(weights: Array) -> Array:
        return jax.numpy.ravel(jax.numpy.asarray(apply(weights, x), dtype=np.float64))

    return outputs


def as_inputs(x: Array) -> Array:
    """Real inputs in double precision, integers and Booleans as they are."""

    def leaf(value: Array) -> Array:
        array = np.asarray(value)
        return jax.numpy.asarray(array, dtype=np.float64 if array.dtype.kind == "f" else None)

    return jax.tree.map(leaf, x)


def refuse_unusable(apply: Module, x: Array, shape: tuple[int, int]) -> None:
    """Raise InputError unless apply(W, x) returns real numbers for W of this shape. Call inside `foreign`."""
    described = ", ".join(str(getattr(leaf, "shape", type(leaf).__name__)) for leaf in jax.tree.leaves(x))
    with foreign(f"the module cannot be called with W of shape {shape} and x of shape {described}"):
        result = jax.eval_shape(apply, jax.ShapeDtypeStruct(shape, np.float64), x)
    if not hasattr(result, "dtype"):
        raise InputError(f"the module returns a {type(result).__name__}, not one array: return the outputs as one array")
    if result.dtype.kind not in "fiub" or not result.size:
        raise InputError(f"the module returns {result.dtype} of shape {result.shape}: real numbers are needed, at least one")
    if result.dtype.kind == "f" and result.dtype.itemsize < np.dtype(np.float64).itemsize:
        raise InputError(
            f"the module returns {result.dtype} although it was given float64, so rounding hides the conditions: leave out casts to "
            "single precision"
        )
