"""The static cost model: families of programs, what grows with lanes, and the file of measured constants."""

from __future__ import annotations

import pytest

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP, DeepMLP, Diagonal, PhaseRetrieval, SingleHead
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.cost import Cost, Sizes
from nqf_pipeline.study.rates import FILE, MOMENTS, OTHER, ROWWISE_MOMENTS, Rates, family, family_name, rates
from nqf_pipeline.tasks import FeaturePowerLaw, Teacher, TeacherNetwork

SGD = Optimizer(kind="sgd", batch_size=16)


def cell(**changes):
    given = {"architecture": MLP(), "task": Teacher(), "optimizer": Optimizer(), "sigma": 0.01, "seed": 0, "steps": 1000, "records": 48}
    return Cell(**given | changes)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "mlp"),
        ({"train": "twin"}, MOMENTS),
        ({"train": "twin", "optimizer": SGD}, "mlp"),
        ({"architecture": PhaseRetrieval()}, MOMENTS),
        ({"architecture": PhaseRetrieval(), "optimizer": SGD}, "phase_retrieval"),
        ({"architecture": Diagonal(), "task": FeaturePowerLaw()}, ROWWISE_MOMENTS),
        ({"architecture": DeepMLP(), "task": TeacherNetwork(), "train": "twin"}, "deep_mlp"),
    ],
)
def test_a_cell_belongs_to_the_family_of_its_program(changes, name):
    assert family_name(cell(**changes)) == name
    assert family(cell(**changes)) == rates().families[name]


def test_what_was_not_measured_costs_like_a_middling_network():
    strange = cell(architecture=SingleHead(), task=Teacher(strengths=(1.0,)))
    assert family_name(strange) not in rates().families
    assert family(strange) == rates().families[OTHER]


def test_a_call_is_paid_once_a_lane_group():
    cost = Cost.estimated(cell(train="twin"), Sizes(600, 4, 1000.0))
    assert cost.dispatch > 0
    assert cost.lane_step(1) - cost.lane_step(4) == pytest.approx(0.75 * cost.dispatch)
    assert cost.lane_step(10**9) == pytest.approx(cost.step)
    few, many = (cost.of_cell(cell(train="twin", steps=steps), 2) for steps in (1000, 3000))
    assert many - few == pytest.approx(2000 * cost.lane_step(2))


def test_steps_of_small_twins_cost_their_call_and_those_of_networks_their_arithmetic():
    twin, network = (Cost.estimated(cell(train=train), Sizes(600, 4, 1000.0)) for train in ("twin", "network_and_twin"))
    assert twin.step < twin.dispatch / 4
    assert network.step > network.dispatch / 4
    assert twin.lane_step(4) < network.lane_step(4) / 4


def test_the_constants_are_as_the_benchmark_writes_them():
    assert Rates.model_validate_json(FILE.read_text()) == rates()
    assert 1 < rates().double < 10
    assert 0.1 < rates().imports < 30
    assert rates().record > 0
