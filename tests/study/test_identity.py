from __future__ import annotations

import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import CNN, MLP, Diagonal
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.identity import digest, encode, restore
from nqf_pipeline.tasks import Digits, FeaturePowerLaw, File, Teacher

FINITE = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
OPTIMIZERS = st.builds(
    Optimizer,
    kind=st.just("momentum"),
    learning_rate=st.floats(1e-6, 10),
    momentum=st.floats(0, 0.99),
    batch_size=st.none() | st.integers(1, 512),
)
CELLS = st.builds(
    Cell,
    architecture=st.builds(MLP, width=st.integers(1, 300)) | st.builds(CNN, outputs=st.integers(1, 9)) | st.builds(Diagonal),
    task=st.builds(Teacher, strengths=st.lists(st.floats(0.01, 5), min_size=1, max_size=4).map(tuple)) | st.builds(FeaturePowerLaw),
    optimizer=OPTIMIZERS,
    sigma=st.floats(1e-12, 10),
    seed=st.integers(0, 10**6),
    steps=st.integers(255, 10**7),
    precision=st.sampled_from(["float32", "float64"]),
)


@given(PLAIN)
def test_canonical_json_loses_nothing(value):
    assert json.loads(encode(value)) == value


@given(PLAIN)
def test_canonical_json_is_canonical(value):
    assert encode(json.loads(encode(value))) == encode(value)


@given(CELLS)
def test_a_stored_cell_keeps_its_identity(cell):
    again = Cell.model_validate_json(cell.model_dump_json())
    assert (again, again.id, again.bucket, again.data_id) == (cell, cell.id, cell.bucket, cell.data_id)


@given(CELLS, st.randoms())
def test_identity_does_not_depend_on_the_order_of_fields(cell, random):
    def shuffled(value):
        if not isinstance(value, dict):
            return value
        items = list(value.items())
        random.shuffle(items)
        return {key: shuffled(item) for key, item in items}

    assert Cell.model_validate(shuffled(cell.model_dump())).id == cell.id


def cell(**changes):
    given = {"architecture": MLP(), "task": Teacher(), "optimizer": Optimizer(), "sigma": 0.01, "steps": 1000}
    return Cell(**given | changes)


def test_the_experiment_is_a_label():
    assert cell(experiment="tracks").id == cell(experiment="widths").id


def test_whole_floats_and_integers_are_one_number():
    assert cell(sigma=1).id == cell(sigma=1.0).id
    assert cell(task={"kind": "teacher", "strengths": [1, 2]}).id == cell(task={"kind": "teacher", "strengths": [1.0, 2.0]}).id
    assert encode(-0.0) == encode(0)


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": MLP(width=65)},
        {"task": Teacher(label_noise=0.1)},
        {"optimizer": Optimizer(learning_rate=0.021)},
        {"sigma": 0.0100000001},
        {"seed": 1},
        {"steps": 1001},
        {"records": 255},
        {"precision": "float64"},
        {"fingerprint": "0"},
    ],
)
def test_everything_that_affects_numbers_affects_the_identity(change):
    assert cell(**change).id != cell().id


def test_identities_are_pinned():
    """A change here renames every result that users have: give a new field an `absent` value, or raise config.SCHEMA and say so."""
    assert encode(cell()) == (
        '{"architecture":{"activation":"tanh","inputs":20,"kind":"mlp","outputs":8,"width":64},'
        '"optimizer":{"batch_size":null,"beta1":0.9,"beta2":0.999,"eps":1e-08,"kind":"gd","learning_rate":0.02,"momentum":0,"weight_decay":0},'
        '"precision":"float32","records":256,"seed":0,"sigma":0.01,"steps":1000,'
        '"task":{"condition":10,"inputs":"gaussian","kind":"teacher","label_noise":0,"samples":600,"strengths":[1,0.5,0.25,0.125],'
        '"test_samples":600}}'
    )
    assert cell().id == "0638e274a5555a16"
    # From before losses and labels could be named.
    digits = cell(architecture=MLP(inputs=64, outputs=1), task=Digits(), steps=4000)
    assert (digits.id, digits.bucket, digits.data_id) == ("0b8244b0fb16468e", "mlp_64_digits_linear_49d81e30", "257933d632b82fb1")
    for task in (Digits(loss="logistic"), Digits(labels="classes")):
        assert cell(architecture=digits.architecture, task=task, steps=4000).bucket != digits.bucket


class Before(BaseModel, frozen=True):
    kind: Literal["x"] = "x"
    size: int = 3


class After(Before):
    tilt: float = Field(default=0.5, json_schema_extra={"absent": 0.0})


def test_a_field_added_later_keeps_old_names():
    assert digest(After(tilt=0.0)) == digest(Before())
    assert digest(After()) != digest(Before())
    assert After(**restore(After, Before().model_dump())).tilt == 0.0


def test_a_file_is_known_by_its_contents_not_its_name():
    one, other = File(path="a.npz"), File(path="b/c.npz")
    assert cell(task=one, fingerprint="f").id == cell(task=other, fingerprint="f").id != cell(task=one, fingerprint="g").id
