"""The registry of tasks, and that planning never imports JAX."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pydantic import TypeAdapter

from nqf_pipeline.tasks import TASKS, AnyTask


def test_registry_is_the_union() -> None:
    adapter = TypeAdapter(AnyTask)
    assert list(TASKS) == [
        *("teacher", "feature_power_law", "sample_power_law", "orthogonal_features", "orthogonal_samples"),
        *("fourier", "fourier_raw", "digits", "file", "teacher_network", "sensing_ensemble"),
    ]
    for kind, cls in TASKS.items():
        given = {"path": "data.npz"} if kind == "file" else {}
        task = adapter.validate_python({"kind": kind, **given})
        assert type(task) is cls
        assert task.name == kind


def test_every_field_is_described() -> None:
    for cls in TASKS.values():
        for name, field in cls.model_fields.items():
            assert name == "kind" or field.description, (cls, name)


PROBLEMS = """
import sys
import numpy as np
from nqf_pipeline.models import *
from nqf_pipeline.tasks import *

rng = np.random.default_rng(0)
for architecture in (MLP(), CNN(), QueryKey(), MultiHead(), MixtureOfExperts(), PhaseRetrieval(), Diagonal(inputs=9), FourierMLP()):
    Teacher(inputs="white").problem(architecture, rng)
FeaturePowerLaw(modes=9).problem(Diagonal(inputs=9), rng)
Fourier().problem(FourierMLP(), rng)
Digits().problem(MLP(inputs=64, outputs=1), rng)
print([name for name in ("jax.numpy", "jax._src", "optax", "sklearn", "pandas") if name in sys.modules])
"""


@pytest.mark.slow
def test_problems_are_drawn_without_jax() -> None:
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", PROBLEMS], capture_output=True, text=True, check=True, env=env)
    assert run.stdout.strip() == "[]"
