from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import CNN, MLP, Diagonal, MultiHead
from nqf_pipeline.study.cells import Cell, step_grid
from nqf_pipeline.study.errors import ConfigError
from nqf_pipeline.tasks import Digits, FeaturePowerLaw, File, Teacher


def cell(**changes):
    given = {"architecture": MLP(), "task": Teacher(), "optimizer": Optimizer(), "sigma": 0.01, "steps": 1000}
    return Cell(**given | changes)


def draw(cell, purpose):
    return cell.stream(purpose).standard_normal()


@given(st.integers(2, 300), st.integers(0, 10**7))
def test_step_grid_has_exactly_the_records_asked_for(records, spare):
    steps = records - 1 + spare
    grid = step_grid(steps, records)
    assert len(grid) == records
    assert grid[0] == 0
    assert grid[-1] == steps
    assert (np.diff(grid) > 0).all()
    assert grid.dtype == np.int64


def test_step_grid_is_log_spaced_where_integers_allow():
    grid = step_grid(1_000_000, 200).astype(float)
    ratios = grid[101:] / grid[100:-1]
    assert np.ptp(ratios) < 0.02 * ratios.mean()
    assert (np.diff(grid[:20]) == 1).all()


@pytest.mark.parametrize(("steps", "records"), [(10, 12), (5, 1), (1, 3)])
def test_too_few_steps_for_the_records(steps, records):
    with pytest.raises(ConfigError, match=f"{records} recorded steps do not fit into {steps} steps"):
        step_grid(steps, records)


def test_a_cell_checks_its_records():
    with pytest.raises(ValueError, match="raise `steps` or lower `records`"):
        cell(steps=100)


def test_one_draw_of_weights_serves_every_sigma_task_and_optimizer():
    others = [cell(sigma=1.0), cell(task=Teacher(samples=10)), cell(optimizer=Optimizer(kind="adam")), cell(steps=300)]
    assert {draw(c, "init") for c in others} == {draw(cell(), "init")}
    assert draw(cell(seed=1), "init") != draw(cell(), "init")
    assert draw(cell(architecture=MLP(width=65)), "init") != draw(cell(), "init")


def test_one_data_set_serves_every_width_sigma_and_optimizer():
    others = [cell(architecture=MLP(width=65)), cell(sigma=1.0), cell(optimizer=Optimizer(kind="adam"))]
    assert {(c.data_id, draw(c, "data")) for c in others} == {(cell().data_id, draw(cell(), "data"))}
    different = [cell(seed=1), cell(task=Teacher(samples=10)), cell(architecture=MLP(inputs=21)), cell(architecture=CNN())]
    assert len({c.data_id for c in [cell(), *different]}) == 5


def test_shared_data_do_not_depend_on_the_seed():
    digits = [cell(task=Digits(), seed=seed) for seed in range(3)]
    assert len({c.data_id for c in digits}) == 1
    assert len({draw(c, "init") for c in digits}) == 3


def test_purposes_are_independent_streams():
    assert len({draw(cell(), purpose) for purpose in ("init", "data", "batches", "noise")}) == 4


def test_a_bucket_holds_all_that_differs_in_traced_numbers_only():
    alike = [
        cell(sigma=0.1, seed=3, steps=5000),
        cell(optimizer=Optimizer(kind="momentum", learning_rate=1, weight_decay=0.1)),
        cell(task=Teacher(strengths=(3, 2, 1, 0.5), label_noise=1)),
    ]
    assert {c.bucket for c in alike} == {cell().bucket}
    different = [
        cell(architecture=MLP(width=65)),
        cell(architecture=MLP(activation="relu")),
        cell(optimizer=Optimizer(kind="adam")),
        cell(optimizer=Optimizer(kind="sgd", batch_size=8)),
        cell(task=Teacher(strengths=(1, 0.5))),
        cell(task=Teacher(samples=10)),
        cell(records=100),
        cell(precision="float64"),
    ]
    assert len({c.bucket for c in [cell(), *different]}) == 9
    assert cell().bucket.startswith("mlp_64_teacher_linear_")


def test_power_law_exponents_share_a_bucket():
    law = [cell(architecture=Diagonal(), task=FeaturePowerLaw(alpha1=a, alpha2=b)) for a in (1.5, 2) for b in (1, 0.6)]
    assert len({c.bucket for c in law}) == 1


def test_derived_scales():
    heads = cell(architecture=MultiHead(), optimizer=Optimizer(kind="momentum", learning_rate=0.01, momentum=0.9), sigma=0.1)
    assert heads.epsilon == pytest.approx(80 * 0.01)
    assert heads.time_scale == pytest.approx(0.1)
    assert cell(optimizer=Optimizer(kind="adam", learning_rate=0.01)).time_scale == 0.01


def test_coordinates_are_flat_scalars_with_one_name_each():
    flat = cell(architecture=CNN(), experiment="tracks").coordinates()
    assert {type(value) for value in flat.values()} <= {str, int, float, bool}
    assert flat | {"cell": cell(architecture=CNN()).id, "experiment": "tracks", "width": 64, "kernel": "[4, 5]", "seed": 0} == flat
    assert (flat["inputs"], flat["architecture"], flat["optimizer"]) == ("gaussian", "cnn", "gd")
    assert np.isnan(flat["batch_size"])
    both = cell().coordinates()
    assert (both["inputs"], both["task_inputs"]) == (20, "gaussian")


def test_a_changed_data_file_is_noticed(tmp_path):
    path = tmp_path / "data.npz"
    rng = np.random.default_rng(0)
    np.savez(path, x=rng.normal(size=(40, 5)), y=rng.normal(size=(40, 2)))
    task = File(path=str(path))
    planned = cell(architecture=MLP(inputs=5, outputs=2), task=task, fingerprint=task.fingerprint)
    assert planned.problem().targets.shape == (2, 30)
    np.savez(path, x=rng.normal(size=(40, 5)), y=rng.normal(size=(40, 2)))
    with pytest.raises(ConfigError, match="data file has changed since the study was planned"):
        planned.problem()


def test_cells_share_one_step_grid_that_none_can_change():
    grid = step_grid(1000, 20)
    assert step_grid(1000, 20) is grid
    with pytest.raises(ValueError, match="read-only"):
        grid[0] = 1
