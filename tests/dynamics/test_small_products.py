"""Products that XLA multiplies by itself compile in the memory that a job has, whatever their shapes (in a process with a job's flags)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPILE = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (10 * 2**30, 10 * 2**30))
from nqf_pipeline.stages.cores import prepare_worker
prepare_worker()
import jax, jax.numpy as jnp
from nqf_pipeline.dynamics.compiling import compiler_options
for rows, inner, columns in [(20, 16, 20), (20, 15, 20), (16, 17, 12), (20, 16, 24), (17, 20, 12)]:
    jax.jit(jnp.matmul).lower(jnp.zeros((rows, inner)), jnp.zeros((inner, columns))).compile(compiler_options(True))
print("compiled")
"""


def test_no_shape_takes_all_memory_to_compile() -> None:
    clean = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=clean, capture_output=True, text=True, check=False)
    assert done.stdout == "compiled\n", done.stderr[-2000:]
