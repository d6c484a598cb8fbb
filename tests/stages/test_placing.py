"""Several cores, and an accelerator that is too small: what is computed does not depend on them."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from nqf_pipeline.stages.placing import FULL, Place, _share, narrowed, share_out, train_cells
from nqf_pipeline.study.plan import plan_study
from nqf_pipeline.study.reading import study_from
from nqf_pipeline.study.shards import lane_groups

STUDY = {
    "name": "trial",
    "experiments": {
        "one": {
            "architectures": [{"kind": "mlp", "inputs": 4, "outputs": 2, "width": 6}],
            "tasks": [{"kind": "teacher", "inputs": "white", "strengths": [1.0, 0.5], "samples": 24, "test_samples": 8}],
            "optimizers": [{"kind": "gd", "learning_rate": 0.05}],
            "sigma": [0.1, 0.03, 0.01],
            "seeds": 5,
            "steps": 40,
            "records": 6,
        }
    },
}


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    (shard,) = plan_study(study_from(STUDY, "trial.yaml"), tmp_path_factory.mktemp("results")).shards
    return shard.cells


def ids(groups):
    return sorted(tuple(cell.id for cell in group) for group in groups)


@given(cores=st.integers(1, 9), lane_width=st.integers(1, 6))
def test_cores_get_whole_lane_groups(cells, cores, lane_width):
    parts = share_out(cells, lane_width, cores)
    assert len(parts) == min(cores, len(lane_groups(cells, lane_width)))
    assert ids(group for part in parts for group in lane_groups(part, lane_width)) == ids(lane_groups(cells, lane_width))


def test_two_cores_compute_the_same_bits_as_one(cells):
    alone, _ = trained(cells, cores=1)
    finished = []
    done, spent = trained(cells, cores=2, progress=finished.append)
    assert sum(finished) == len(cells)
    assert spent.threads == 2
    assert spent.device.startswith("cpu")
    assert set(spent.seconds) >= {"start", "compile", "run"}
    assert done.identical(alone)


def trained(cells, cores, progress=lambda done: None):
    """In a process of its own also on one core, because this one has imported JAX already."""
    if cores == 1:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            parts, spent = pool.submit(_share, cells, 2, os.getpid()).result()
    else:
        parts = []
        spent = train_cells(cells, 2, Place(cores=cores), progress, parts)
    return xr.concat(parts, dim="cell").sel(cell=[cell.id for cell in cells]), spent


def test_a_full_device_gets_fewer_lanes(capsys):
    tried = []

    def run(width):
        tried.append(width)
        if width > 8:
            raise RuntimeError(f"{FULL}: out of memory while trying to allocate 7 bytes")

    assert narrowed(run, 70) == 5
    assert tried == [70, 35, 18, 9, 5]
    assert "trying 5 cells at once" in capsys.readouterr().err


def test_other_errors_and_a_device_too_small_for_one_lane_are_not_hidden():
    def fails(message):
        def run(width):
            raise RuntimeError(message)

        return run

    with pytest.raises(RuntimeError, match="INVALID"):
        narrowed(fails("INVALID_ARGUMENT"), 4)
    with pytest.raises(RuntimeError, match=FULL):
        narrowed(fails(FULL), 4)
