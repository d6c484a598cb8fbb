"""Strict numerics for every test, and one small architecture of each kind."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from nqf_pipeline.models import (
    CNN,
    MLP,
    Architecture,
    Augmentation,
    BilinearSequence,
    Custom,
    Diagonal,
    DiagonalProduct,
    FourierMLP,
    MatrixCompletion,
    MatrixSensing,
    MixtureOfExperts,
    MultiHead,
    PhaseRetrieval,
    PSDSensing,
    QueryKey,
    SingleHead,
    TiedAttention,
    WordContext,
)
from tests.workflow.runs import Workspace, new

# What a silent float32, a silent broadcast or a silent cast would hide must fail here.
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# What the shell around the tests says to jobs and to JAX's cache is not meant for the jobs that the tests start.
for _name in [name for name in os.environ if name.startswith(("SLURM_", "JAX_COMPILATION_", "JAX_PERSISTENT_"))]:
    del os.environ[_name]

# Matrices here are small: on a busy machine BLAS threads cost a hundred times what they save (scikit-learn brings threadpoolctl).
threadpool_limits(limits=1, user_api="blas")

# Examples are the same in every run; a compilation inside an example is no reason to fail it.
settings.register_profile(
    "nqf", deadline=None, max_examples=20, derandomize=True, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("nqf")

SMALL: tuple[Architecture, ...] = (
    MLP(width=5, inputs=4, outputs=3),
    CNN(width=5, image=(4, 5), kernel=(2, 3), outputs=3),
    QueryKey(width=3, dimension=4, key_size=2, tokens=5, outputs=3),
    MultiHead(width=3, dimension=4, key_size=2, value_size=3, tokens=5, outputs=2),
    MixtureOfExperts(width=5, inputs=4, outputs=3),
    PhaseRetrieval(width=5, inputs=4),
    Diagonal(width=2, inputs=6, start="gaussian"),
    FourierMLP(width=6),
    SingleHead(width=3, dimension=4, tokens=5, outputs=2),
    DiagonalProduct(width=2, inputs=6),
    PSDSensing(width=5, rows=4),
    MatrixSensing(width=5, rows=4, columns=3),
    MatrixCompletion(width=5, rows=4, columns=3),
    WordContext(width=5, rows=4, columns=3),
    TiedAttention(width=5, inputs=4),
    BilinearSequence(width=5, rows=4, columns=3),
    Augmentation(width=5, inputs=4),
    Custom(width=5, path=f"{Path(__file__).parent / 'models' / 'own_module.py'}:block", unit_size=7, inputs=4, outputs=2),
)


@pytest.fixture(params=SMALL, ids=lambda architecture: architecture.name)
def architecture(request: pytest.FixtureRequest) -> Architecture:
    """Each kind in turn, with no two sizes alike where that could hide a transposition."""
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20260813)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A tiny study after one run of the workflow. Read it only: tests that change something work on a `copy`."""
    workspace = new(tmp_path_factory.mktemp("finished"))
    (workspace.folder / "first_run.txt").write_text(workspace.finish())
    return workspace
