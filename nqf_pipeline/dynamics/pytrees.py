"""Makes the structure, moment and mode classes transparent to JAX, so that lanes of them can be batched and traced."""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

import jax
import numpy as np

from nqf_pipeline.forms.modes import MODE_BASES
from nqf_pipeline.forms.moments import Moments
from nqf_pipeline.forms.structure import STRUCTURES
from nqf_pipeline.models.stack import StackStructure
from nqf_pipeline.tasks.base import Population


def _register() -> None:
    for cls in (*STRUCTURES, *MODE_BASES):
        jax.tree_util.register_dataclass(cls, data_fields=[f.name for f in fields(cls)], meta_fields=[])
    jax.tree_util.register_dataclass(Moments, data_fields=["operator", "optimum", "floor"], meta_fields=["kind"])
    jax.tree_util.register_dataclass(StackStructure, data_fields=["offset", "inputs"], meta_fields=["architecture"])
    jax.tree_util.register_dataclass(Population, data_fields=["teacher"], meta_fields=["architecture", "planted"])


_register()

T = TypeVar("T")


def cast(tree: T, dtype: str) -> T:
    """Floating leaves in the given precision, integers untouched (NumPy arrays stay on the host)."""

    def leaf(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x)
        return x.astype(dtype) if np.issubdtype(x.dtype, np.floating) else x

    return jax.tree.map(leaf, tree)


def stack(trees: list[T]) -> T:
    """A list of equal trees as one tree with a leading lane axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)
