"""What is trained: network and twin, the twin alone, or nothing; and that the key changes nothing for cells that do not use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from nqf_pipeline.errors import InputError
from nqf_pipeline.stages.run import begin, predict_shards, train_shard
from nqf_pipeline.stages.theory import predict_cells
from nqf_pipeline.stages.train import Stopwatch, program_of, run_cells
from nqf_pipeline.store.schema import Status, normalise, validate
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.manifest import Manifest
from nqf_pipeline.study.plan import Plan, plan, plan_study
from nqf_pipeline.study.reading import study_from

MLP = {"kind": "mlp", "inputs": 4, "outputs": 2, "width": 8}
HEAD = {"kind": "multi_head", "width": 2, "dimension": 4, "key_size": 2, "value_size": 2, "tokens": 3, "outputs": 2}
DIAGONAL = {"kind": "diagonal", "inputs": 12, "width": 3}
TEACHER = {"kind": "teacher", "strengths": [1.0, 0.5], "samples": 24, "test_samples": 12}
POWER_LAW = {"kind": "feature_power_law", "modes": 12}
DIGITS = {"kind": "digits", "samples": 40, "loss": "logistic"}
GD, ADAM = {"kind": "gd", "learning_rate": 0.05}, {"kind": "adam", "learning_rate": 0.01}
BATCHES = {"kind": "sgd", "learning_rate": 0.05, "batch_size": 8}
OF_TWIN = ("twin_loss", "twin_test_loss", "twin_mode")
OF_NETWORK = ("network_loss", "network_test_loss", "network_mode", "divergence")


def plan_of(**changes: Any) -> Plan:
    experiment: dict[str, Any] = {
        "architectures": [MLP],
        "tasks": [TEACHER],
        "optimizers": [GD],
        "sigma": [0.1],
        "seeds": 2,
        "steps": 60,
        "records": 10,
        "precision": "float64",
    }
    return plan(study_from({"name": "trial", "experiments": {"tracks": experiment | changes}}), Manifest())


def trained(**changes: Any) -> xr.Dataset:
    return run_cells(plan_of(**changes).cells, 2, Stopwatch())


def test_the_default_leaves_identities_alone() -> None:
    default, both = plan_of().cells[0], plan_of(train="network_and_twin").cells[0]
    twin, nothing = (plan_of(train=value).cells[0] for value in ("twin", "nothing"))
    assert (default.id, default.bucket) == (both.id, both.bucket)
    assert len({default.id, twin.id, nothing.id}) == len({default.bucket, twin.bucket, nothing.bucket}) == 3
    assert [cell.train for cell in (default, twin, nothing)] == ["network_and_twin", "twin", "nothing"]
    assert len({int(cell.stream("init").integers(2**63)) for cell in (default, twin, nothing)}) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizers": [ADAM]},
        {"optimizers": [BATCHES]},
        {"architectures": [HEAD]},
        {"architectures": [DIAGONAL], "tasks": [POWER_LAW]},
        {"architectures": [MLP | {"inputs": 64, "outputs": 1}], "tasks": [DIGITS]},
    ],
    ids=["moments", "adam", "minibatches", "attention", "own twin", "logistic"],
)
def test_a_twin_alone_is_the_twin_beside_its_network(changes: dict[str, Any]) -> None:
    alone, beside = trained(train="twin", **changes), trained(**changes)
    validate(normalise(alone), "training", "here")
    for name in OF_TWIN:
        np.testing.assert_allclose(alone[name], beside[name].values, rtol=1e-9, atol=1e-12)
    for name in OF_NETWORK:
        assert np.isnan(alone[name]).all()
        assert np.isfinite(beside[name]).all()
    assert (alone["status"] == Status.done).all()
    assert (alone["diverged_step"] == -1).all()


def test_no_samples_are_read_where_moments_tell_all() -> None:
    cell = plan_of(train="twin").cells[0]
    assert not program_of(cell).reads_samples
    assert program_of(plan_of(train="twin", optimizers=[BATCHES]).cells[0]).reads_samples
    assert program_of(plan_of().cells[0]).reads_samples


def test_a_twin_that_diverges_says_so() -> None:
    found = trained(train="twin", optimizers=[{"kind": "gd", "learning_rate": 20.0}], sigma=[1.0])
    assert (found["status"] == Status.diverged).all()
    assert (found["diverged_step"] > 0).all()


def test_auto_compresses_a_twin_that_is_the_only_run() -> None:
    wide = MLP | {"width": 40}
    assert [plan_of(architectures=[wide], twin="auto", train=train).cells[0].twin for train in ("network_and_twin", "twin")] == [
        "full",
        "compressed",
    ]
    small, full = (trained(architectures=[wide], twin=twin, train="twin") for twin in ("compressed", "full"))
    for name in (*OF_TWIN, "order_parameter"):
        np.testing.assert_allclose(small[name], full[name].values, rtol=1e-8, atol=1e-12)


def test_cells_that_train_nothing_are_whole_with_their_prediction() -> None:
    cells = plan_of(train="nothing").cells
    found, beside = predict_cells(cells), predict_cells(plan_of().cells)
    validate(normalise(found), "theory", "here")
    assert (found["status"] == Status.done).all()
    run = trained()
    for name in ("step_number", "time", "mode_number", "mode_target", "loss_floor"):
        np.testing.assert_array_equal(found[name], run[name])
    np.testing.assert_array_equal(found["theory_loss"], beside["theory_loss"])


def unpredictable(**changes: Any) -> Plan:
    return plan_of(optimizers=[ADAM], train="nothing", **changes)


def test_what_no_tier_predicts_is_named_in_the_plan_and_in_its_row() -> None:
    (warning,) = [text for text in unpredictable().warnings if "train: nothing" in text]
    assert "tracks" in warning
    assert "adam" in warning
    assert "`train: twin`" in warning
    assert not [text for text in plan_of(train="nothing").warnings if "train: nothing" in text]
    found = predict_cells(unpredictable().cells)
    validate(normalise(found), "theory", "here")
    assert (found["status"] == Status.not_predicted).all()
    assert "train: twin" in Status.not_predicted.remedy


def test_shards_that_train_nothing_have_no_training_job(tmp_path: Path) -> None:
    experiments = {train: plan_of(train=train).study.as_given()["experiments"]["tracks"] for train in ("twin", "nothing")}
    study = study_from({"name": "trial", "experiments": experiments})
    wish = begin(plan_study(study, tmp_path))
    results, (silent,), (running,) = tmp_path / "trial", [s for s in wish.shards if not s.trained], wish.training
    with pytest.raises(InputError, match=r"only predicted.*nqf theory"):
        train_shard(results, silent)
    assert wish.summary()["train"] == {"twin": 2, "nothing": 2}
    assert wish.summary()["to_run"] == 2
    predict_shards(results)
    assert wish.done(silent)
    assert not wish.done(running)
    assert wish.summary()["to_run"] == 1


def test_train_is_one_of_three() -> None:
    with pytest.raises(InputError, match="network_and_twin"):
        plan_of(train="both")


def test_cells_know_what_they_train() -> None:
    def flags(cell: Cell) -> tuple[bool, bool]:
        return cell.trained, cell.has_network

    found = [flags(plan_of(train=train).cells[0]) for train in ("network_and_twin", "twin", "nothing")]
    assert found == [(True, True), (True, False), (False, False)]
