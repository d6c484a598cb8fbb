"""A module of one's own in a study: its network is the user's function, its structure the module's own second derivatives."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal, Self

import lazy_loader
import numpy as np
from jaxtyping import Float, Int
from pydantic import Field, model_validator

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.calling import Module, foreign, lenient
from nqf_pipeline.forms.conditions import SEED, check
from nqf_pipeline.forms.module_map import ModuleStructure
from nqf_pipeline.forms.structure import ExpandedStructure
from nqf_pipeline.forms.verdict import judge
from nqf_pipeline.models import own
from nqf_pipeline.models.base import Architecture

Array = Any
jax = lazy_loader.load("jax")
LARGEST = 48
"""Parameters of a unit that may enter at second order: the second moment is a matrix over pairs of them (48^4 numbers, 42 MB), inverted."""

_WAYS_OUT = {
    "nqf_general": "a study follows modules whose quadratic form is Tr[M A] alone; subtract what a unit gives at zero weights (phi(0), the "
    "bias), or gate each unit by itself",
    "nqf_distinct_units": "a study needs interchangeable units; give the differences between units to the inputs, or write an architecture "
    "(docs/extending.md)",
    "not_symmetric": "a study needs interchangeable units: a column of W may not know its place",
    "not_smooth": "replace the kink by a smooth function (ReLU by GELU or SiLU, |x| by x^2), or compare with `mlp` and activation: relu",
    "not_evaluable": "a study starts near zero weights, so the module must have a value and derivatives there",
}


class Custom(Architecture):
    """A module of your own: `path: my_model.py:block` names a function of your file, which is run. See docs/own_module.md."""

    positive = True
    sees_all = False
    streams = False

    kind: Literal["custom"] = "custom"
    path: str = Field(
        description="`file.py:name`, the file absolute or relative to the config file: a function apply(W, x), an Equinox or Flax module; "
        "the file's contents and the name, not its place, identify a cell",
        json_schema_extra={"label": True},
    )
    width: int = Field(default=64, ge=1, description="number of units: columns of W")
    unit_size: int = Field(ge=1, description="parameters of one unit: rows of W")
    inputs: int = Field(ge=1, description="entries of one input x")
    shape: tuple[int, ...] = Field(default=(), description="shape of one input where it is not a vector; its entries must be `inputs`")
    outputs: int = Field(default=1, ge=1, description="numbers that the module returns for one input")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        own.split(self.path)
        if self.shape and math.prod(self.shape) != self.inputs:
            raise ValueError(f"shape {self.shape} has {math.prod(self.shape)} entries, but inputs = {self.inputs}: make both agree")
        return self

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.shape or (self.inputs,)

    @property
    def fingerprint(self) -> str:
        return own.fingerprint(self.path)

    @property
    def module(self) -> Module:
        """The user's function of W and one input."""
        return own.load(self.path, (self.unit_size, self.width), self.input_shape)

    def check(self) -> None:
        _approve(self, self.fingerprint)

    def network(self, weights: Array, encoded: Array) -> Float[Array, "outputs samples"]:
        module = self.module
        with lenient():
            every = jax.vmap(lambda x: jax.numpy.ravel(module(weights, x)), in_axes=-1, out_axes=-1)(encoded)
        return every.astype(weights.dtype)

    def factors(self, weights: Array) -> tuple[Array]:
        """The rows that the structure reads at all: others (queries and keys of attention) would only cost."""
        return (weights[_active(self, self.fingerprint)],)

    def structure(self, inputs: Array) -> ExpandedStructure:
        self.check()
        structure = ModuleStructure.of(self.module, inputs, (self.unit_size, self.width))
        rows = _active(self, self.fingerprint)
        return ExpandedStructure(structure.offset, structure.matrices(rows))


@lru_cache(maxsize=64)
def _approve(architecture: Custom, contents: str) -> None:
    """Raise InputError with the reason and the way out unless the module can be a study's architecture."""
    where = f"architecture custom, {architecture.path}"
    shape = (architecture.unit_size, architecture.width)
    x = _example(architecture)
    found = check(architecture.module, x, architecture.width, architecture.unit_size)
    with foreign(where):
        outputs = int(np.prod(jax.eval_shape(architecture.module, np.zeros(shape), x).shape))
    if outputs != architecture.outputs:
        raise InputError(f"{where}: the module returns {outputs} number(s) for one input, but outputs = {architecture.outputs}; set it so")
    judged = judge(found)
    if judged.verdict != "nqf":
        raise InputError(f"{where}: {judged.verdict}: {'; '.join(judged.reasons)}. {_WAYS_OUT[judged.verdict]}")
    size = len(_active(architecture, contents))
    if not size:
        raise InputError(f"{where}: its quadratic form is zero, so from small weights nothing is learnt at this order; nothing to study")
    if size > LARGEST:
        raise InputError(
            f"{where}: {size} parameters of a unit enter its quadratic form, more than the {LARGEST} that a study of a user's module takes "
            "(its second moment is a matrix over pairs of them); use fewer inputs or outputs, or write an architecture with its own "
            "structure (docs/extending.md). `nqf check` takes any size"
        )


@lru_cache(maxsize=64)
def _active(architecture: Custom, contents: str) -> Int[np.ndarray, "rows"]:
    """Rows of W that some A(x) touches, found on random inputs."""
    rng = np.random.default_rng(SEED)
    structure = ModuleStructure.of(architecture.module, architecture.draw_inputs(rng, 8), (architecture.unit_size, architecture.width))
    summed = np.abs(structure.adjoint(rng.standard_normal(structure.offset.shape)))
    return np.flatnonzero(summed.max(1) > 1e-12 * summed.max(initial=0.0))


def _example(architecture: Custom) -> Array:
    return np.random.default_rng(SEED).standard_normal(architecture.input_shape)
