"""The training stage: cells of one bucket as one labelled dataset, whatever their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from nqf_pipeline.stages.train import Stopwatch, assemble, program_of, run_cells
from nqf_pipeline.store.schema import Status, normalise, validate
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.draws import problem_of
from nqf_pipeline.study.manifest import Manifest
from nqf_pipeline.study.plan import plan
from nqf_pipeline.study.reading import study_from

LANES = 3


def cells_of(**changes: Any) -> list[Cell]:
    experiment: dict[str, Any] = {
        "architectures": [{"kind": "mlp", "inputs": 4, "outputs": 2, "width": 5}],
        "tasks": [{"kind": "teacher", "strengths": [1.0, 0.5], "samples": 24, "test_samples": 12}],
        "optimizers": [{"kind": "gd", "learning_rate": [0.05, 0.02]}, {"kind": "momentum", "learning_rate": 0.005}],
        "sigma": [0.1, 0.01],
        "seeds": 2,
        "steps": 120,
        "records": 12,
    }
    cells = plan(study_from({"name": "trial", "experiments": {"tracks": experiment | changes}}), Manifest()).cells
    assert len({cell.bucket for cell in cells}) == 1
    return cells


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    """Twelve cells of one bucket: gradient descent and momentum share a program."""
    return cells_of()


@pytest.fixture(scope="module")
def dataset(cells: list[Cell]) -> xr.Dataset:
    return run_cells(cells, LANES, Stopwatch())


def test_the_dataset_is_what_the_store_takes(dataset: xr.Dataset) -> None:
    validate(normalise(dataset), "training", "here")


def test_rows_are_in_the_order_asked_for(cells: list[Cell], dataset: xr.Dataset) -> None:
    assert dataset["cell"].values.tolist() == [cell.id for cell in cells]
    shuffled = [cells[k] for k in np.random.default_rng(3).permutation(len(cells))]
    other = run_cells(shuffled, LANES, Stopwatch())
    assert other["cell"].values.tolist() == [cell.id for cell in shuffled]
    xr.testing.assert_identical(other.sel(cell=dataset["cell"]), dataset)


def test_labels_belong_to_their_cells(cells: list[Cell], dataset: xr.Dataset) -> None:
    """Start and time axis of each row are those of its own cell, computed here from the definitions."""
    for row, cell in enumerate(cells):
        one = dataset.isel(cell=row)
        np.testing.assert_array_equal(one["step_number"], cell.step_grid())
        rate = cell.optimizer.learning_rate / (1 - cell.optimizer.momentum)
        np.testing.assert_allclose(one["time"], rate * cell.step_grid(), rtol=1e-14)
        problem = problem_of(cell)
        weights = cell.sigma * problem.initial_scale * cell.architecture.initial(cell.stream("init"))
        output = np.tanh(weights[:4].T @ problem.inputs)  # hidden activities of W = [first layer; second layer]
        gap = weights[4:] @ output - problem.targets
        assert one["network_loss"].values[0] == pytest.approx((gap**2).sum() / gap.shape[1], rel=1e-5)
        np.testing.assert_allclose(one["mode_target"], problem.modes.target, rtol=1e-12)


def test_companions_and_padding_do_not_change_a_bit(cells: list[Cell], dataset: xr.Dataset) -> None:
    for some in (cells[:1], cells[4:6], cells[::5]):
        xr.testing.assert_identical(run_cells(some, LANES, Stopwatch()), dataset.sel(cell=[cell.id for cell in some]))


def test_padding_has_the_shape_of_a_full_group(cells: list[Cell]) -> None:
    group, data = assemble(cells[:2], 8)
    assert group.weights.shape == (8, 4 + 2, 5)
    assert len(data) == 2
    np.testing.assert_array_equal(group.weights[2:], np.broadcast_to(group.weights[1], (6, 6, 5)))


def test_progress_and_stopwatch_count_everything(cells: list[Cell]) -> None:
    watch, done = Stopwatch(), []
    run_cells(cells[:5], LANES, watch, done.append)
    assert sum(done) == 5
    assert max(done) <= LANES
    assert set(watch.seconds) == {"prepare", "compile", "run"}
    assert min(watch.seconds.values()) > 0


def test_a_process_compiles_once_for_all_groups_that_it_is_given(cells: list[Cell]) -> None:
    watch, programs = Stopwatch(), {}
    first = run_cells(cells[:2], LANES, watch, programs=programs)
    compiled = watch.seconds["compile"]
    assert compiled > 0
    assert run_cells(cells[:2], LANES, watch, programs=programs).identical(first)
    assert watch.seconds["compile"] == compiled


def test_minibatches(cells: list[Cell]) -> None:
    """Stochastic gradients: batches depend on the seed alone, so sigma shares them; network and twin see the same ones."""
    sgd = [{"kind": "sgd", "learning_rate": 0.02, "batch_size": 6}]
    stochastic = cells_of(optimizers=sgd, sigma=[0.1, 1e-4], seeds=2)
    result = run_cells(stochastic, LANES, Stopwatch())
    validate(normalise(result), "training", "here")
    xr.testing.assert_identical(run_cells(stochastic[1:2], LANES, Stopwatch()), result.isel(cell=[1]))
    losses = result["network_loss"].values
    assert (losses[:, -1] < losses[:, 0]).all()
    full = run_cells(cells_of(optimizers=[{"kind": "gd", "learning_rate": 0.02}], sigma=[0.1, 1e-4], seeds=2), LANES, Stopwatch())
    assert not np.isclose(full["network_loss"].values[:, -1], losses[:, -1], rtol=1e-6).any(), "drawn batches are not the full one"
    # Where weights are tiny the network is its quadratic form, on whatever batch: only equal batches keep them together.
    tiny = result.isel(cell=[row for row, cell in enumerate(stochastic) if cell.sigma == 1e-4])
    np.testing.assert_allclose(tiny["network_mode"], tiny["twin_mode"], rtol=1e-3, atol=1e-9)
    assert {cell.stream("batches").integers(2**63) for cell in stochastic if cell.seed == 0} != {
        cell.stream("batches").integers(2**63) for cell in stochastic if cell.seed == 1
    }


def test_a_cell_that_diverges_leaves_its_companions_alone(cells: list[Cell], dataset: xr.Dataset) -> None:
    (wild,) = cells_of(optimizers=[{"kind": "gd", "learning_rate": 50.0}], sigma=[0.5], seeds=1)
    mixed = run_cells([cells[0], wild, cells[1]], LANES, Stopwatch())
    validate(normalise(mixed), "training", "here")
    assert mixed["status"].values.tolist() == [Status.done, Status.diverged, Status.done]
    assert mixed["diverged_step"].values[0] == -1
    assert 0 < mixed["diverged_step"].values[1] <= 120
    xr.testing.assert_identical(mixed.isel(cell=[0, 2]), dataset.isel(cell=[0, 1]))


def test_programs_of_exactly_quadratic_modules_need_no_samples() -> None:
    (cell,) = cells_of(
        architectures=[{"kind": "diagonal", "inputs": 10}],
        tasks=[{"kind": "feature_power_law", "modes": 10}],
        optimizers=[{"kind": "gd", "learning_rate": 0.1}],
        sigma=[0.01],
        seeds=1,
        precision="float64",
    )
    assert program_of(cell).network_is_twin
    result = run_cells([cell], 2, Stopwatch())
    np.testing.assert_array_equal(result["network_loss"], result["twin_loss"])
    assert (result["divergence"].values == 0).all()
