"""Several cores, and an accelerator that is too small: what is computed does not depend on them."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import xarray as xr

from nqf_pipeline.stages.placing import FULL, Place, Work, narrowed, train_cells
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
    return sorted(tuple(str(name) for name in group) for group in groups)


def test_two_cores_compute_the_same_bits_as_one(cells):
    alone, two = work_of(cells, 1), work_of(cells, 2)
    assert (alone.threads, two.threads) == (1, 2)
    assert two.device.startswith("cpu")
    assert set(two.seconds) >= {"start", "compile", "run"}
    assert trajectories(cells, two).identical(trajectories(cells, alone))


def test_what_several_cores_finish_is_there_at_once(cells):
    work, seen = Work(2), []

    def progress(done):
        assert work.parts[-1].sizes["cell"] == done
        seen.append((len(work.parts), work.device, work.seconds["run"] > 0))

    train_cells(cells, Place(cores=2), work, progress)
    groups = lane_groups(cells, 2)
    assert len(groups) > 2
    assert [number for number, _, _ in seen] == [*range(1, len(groups) + 1)], "not only when a core has done all of its share"
    assert all(device and ran for _, device, ran in seen), "an ending says where it was trained, and how long that took"
    assert ids(part["cell"].values for part in work.parts) == ids([cell.id for cell in group] for group in groups)


def work_of(cells, cores):
    """In a process of its own also on one core, because this one has imported JAX already."""
    if cores == 1:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(alone, cells).result()
    work = Work(2)
    train_cells(cells, Place(cores=cores), work)
    return work


def alone(cells):
    work = Work(2)
    train_cells(cells, Place(), work)
    return work


def trajectories(cells, work):
    return xr.concat(work.parts, dim="cell").sel(cell=[cell.id for cell in cells])


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
