from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP, Diagonal
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.families import Family
from nqf_pipeline.study.identity import around, encode
from nqf_pipeline.tasks import Digits, FeaturePowerLaw, Teacher

CELLS = {
    "teacher": {"architecture": MLP(), "task": Teacher()},
    "shared data": {"architecture": MLP(inputs=64, outputs=1), "task": Digits()},
    "moments": {"architecture": Diagonal(), "task": FeaturePowerLaw(), "precision": "float64"},
    "minibatches": {"architecture": MLP(), "task": Teacher(), "optimizer": Optimizer(kind="sgd", batch_size=32)},
    "a later field and a file": {"architecture": Diagonal(width=64), "task": FeaturePowerLaw(), "twin": "compressed", "fingerprint": "f"},
}


@pytest.mark.parametrize("name", CELLS)
@given(seed=st.integers(0, 2**40))
def test_a_member_is_the_cell_that_validation_builds(name, seed):
    fields = {"optimizer": Optimizer(), "sigma": 0.01, "steps": 1000, "experiment": "tracks"} | CELLS[name]
    family = Family(Cell.model_validate(fields | {"seed": 3}))
    family.member(1)
    member, built = family.member(seed), Cell.model_validate(fields | {"seed": seed})
    assert member == built
    for derived in ("id", "bucket", "lane_key", "data_id"):
        assert getattr(member, derived) == getattr(built, derived)
    assert member.model_dump_json() == built.model_dump_json()
    assert member.stream("init").integers(2**60) == built.stream("init").integers(2**60)


def test_the_text_around_a_field():
    cell = Cell(architecture=MLP(), task=Teacher(), optimizer=Optimizer(), sigma=0.01, steps=1000, seed=7)
    for field in ("architecture", "seed", "task"):
        before, after = around(cell, field)
        assert before + encode(getattr(cell, field)) + after == encode(cell)


@pytest.mark.parametrize("name", CELLS)
def test_a_member_has_nothing_that_its_first_cell_computed(name):
    """A data id depends on the seed where data do; a cell keeps what it has computed."""
    fields = {"optimizer": Optimizer(), "sigma": 0.01, "steps": 1000, "experiment": "tracks"} | CELLS[name]
    cell = Cell.model_validate(fields | {"seed": 3})
    computed = cell.id, cell.bucket, cell.lane_key, cell.data_id
    assert all(computed[:2])
    built = Cell.model_validate(fields | {"seed": 4})
    assert Family(cell).member(4).data_id == built.data_id
