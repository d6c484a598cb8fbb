"""Random modes that a structure can represent and data can identify."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from nqf_pipeline.forms.modes import CoordinateBasis, ModeBasis, SingularBasis
from nqf_pipeline.forms.structure import (
    BilinearStructure,
    DiagonalStructure,
    ExpandedStructure,
    GatedStructure,
    LinearStructure,
    PairStructure,
    ProductStructure,
    SensingStructure,
    Structure,
    SymmetricSensingStructure,
    SymmetricStructure,
)
from nqf_pipeline.tasks.base import TaskError
from nqf_pipeline.tasks.ensembles import haar
from nqf_pipeline.tasks.visible import visible_modes

Array = Any


@singledispatch
def rank_limit(structure: Structure) -> int:
    """The largest number of modes of the reduced order parameter."""
    raise TypeError(f"no modes are known for {type(structure).__name__}")


@singledispatch
def random_modes(structure: Structure, strengths: Array, rng: np.random.Generator) -> tuple[Array, ModeBasis]:
    """G_T = sum_k s_k u_k v_k^T in Haar-random orthonormal directions, and the modes to watch it in.

    With two factors a negative strength is a positive one with u_k reversed, so targets are positive.
    """
    raise TypeError(f"no modes are known for {type(structure).__name__}")


def _two_sided(left: Array, right: Array, strengths: Array) -> tuple[Array, ModeBasis]:
    left = left * np.sign(strengths)
    return (left * np.abs(strengths)) @ right.T, SingularBasis(left, right, np.abs(strengths))


@rank_limit.register
def _(structure: LinearStructure) -> int:
    return min(len(structure.features), len(structure.offset))


@random_modes.register
def _(structure: LinearStructure, strengths: Array, rng: np.random.Generator) -> tuple[Array, ModeBasis]:
    count = len(strengths)
    return _two_sided(haar(len(structure.features), count, rng), haar(len(structure.offset), count, rng), strengths)


@rank_limit.register
def _(structure: BilinearStructure) -> int:
    return min(structure.left.shape[1], len(structure.right))


@random_modes.register
def _(structure: BilinearStructure, strengths: Array, rng: np.random.Generator) -> tuple[Array, ModeBasis]:
    """Left directions lie in the span that the outputs read best, where the data weigh all directions alike.

    A choice of this project: in the whole space the modes are learnt as well, but a weaker one may ignite before a stronger one.
    """
    count, outputs = len(strengths), len(structure.offset)
    rows = np.moveaxis(structure.left, 1, 0).reshape(structure.left.shape[1], -1)
    seen = rows @ rows.T
    span = np.linalg.eigh(seen)[1][:, -max(count, outputs) :]
    return _two_sided(span @ haar(span.shape[1], count, rng), haar(len(structure.right), count, rng), strengths)


@rank_limit.register
def _(structure: GatedStructure) -> int:
    return len(structure.right)


@random_modes.register
def _(structure: GatedStructure, strengths: Array, rng: np.random.Generator) -> tuple[Array, ModeBasis]:
    """Gate and expert read the same input, so only the symmetric part of each block shows: u_k = c_k (x) v_k."""
    outputs, count = len(structure.offset), len(strengths)
    right = haar(len(structure.right), count, rng)
    mix = rng.standard_normal((outputs, count))
    mix /= np.linalg.norm(mix, axis=0)
    left = (mix[:, None] * right[None]).reshape(-1, count)
    return _two_sided(left, right, strengths)


@rank_limit.register
def _(structure: ProductStructure | SensingStructure) -> int:
    return min(_sides(structure))


@random_modes.register
def _(structure: ProductStructure | SensingStructure, strengths: Array, rng: np.random.Generator) -> tuple[Array, ModeBasis]:
    left, right = (haar(size, len(strengths), rng) for size in _sides(structure))
    return _two_sided(left, right, strengths)


def _sides(structure: ProductStructure | SensingStructure) -> tuple[int, int]:
    """Rows and columns of G."""
    if isinstance(structure, ProductStructure):
        return len(structure.left), len(structure.right)
    return structure.matrices.shape[0], structure.matrices.shape[1]


@rank_limit.register
def _(structure: SymmetricStructure | PairStructure | SymmetricSensingStructure) -> int:
    return _rows(structure)


@random_modes.register
def _(
    structure: SymmetricStructure | PairStructure | SymmetricSensingStructure, strengths: Array, rng: np.random.Generator
) -> tuple[Array, ModeBasis]:
    axes = haar(_rows(structure), len(strengths), rng)
    return (axes * strengths) @ axes.T, SingularBasis(axes, axes, strengths)


def _rows(structure: SymmetricStructure | PairStructure | SymmetricSensingStructure) -> int:
    """Rows of M."""
    if isinstance(structure, SymmetricSensingStructure):
        return structure.matrices.shape[0]
    return len(structure.vectors if isinstance(structure, SymmetricStructure) else structure.left)


@random_modes.register
def _(structure: ExpandedStructure, strengths: Array, rng: np.random.Generator) -> tuple[Array, ModeBasis]:
    """Directions that the module itself keeps apart: eigenvectors of the correlation K G_0 of random orthonormal ones.

    In a feedforward module these pair one side with the other, where single random directions would mix several pairs.
    """
    axes = haar(_rows(structure), len(strengths), rng)
    drive = structure.adjoint(structure.apply((axes * np.abs(strengths)) @ axes.T)) / structure.samples
    basis = visible_modes(structure.second_moment()[1], drive, drive, len(strengths))
    if len(basis.target) < len(strengths):
        raise TaskError(
            f"task teacher, strengths: the module keeps only {len(basis.target)} mode(s) of this kind apart at these inputs; give at most "
            "that many strengths, or more samples"
        )
    truth = (basis.left * strengths) @ basis.left.T
    return truth, basis.aimed_at(truth)


@rank_limit.register
def _(structure: DiagonalStructure) -> int:
    return len(structure.coefficients)


@random_modes.register
def _(structure: DiagonalStructure, strengths: Array, rng: np.random.Generator) -> tuple[Array, ModeBasis]:
    truth = np.zeros(len(structure.coefficients))
    truth[: len(strengths)] = strengths
    return truth, CoordinateBasis(np.arange(len(strengths)), strengths)
