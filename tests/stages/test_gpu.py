"""Training on an accelerator: what can be checked without one, and (marked gpu) what cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from nqf_pipeline.errors import WorkError
from nqf_pipeline.stages.run import begin, train_shard
from nqf_pipeline.store.shards import read_record, read_shard
from nqf_pipeline.study.plan import plan_study
from nqf_pipeline.study.reading import study_from

ROOT = Path(__file__).parents[2]
TOLERANCE = 2e-4
"""Relative, of losses along a whole run: sums are taken in another order."""


def study(**engine):
    experiment = {
        "architectures": [{"kind": "mlp", "inputs": 6, "outputs": 3, "width": 8}],
        "tasks": [{"kind": "teacher", "inputs": "white", "strengths": [1.0, 0.5], "samples": 32, "test_samples": 16}],
        "optimizers": [{"kind": "gd", "learning_rate": 0.05}],
        "sigma": [0.1, 0.05],
        "seeds": 32,
        "steps": 300,
        "records": 24,
    }
    return study_from({"name": "wide", "experiments": {"one": experiment}, "engine": {"seconds_per_job": 1000, **engine}}, "wide.yaml")


def curves(results, **engine):
    """Losses (cell, step) of the study's one shard, trained where the engine says."""
    wish = begin(plan_study(study(**engine), results))
    (shard,) = wish.shards
    train_shard(wish.layout.root, shard)
    record = read_record(wish.layout.shard(shard.id))
    dataset = read_shard(wish.layout.shard(shard.id)).sortby("cell")
    return xr.Dataset({name: dataset[name] for name in ("network_loss", "twin_loss")}), record


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    return curves(tmp_path_factory.mktemp("narrow"))


def same(one, other):
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=TOLERANCE, err_msg=name)


def test_sixty_four_lanes_at_once_learn_what_four_do(narrow, tmp_path):
    """The width of an accelerator, on the CPU."""
    (four, few), (wide, many) = narrow, curves(tmp_path, lane_width=64)
    assert (few.lane_width, many.lane_width) == (4, 64)
    same(wide, four)


@pytest.fixture
def no_accelerator():
    import jax

    if jax.default_backend() != "cpu":
        pytest.skip(f"JAX finds one here: {jax.default_backend()}")


def test_a_shard_for_an_accelerator_says_where_there_is_none_and_goes_on_without(no_accelerator, narrow, tmp_path):
    wish = begin(plan_study(study(device="gpu"), tmp_path))
    (shard,) = wish.shards
    assert shard.lane_width == 64
    with pytest.raises(WorkError, match="JAX finds no GPU here"):
        train_shard(wish.layout.root, shard)
    assert not wish.layout.shard(shard.id).exists()
    dataset, record = curves(tmp_path)
    assert (record.lane_width, record.device[:3]) == (64, "cpu")
    same(dataset, narrow[0])


def test_float64_of_a_study_for_an_accelerator_trains_on_the_cpu(no_accelerator, tmp_path):
    plain = study()
    given = plain.as_given()
    given["experiments"]["one"] |= {"precision": "float64", "seeds": [0], "steps": 40}
    wish = begin(plan_study(study_from({**given, "engine": {"device": "gpu"}}, "wide.yaml"), tmp_path))
    (shard,) = wish.shards
    train_shard(wish.layout.root, shard)
    assert read_record(wish.layout.shard(shard.id)).device.startswith("cpu")


def python(*command):
    """A process of its own, as the workflow starts workers: this one stays on the CPU."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    return subprocess.run(command, env={**environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def gpu():
    found = python(sys.executable, "-c", "import jax; print(jax.default_backend())")
    if found.stdout.strip() != "gpu":
        pytest.skip(f"JAX finds no accelerator here (it found: {found.stdout.strip() or found.stderr[-200:]})")


@pytest.mark.gpu
def test_an_accelerator_learns_what_the_cpu_does(gpu, tmp_path):
    """Two workers as the workflow starts them; every mode's saddle is passed within the same recorded steps."""
    found = {}
    for device in ("cpu", "gpu"):
        wish = begin(plan_study(study(device=device), tmp_path / device))
        (shard,) = wish.shards
        root = wish.layout.root
        done = python("nqf", "train", str(root), shard.id)
        assert done.returncode == 0, done.stderr
        record = json.loads(wish.layout.shard_summary(shard.id).read_text())
        assert record["device"].startswith(device)
        found[device] = read_shard(wish.layout.shard(shard.id)).sortby("cell")
    same(xr.Dataset({name: found["gpu"][name] for name in ("network_loss", "twin_loss")}), found["cpu"])


@pytest.mark.gpu
def test_matrix_products_are_not_rounded_to_ten_bits(gpu):
    code = (
        "from nqf_pipeline.stages.cores import prepare_worker, require_gpu; prepare_worker('gpu'); require_gpu(); "
        "import jax.numpy as jnp; a = jnp.full((512, 512), 1 + 2.0**-12, jnp.float32); print(float((a @ a)[0, 0] / 512 - 1))"
    )
    done = python(sys.executable, "-c", code)
    assert float(done.stdout) == pytest.approx(2 * 2.0**-12, rel=1e-2), done.stderr
