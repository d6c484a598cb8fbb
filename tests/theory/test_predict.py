"""Tiers of prediction against the quadratic form integrated in weight space."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import CNN, MLP, Diagonal, DiagonalProduct, FourierMLP, MultiHead
from nqf_pipeline.tasks import FeaturePowerLaw, Fourier, SamplePowerLaw, Teacher
from nqf_pipeline.theory.predict import CellInputs, predict
from tests.theory.weights import cell, integrate

GD = Optimizer(learning_rate=0.03)
MOMENTUM = Optimizer(kind="momentum", learning_rate=0.01)
DECAY = Optimizer(learning_rate=0.03, weight_decay=0.02)
LAYER, WHITE = MLP(width=32, inputs=12, outputs=6), Teacher(inputs="white", samples=200)


def fast(optimizer: Optimizer, factor: float) -> Optimizer:
    return optimizer.model_copy(update={"learning_rate": factor * optimizer.learning_rate})


EXACT = [
    (Diagonal(inputs=40), FeaturePowerLaw(modes=40)),
    (Diagonal(inputs=40, width=3, start="gaussian"), FeaturePowerLaw(modes=40)),
    (Diagonal(inputs=40), SamplePowerLaw(samples=40)),
    (FourierMLP(width=24), Fourier(theta=0.5)),
]


@pytest.mark.parametrize("optimizer", [GD, MOMENTUM, DECAY.model_copy(update={"weight_decay": 1e-3})], ids=["gd", "momentum", "decay"])
@pytest.mark.parametrize(("architecture", "task"), EXACT, ids=lambda v: getattr(v, "name", None))
def test_entries_follow_the_discrete_tier_to_rounding(architecture: Any, task: Any, optimizer: Optimizer) -> None:
    """Strengths and loss of weight space, antisymmetric parts included, at every recorded step."""
    inputs = cell(architecture, task, fast(optimizer, 8.0 if architecture.kind == "fourier_mlp" else 3.0), 1e-2, 1500)
    twin, found = integrate(inputs), predict([inputs])[0].tiers["discrete"]
    np.testing.assert_allclose(found.mode, twin.strength[inputs.step_number], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.loss, twin.loss[inputs.step_number], rtol=1e-9, atol=1e-14)
    assert np.isfinite(twin.ignition).sum() >= 3


@pytest.mark.parametrize("optimizer", [GD, MOMENTUM, DECAY], ids=["gd", "momentum", "decay"])
@pytest.mark.parametrize(
    ("architecture", "task"),
    [
        (LAYER, WHITE),
        (MultiHead(width=2, dimension=10, value_size=12, key_size=2, tokens=6, outputs=6), WHITE),
        (LAYER, Teacher(inputs="white", samples=200, strengths=(1.0, 1.0, 0.5, 0.5))),
        (LAYER, Teacher(inputs="white", samples=200, label_noise=0.1)),
    ],
    ids=["mlp", "multi_head", "degenerate", "noise"],
)
def test_white_layers_follow_the_discrete_tier(architecture: Any, task: Any, optimizer: Optimizer) -> None:
    if architecture.kind == "multi_head":
        # Its features are means over six tokens, so its rates are six times as small.
        optimizer = fast(optimizer, 6).model_copy(update={"weight_decay": optimizer.weight_decay / 6})
    inputs = cell(architecture, task, optimizer, 1e-3, 1600)
    twin, prediction = integrate(inputs), predict([inputs])[0]
    found = prediction.tiers["discrete"]
    assert prediction.standing == "local"
    np.testing.assert_allclose(found.ignition, twin.ignition, rtol=2e-3)
    np.testing.assert_allclose(found.mode, twin.strength[inputs.step_number], atol=6e-3)
    loss = twin.loss[inputs.step_number]
    np.testing.assert_allclose(found.loss, loss, atol=2e-3 * loss[0])


def test_tiers_differ_by_the_effects_they_leave_out() -> None:
    """The flow is off by the step size, the asymptote by the seeds, and small steps bring flow and discrete together."""
    errors = {}
    for eta in (0.1, 0.005):
        inputs = cell(LAYER, WHITE, Optimizer(learning_rate=eta), 1e-3, int(30 / eta))
        truth = integrate(inputs).ignition
        for tier, curve in predict([inputs])[0].tiers.items():
            errors[tier, eta] = np.abs(curve.ignition / truth - 1).max()
    assert errors["discrete", 0.1] < 1e-3 < 0.03 < errors["flow", 0.1]
    assert errors["flow", 0.005] < 5e-3
    assert errors["asymptote", 0.005] > 0.03


def test_momentum_moves_the_flow_by_its_time_scale() -> None:
    slow, quick = (predict([cell(LAYER, WHITE, o, 1e-3, 4000)])[0].tiers for o in (Optimizer(learning_rate=0.01), MOMENTUM))
    for tier in ("flow", "asymptote"):
        np.testing.assert_allclose(slow[tier].ignition / quick[tier].ignition, 10, rtol=0.02)
    # Real momentum speeds fast modes less than that (theory: root of the two-step recursion).
    speed_up = slow["discrete"].ignition / quick["discrete"].ignition
    assert np.all(np.diff(speed_up) > 0)
    assert np.all((speed_up > 5) & (speed_up < 9.9))


def test_the_asymptote_is_a_step_at_the_logarithm_of_epsilon_over_the_rate() -> None:
    inputs = cell(LAYER, WHITE, GD, 1e-3, 1500)
    curve = predict([inputs])[0].tiers["asymptote"]
    epsilon = LAYER.width * 1e-6
    rate = 4 * np.linalg.svd(inputs.problem.moments.linear, compute_uv=False)[:4]
    np.testing.assert_allclose(curve.ignition, np.log(1 / epsilon) / rate / GD.learning_rate, rtol=1e-6)
    expected = inputs.step_number[:, None] >= curve.ignition
    np.testing.assert_allclose(curve.mode, expected, atol=1e-9)


def test_epsilon_is_measured_on_the_weights_when_sigma_is_not_given() -> None:
    given = cell(LAYER, WHITE, GD, 1e-3, 100)
    measured = CellInputs(LAYER, given.problem, GD, given.weights, given.step_number)
    assert measured.epsilon == pytest.approx(given.epsilon, rel=0.15)
    assert measured.epsilon != given.epsilon


def test_order_is_that_of_ignition_times_not_of_rates() -> None:
    """A steep initial profile makes the fast modes' seeds tiny compared with their plateaus, so slower ones ignite first."""
    task = FeaturePowerLaw(modes=30, alpha1=2.0, alpha2=0.1, initial_profile=-8.0)
    inputs = cell(Diagonal(inputs=30), task, Optimizer(learning_rate=0.2), 1e-9, 1200)
    ignition = predict([inputs])[0].tiers["discrete"].ignition
    np.testing.assert_allclose(ignition, integrate(inputs).ignition, rtol=1e-3)
    assert np.argmin(ignition) != 0
    plateau = predict([inputs])[0].plateau_loss
    assert plateau is not None
    order = np.argsort(ignition)
    assert np.all(np.diff(plateau[order]) < 0)


def test_ignition_beyond_the_records_is_predicted_and_never_is_infinite() -> None:
    short = cell(LAYER, WHITE, GD, 1e-3, 60)
    long = cell(LAYER, WHITE, GD, 1e-3, 1500)
    for tier in ("flow", "discrete"):
        early, full = (predict([inputs])[0].tiers[tier].ignition for inputs in (short, long))
        np.testing.assert_allclose(early, full, rtol=0.01)
    few = cell(MLP(width=2, inputs=12, outputs=6), WHITE, GD, 1e-3, 3000)
    for tier in ("asymptote", "flow", "discrete"):
        assert list(np.isinf(predict([few])[0].tiers[tier].ignition)) == [False, False, True, True]


def test_weight_decay_above_half_the_rate_keeps_a_mode_from_igniting() -> None:
    inputs = cell(LAYER, WHITE, Optimizer(learning_rate=0.05, weight_decay=0.3), 1e-3, 4000)
    ignition = predict([inputs])[0].tiers["discrete"].ignition
    truth = integrate(inputs).ignition
    # The mode of strength 1/4 settles below half its target, the last one never grows.
    np.testing.assert_allclose(ignition[:2], truth[:2], rtol=2e-3)
    assert np.all(np.isinf(ignition[2:]))
    assert np.all(np.isnan(truth[2:]))


def test_plateau_losses_are_where_the_loss_rests() -> None:
    inputs = cell(LAYER, Teacher(inputs="white", samples=200, label_noise=0.1), GD, 1e-5, 2500)
    prediction, twin = predict([inputs])[0], integrate(inputs)
    assert prediction.plateau_loss is not None
    begin = np.concatenate([[0.0], twin.ignition[:-1]])
    middle = ((begin + twin.ignition) / 2).astype(int)
    np.testing.assert_allclose(twin.loss[middle], prediction.plateau_loss, rtol=0.02)


def test_negative_targets_are_learnt_by_two_factors_and_not_by_one() -> None:
    task = Fourier(theta=0.0)
    inputs = cell(FourierMLP(width=8), task, Optimizer(learning_rate=0.5), 1e-2, 800)
    flipped = FourierProblem.flip(inputs)
    np.testing.assert_allclose(predict([flipped])[0].tiers["discrete"].mode, integrate(flipped).strength[flipped.step_number], atol=1e-10)
    assert np.isfinite(predict([flipped])[0].tiers["discrete"].ignition).any()


class FourierProblem:
    """The Fourier problem with every target reversed."""

    @staticmethod
    def flip(inputs: CellInputs) -> CellInputs:
        from dataclasses import replace

        problem = inputs.problem
        moments = replace(problem.moments, optimum=-problem.moments.optimum)
        modes = replace(problem.modes, target=-problem.modes.target)
        return replace(inputs, problem=replace(problem, moments=moments, modes=modes, targets=-problem.targets))


def test_correlated_layers_get_the_event_tier_with_loss_and_plateaus() -> None:
    inputs = cell(CNN(width=32), Teacher(samples=300), Optimizer(learning_rate=0.002), 1e-3, 6000)
    prediction, twin = predict([inputs])[0], integrate(inputs)
    assert list(prediction.tiers) == ["event", "discrete"]
    np.testing.assert_allclose(prediction.tiers["discrete"].loss, twin.loss[inputs.step_number], rtol=1e-9)
    event = prediction.tiers["event"]
    np.testing.assert_allclose(event.ignition, twin.ignition, rtol=0.04)
    loss = twin.loss[inputs.step_number]
    assert np.median(np.abs(np.log(event.loss / loss))) < 0.05
    assert prediction.plateau_loss is not None
    assert prediction.plateau_loss[0] == pytest.approx(loss[0], rel=0.01)
    assert np.all(np.diff(prediction.plateau_loss) <= 0)


@pytest.mark.parametrize(
    ("architecture", "optimizer"),
    [(LAYER, Optimizer(kind="adam")), (MLP(width=32, inputs=12, outputs=6, activation="relu"), GD)],
    ids=["adam", "relu"],
)
def test_no_tier_is_given_where_theory_says_nothing(architecture: Any, optimizer: Optimizer) -> None:
    prediction = predict([cell(architecture, WHITE, optimizer, 1e-3, 100)])[0]
    assert prediction.tiers == {}
    assert prediction.plateau_loss is None
    assert prediction.reason


def test_cells_are_predicted_alone_as_in_company() -> None:
    cells = [
        cell(LAYER, WHITE, GD, 1e-3, 500),
        cell(Diagonal(inputs=20), FeaturePowerLaw(modes=20), MOMENTUM, 1e-2, 300),
        cell(LAYER, WHITE, MOMENTUM, 1e-2, 700, seed=3),
        cell(LAYER, WHITE, Optimizer(kind="adam"), 1e-2, 700),
    ]
    together = predict(cells)
    for inputs, prediction in zip(cells, together, strict=True):
        alone = predict([inputs])[0]
        assert list(alone.tiers) == list(prediction.tiers)
        for tier, curve in prediction.tiers.items():
            np.testing.assert_allclose(curve.mode, alone.tiers[tier].mode, rtol=1e-9, atol=1e-15)
            np.testing.assert_allclose(curve.loss, alone.tiers[tier].loss, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(
    "architecture", [Diagonal(inputs=8, width=4, start="gaussian"), DiagonalProduct(inputs=8, width=4)], ids=["one", "two"]
)
def test_interacting_entries_get_events_that_reach_beyond_the_records(architecture: Any) -> None:
    task, optimizer = Teacher(strengths=(1.0, 0.6, 0.35), samples=60), Optimizer(learning_rate=0.02)
    inputs = cell(architecture, task, optimizer, 1e-3, 3500, 1)
    truth = integrate(inputs).ignition
    assert np.all(np.isfinite(truth))
    for known in (inputs, replace(inputs, step_number=inputs.step_number[inputs.step_number < 50])):
        tiers = predict([known])[0].tiers
        assert set(tiers) == {"event", "flow", "discrete"}
        np.testing.assert_allclose(tiers["event"].ignition, truth, rtol=0.03)
    # Beyond the records the flow is integrated on, for the finer tiers.
    np.testing.assert_array_equal(tiers["discrete"].ignition, tiers["flow"].ignition)
    np.testing.assert_allclose(tiers["flow"].ignition, truth, rtol=0.02)  # steps of 0.02
