"""The theory stage: predictions of a shard as a dataset, whatever its cells admit."""

from __future__ import annotations

from typing import Any

import numpy as np

from nqf_pipeline.stages.theory import predict_cells
from nqf_pipeline.store.schema import normalise, validate
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.draws import problem_of
from nqf_pipeline.study.manifest import Manifest
from nqf_pipeline.study.plan import plan
from nqf_pipeline.study.reading import study_from
from tests.stages.test_train import cells_of


def test_closed_regimes_have_every_tier() -> None:
    cells = cells_of(tasks=[{"kind": "teacher", "inputs": "white", "strengths": [1.0, 0.5], "samples": 24, "test_samples": 12}], seeds=1)
    dataset = normalise(predict_cells(cells))
    validate(dataset, "theory", "here")
    assert dataset["cell"].values.tolist() == [cell.id for cell in cells]
    assert dataset["tier"].values.tolist() == ["asymptote", "flow", "discrete"]
    assert set(dataset["regime"].values) == {"whitened_feedforward"}
    # The asymptotic clock: weights grow at twice the singular values of the cross-covariance of targets and inputs, z = |w|^2 at four
    # times, from epsilon to order one in ln(1/epsilon) / rate.
    ignition = dataset["theory_ignition"].sel(tier="asymptote").values
    for row, cell in enumerate(cells):
        problem = problem_of(cell)
        rates = 4 * np.linalg.svd(problem.targets @ problem.inputs.T / problem.inputs.shape[1], compute_uv=False)[:2]
        np.testing.assert_allclose(ignition[row] * cell.time_scale, np.log(1 / cell.epsilon) / rates, rtol=1e-9)
    first = dataset["theory_loss"].isel(step=0)
    np.testing.assert_allclose(first.sel(tier="flow"), first.sel(tier="discrete"), rtol=1e-12)


def test_a_bucket_without_a_prediction_is_a_row_that_says_so() -> None:
    cells = cells_of(
        architectures=[{"kind": "query_key", "width": 2, "dimension": 4, "key_size": 2, "tokens": 3, "outputs": 2}],
        optimizers=[{"kind": "adam", "learning_rate": 0.02}],
        sigma=[0.1],
        seeds=2,
    )
    dataset = normalise(predict_cells(cells))
    validate(dataset, "theory", "here")
    assert dataset.sizes["tier"] == 0
    assert dataset.sizes["cell"] == 2
    assert set(dataset["regime"].values) == {"moments"}
    assert set(dataset["standing"].values) == {"outside"}


def test_cells_that_admit_less_are_filled_with_nothing() -> None:
    """Adam has no closed clock: its cells have no numbers, those of gradient descent beside them do."""
    both: list[Cell] = []
    for kind, rate in (("gd", 0.05), ("adam", 0.005)):
        both += cells_of(
            tasks=[{"kind": "teacher", "inputs": "white", "strengths": [1.0, 0.5], "samples": 24, "test_samples": 12}],
            optimizers=[{"kind": kind, "learning_rate": rate}],
            sigma=[0.1],
            seeds=1,
        )
    dataset = normalise(predict_cells(both))
    validate(dataset, "theory", "here")
    numbers = np.isfinite(dataset["theory_loss"].values).all((0, 2))
    assert numbers.tolist() == [True, False]
    assert dataset["standing"].values.tolist() == ["local", "outside"]


def test_exponents_of_a_power_law() -> None:
    settings: dict[str, Any] = {
        "architectures": [{"kind": "diagonal", "inputs": 30}],
        "tasks": [{"kind": "feature_power_law", "modes": 30, "alpha1": [1.5, 2.0], "alpha2": 0.8}],
        "optimizers": [{"kind": "gd", "learning_rate": 0.1}],
        "epsilon": [1e-6],
        "seeds": 1,
        "records": 20,
    }
    cells = plan(study_from({"name": "trial", "experiments": {"law": settings}}), Manifest()).cells
    dataset = normalise(predict_cells(cells))
    validate(dataset, "theory", "here")
    expected = [(cell.task.alpha1 - 1) / cell.task.alpha2 for cell in cells]  # E ~ tau^-((alpha1 - 1) / alpha2)
    np.testing.assert_allclose(np.abs(dataset["exponent_limit"].values), expected)
    assert set(dataset["standing"].values) == {"exact"}
