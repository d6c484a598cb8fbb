"""A job's start-up leaves out what it does not use, a user's own code does not notice, and the process is left as it was."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from nqf_pipeline.stages.starting import COLLECT_EVERY, quick_start

WITHOUT = """
import sys
from nqf_pipeline.stages.starting import quick_start
with quick_start():
    import numpy as np, xarray as xr
    from nqf_pipeline.store.encoding import pack, unpack
    made = xr.Dataset({"a": (("cell", "step"), np.ones((2, 3)))}, coords={"cell": ["one", "two"]})
    assert unpack(pack(made)).equals(made)
    assert xr.concat([made, made], dim="cell").sizes["cell"] == 4
    assert not [name for name in sys.modules if name.startswith(("dask.array", "scipy."))], "imported nevertheless"
import dask.array
print(dask.array.ones(3).sum().compute())
"""
WITH = """
from nqf_pipeline.stages.starting import quick_start
with quick_start():
    import numpy as np, xarray as xr
    held = xr.DataArray(np.ones(4), dims="x")
    {first}
    import dask, dask.array
    wrapped = xr.DataArray(dask.array.ones(4, chunks=2), dims="x")
    assert wrapped.chunks == held.chunk(x=2).chunks == ((2, 2),), "kept in pieces"
    assert "dask.array" in repr(wrapped)
    total = (wrapped + held.chunk(x=2)).sum()
    assert dask.is_dask_collection(total.data), "computed when asked for"
    print(float(total.compute()))
"""
OWN = """
import dask.array
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.special
import scipy.stats
import xarray as xr

SCALE = float(scipy.special.logsumexp(np.zeros(1)) + scipy.linalg.block_diag(1.0)[0, 0] + scipy.stats.norm.cdf(0.0) - 0.5)
SCALE *= float(dask.array.ones(3, chunks=1).mean().compute()) * float(xr.DataArray(np.ones(2), dims="x").chunk(x=1).mean())


def block(W, x):
    return SCALE * (W[-1] @ jnp.tanh(W[:-1].T @ x))
"""
STUDY = """
name: mine
experiments:
  own:
    architectures: [{kind: custom, path: "own.py:block", width: 4, unit_size: 6, inputs: 5}]
    tasks: [{kind: teacher, strengths: [1.0], samples: 40, test_samples: 20}]
    optimizers: [{kind: gd, learning_rate: 0.05}]
    sigma: [0.1]
    seeds: 1
    steps: 20
    records: 5
"""
BEGIN = """
from pathlib import Path
from nqf_pipeline.stages.run import begin
from nqf_pipeline.study.plan import plan_file
(shard,) = begin(plan_file(Path("mine.yaml"), Path("results"))).training
print(shard.id)
"""
TRAIN = 'from nqf_pipeline.cli import app; app(["train", "results/mine", "SHARD"])'


def python(code: str, folder: Path | None = None) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_job_does_without_dask_and_the_process_may_use_it_afterwards() -> None:
    assert python(WITHOUT) == "3.0"


@pytest.mark.parametrize("first", ["", "import scipy.special; scipy.special.logsumexp(np.zeros(2))"])
def test_a_job_may_use_dask(first: str) -> None:
    assert python(WITH.replace("{first}", first)) == "8.0"


def test_a_job_trains_a_module_with_scipy_and_dask(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "mine.yaml").write_text(STUDY)
    shard = python(BEGIN, folder=tmp_path).splitlines()[-1]
    python(TRAIN.replace("SHARD", shard), folder=tmp_path)
    (made,) = (tmp_path / "results" / "mine" / "shards").glob("*.zip")
    assert made.stat().st_size


def test_what_is_asked_of_dask_is_answered_as_ever_afterwards() -> None:
    from xarray.namedarray import pycompat

    with quick_start():
        pass
    assert type(pycompat._get_cached_duck_array_module("dask")) is pycompat.DuckArrayModule


def test_collection_waits_only_within_a_job() -> None:
    before = gc.get_threshold()
    with quick_start():
        assert gc.get_threshold() == (COLLECT_EVERY, *before[1:])
    assert gc.get_threshold() == before
