"""Nonlinearities by name, with their slope at zero."""

from __future__ import annotations

from typing import Any, Literal

import lazy_loader

jax = lazy_loader.load("jax")

Activation = Literal["tanh", "sin", "erf", "softsign", "silu", "gelu", "linear", "relu"]

_SLOPES = {"tanh": 1.0, "sin": 1.0, "erf": 1.1283791670955126, "softsign": 1.0, "silu": 0.5, "gelu": 0.5, "linear": 1.0, "relu": 0.5}
_NOT_SMOOTH = {"relu", "softsign"}


def activate(name: Activation, values: Any) -> Any:
    """phi(values)."""
    functions = {
        "tanh": jax.numpy.tanh,
        "sin": jax.numpy.sin,
        "erf": jax.lax.erf,
        "softsign": jax.nn.soft_sign,
        "silu": jax.nn.silu,
        "gelu": lambda v: jax.nn.gelu(v, approximate=False),
        "linear": lambda v: v,
        "relu": jax.nn.relu,
    }
    return functions[name](values)


def slope(name: Activation) -> float:
    """phi'(0); for ReLU the mean of both one-sided slopes, which no expansion at 0 supports."""
    return _SLOPES[name]


def is_smooth(name: Activation) -> bool:
    """Whether phi is three times differentiable at 0."""
    return name not in _NOT_SMOOTH
