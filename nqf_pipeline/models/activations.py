"""Nonlinearities by name, with their slope at zero."""

from __future__ import annotations

from typing import Any, Literal

import lazy_loader

jax = lazy_loader.load("jax")

Activation = Literal["tanh", "sin", "erf", "softsign", "silu", "gelu", "linear", "relu"]

_SLOPES = {"tanh": 1.0, "sin": 1.0, "erf": 1.1283791670955126, "softsign": 1.0, "silu": 0.5, "gelu": 0.5, "linear": 1.0, "relu": 0.5}
_NOT_SMOOTH = {"relu", "softsign"}


# The same minimax rational as XLA's own float32 tanh (worst error 2.6e-7), written out because XLA's lowering of it
# stops the surrounding loop from vectorising: a training step of the 20-64-8 network takes 36 instead of 49 microseconds.
_TANH_SATURATES = 7.90531110763549805
_TANH_NUMERATOR = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
_TANH_DENOMINATOR = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)


def activate(name: Activation, values: Any) -> Any:
    """phi(values)."""
    functions = {
        "tanh": _tanh,
        "sin": jax.numpy.sin,
        "erf": jax.lax.erf,
        "softsign": jax.nn.soft_sign,
        "silu": jax.nn.silu,
        "gelu": lambda v: jax.nn.gelu(v, approximate=False),
        "linear": lambda v: v,
        "relu": jax.nn.relu,
    }
    return functions[name](values)


def _tanh(values: Any) -> Any:
    if values.dtype != jax.numpy.float32:
        return jax.numpy.tanh(values)
    rational = jax.custom_jvp(_rational_tanh)
    rational.defjvps(lambda tangent, answer, _: tangent * (1 - answer**2))
    return rational(values)


def _rational_tanh(values: Any) -> Any:
    clipped = jax.numpy.clip(values, -_TANH_SATURATES, _TANH_SATURATES)
    square = clipped**2
    return clipped * _horner(_TANH_NUMERATOR, square) / _horner(_TANH_DENOMINATOR, square)


def _horner(coefficients: tuple[float, ...], variable: Any) -> Any:
    total = jax.numpy.full_like(variable, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * variable + coefficient
    return total


def slope(name: Activation) -> float:
    """phi'(0); for ReLU the mean of both one-sided slopes, which no expansion at 0 supports."""
    return _SLOPES[name]


def is_smooth(name: Activation) -> bool:
    """Whether phi is three times differentiable at 0."""
    return name not in _NOT_SMOOTH
