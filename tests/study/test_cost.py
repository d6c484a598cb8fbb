"""The static cost model: families of programs, what grows with lanes, and the file of measured constants."""

from __future__ import annotations

import pytest

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.dynamics.turns import largest_side
from nqf_pipeline.models import MLP, DeepMLP, Diagonal, PhaseRetrieval, SingleHead
from nqf_pipeline.stages.train import assemble, program_of
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.cost import Cost, Sizes
from nqf_pipeline.study.rates import AT_ONCE, FILE, MOMENTS, OTHER, ROWWISE_MOMENTS, Rates, family, family_name, lanes_in_turns, rates
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
        ({"train": "twin", "architecture": MLP(width=4096)}, MOMENTS + AT_ONCE),
        ({"train": "twin", "architecture": MLP(width=4096), "twin": "compressed"}, MOMENTS),
        ({"architecture": Diagonal(width=1), "task": FeaturePowerLaw()}, ROWWISE_MOMENTS),
        ({"architecture": Diagonal(width=512), "task": FeaturePowerLaw()}, ROWWISE_MOMENTS + AT_ONCE),
        ({"architecture": DeepMLP(), "task": TeacherNetwork(), "train": "twin"}, "deep_mlp"),
    ],
)
def test_a_cell_belongs_to_the_family_of_its_program(changes, name):
    assert family_name(cell(**changes), 20) == name
    assert family(cell(**changes), 20) == rates().families[name]


def test_what_was_not_measured_costs_like_a_middling_network():
    strange = cell(architecture=SingleHead(), task=Teacher(strengths=(1.0,)))
    assert family_name(strange, 20) not in rates().families
    assert family(strange, 20) == rates().families[OTHER]


def test_a_call_is_paid_once_a_lane_group_or_by_each_lane_in_its_turn():
    network, twin = (Cost.estimated(cell(train=train), Sizes(600, 4, 1000.0, 20)) for train in ("network_and_twin", "twin"))
    assert network.dispatch > 0
    assert network.lane_step(1) - network.lane_step(4) == pytest.approx(0.75 * network.dispatch)
    assert network.lane_step(10**9) == pytest.approx(network.step)
    assert twin.lane_step(1) == twin.lane_step(4) == twin.step
    assert twin.step < network.lane_step(4) / 4
    few, many = (network.of_cell(cell(steps=steps), 2) for steps in (1000, 3000))
    assert many - few == pytest.approx(2000 * network.lane_step(2))


def test_planning_and_training_agree_on_whose_lanes_run_in_turns():
    """The program looks at the arrays it is given, planning at sizes."""
    for changes in ({"seed": 1}, {"architecture": MLP(width=1024)}, {"architecture": MLP(width=1024), "twin": "compressed"}):
        one = cell(train="twin", **changes)
        problem = one.problem()
        side = largest_side(problem.moments, one.architecture.pairing)
        group, _ = assemble([one], 1)
        assert program_of(one)._small_twin(group) == lanes_in_turns(one, side)


def test_the_constants_are_as_the_benchmark_writes_them():
    assert Rates.model_validate_json(FILE.read_text()) == rates()
    assert 1 < rates().double < 10
    assert 0.1 < rates().imports < 30
    assert rates().record > 0
