"""`nqf check`: is a module an NQF, and which one? For architectures by name, and for users' own functions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import jax
import numpy as np

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.calling import Module, foreign
from nqf_pipeline.forms.conditions import SEED, check
from nqf_pipeline.forms.taylor import quadratic_form
from nqf_pipeline.forms.verdict import judge
from nqf_pipeline.forms.width import WIDTHS, width_scaling
from nqf_pipeline.models import ARCHITECTURES, Architecture, own
from nqf_pipeline.models.stack import Stack
from nqf_pipeline.study.spelling import no_such

WIDTH = 8
"""Units of a module whose width is not given."""
SAMPLES = 3
"""Inputs that an architecture is checked at."""


def names() -> list[str]:
    """Architectures that can be checked by name."""
    return [kind for kind in ARCHITECTURES if kind != "custom"]


def check_target(
    target: str, unit_size: int | None = None, width: int | None = None, inputs: str | None = None, scaling: bool = False
) -> dict[str, Any]:
    """What `nqf check --json` prints; with `scaling` also how g, A and B depend on the width."""
    for option, value in (("--width", width), ("--unit-size", unit_size)):
        if value is not None and value < 1:
            raise InputError(f"{option} {value}: must be 1 or more, a module has at least one unit and a unit one parameter")
    if ":" in target or target.endswith(".py"):
        return check_own(target, unit_size, width or WIDTH, inputs, scaling)
    if unit_size is not None or inputs is not None:
        raise InputError(
            f"nqf check {target}: --unit-size and --inputs belong to a module of your own, file.py:function; an architecture named here is "
            "checked at its default sizes, and only --width can be given"
        )
    return check_architecture(target, width or WIDTH, scaling)


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """The part of a report that fits a table of two columns."""
    return {name: value for name, value in found.items() if name not in ("reasons", "measured")}


def check_architecture(kind: str, width: int = WIDTH, scaling: bool = False) -> dict[str, Any]:
    """An architecture of this project, at its default sizes, against its closed form as well."""
    if kind not in names():
        raise InputError(f"{no_such('architecture', kind, names())}; a module of your own is named file.py:function")
    architecture = _reduced(ARCHITECTURES[kind](width=width))
    x = architecture.draw_inputs(np.random.default_rng(SEED), SAMPLES)
    found = check(architecture.apply, x, architecture.width, architecture.unit_size)
    report = _report(kind, found, closed_form_error(architecture, x))
    if architecture.layered:
        report["reasons"].append(
            "the module has several layers: its twin has a quadratic form in each, to which `closed_form_error` belongs"
        )
    if scaling:
        if not architecture.exchangeable:
            raise InputError(f"nqf check {kind} --scaling: its inputs grow with its width, so no other width can be compared")
        report["width_exponents"] = _exponents(lambda d: architecture.model_copy(update={"width": d}).apply, x, architecture.unit_size)
    return report


def _exponents(module: Callable[[int], Module], x: Any, unit_size: int) -> dict[str, Any]:
    found = width_scaling(module, x, unit_size)
    return {**found.exponents, "lazy": found.lazy}


def _reduced(architecture: Architecture) -> Architecture:
    """The diagonal network's default of 1000 coordinates says no more than 20 do."""
    return architecture.model_copy(update={"inputs": 20}) if getattr(architecture, "inputs", 0) > 100 else architecture


def check_own(target: str, unit_size: int | None, width: int, inputs: str | None, scaling: bool) -> dict[str, Any]:
    """A function apply(W, x) of a user's file, at one random input."""
    if unit_size is None or inputs is None:
        missing = [name for name, value in (("--unit-size", unit_size), ("--inputs", inputs)) if value is None]
        raise InputError(
            f"{target}: give {' and '.join(missing)}: W has the shape (unit size, width), and x is one input of that many entries; "
            f"for example nqf check {target} --unit-size 21 --inputs 20"
        )
    shape = input_shape(inputs)
    apply = own.load(target, (unit_size, width), shape)
    x = np.random.default_rng(SEED).standard_normal(shape)
    report = _report(target, check(apply, x, width, unit_size), None)
    if scaling:
        report["width_exponents"] = _own_exponents(target, unit_size, shape, x)
    return report


def _own_exponents(target: str, unit_size: int, shape: tuple[int, ...], x: Any) -> dict[str, Any]:
    try:
        return _exponents(lambda d: own.load(target, (unit_size, d), shape), x, unit_size)
    except InputError as error:
        raise InputError(
            f"{target}: --scaling calls the module at widths {', '.join(map(str, WIDTHS))}, and one made of arrays has the width it was "
            f"made with; check it without --scaling, or give a function apply(W, x), which takes any width. {error}"
        ) from error


def input_shape(text: str) -> tuple[int, ...]:
    """`20` for a vector, `20x16` for an array."""
    if not re.fullmatch(r"[1-9]\d*([x,][1-9]\d*)*", text):
        raise InputError(f"--inputs {text}: give the number of entries of one input, 20, or its shape, 20x16")
    return tuple(int(part) for part in re.split("[x,]", text))


def closed_form_error(architecture: Architecture, x: Any) -> float:
    """Largest difference of the closed-form structure from the Taylor expansion of the network itself, relative to its largest output.

    In several layers each is expanded by itself: the whole map has no term of second order.
    """
    rng = np.random.default_rng(SEED)
    weights = rng.standard_normal((architecture.unit_size, architecture.width))
    structure = architecture.structure(x)
    with foreign(f"architecture {architecture.name}"):
        closed = np.asarray(structure.offset + structure.apply(architecture.order(weights)))
        expand = architecture.expanded if isinstance(architecture, Stack) else quadratic_form(architecture.network)
        expanded = np.asarray(jax.jit(expand)(weights, architecture.encode(x)))
    return float(np.abs(closed - expanded).max() / np.abs(expanded).max())


def _report(target: str, found: Any, error: float | None) -> dict[str, Any]:
    verdict = judge(found)
    order = found.remainder_order
    return {
        "target": target,
        "verdict": verdict.verdict,
        "symmetric": verdict.symmetric,
        "zero_gradient": verdict.zero_gradient,
        "even": verdict.even,
        "smooth": verdict.smooth,
        "unit_parameters": found.unit_size,
        "width": found.width,
        "remainder_order": int(order) if order is not None and math.isfinite(order) and order == int(order) else order,
        "exactly_quadratic": found.exactly_quadratic,
        "valid_to": found.valid_to,
        "closed_form_error": error,
        "reasons": list(verdict.reasons),
        "measured": asdict(found),
    }
