from __future__ import annotations

import pytest

from nqf_pipeline.dynamics.optimizers import Optimizer


@pytest.mark.parametrize(
    ("kind", "program", "momentum"), [("gd", "linear", 0.0), ("sgd", "linear", 0.0), ("momentum", "linear", 0.9), ("adam", "adam", 0.0)]
)
def test_programs_and_defaults(kind, program, momentum):
    optimizer = Optimizer(kind=kind, batch_size=8 if kind == "sgd" else None)
    assert (optimizer.program, optimizer.momentum, optimizer.in_linear_span) == (program, momentum, program == "linear")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "sgd"}, "sgd needs `batch_size`"),
        ({"kind": "gd", "batch_size": 4}, "with `batch_size` use `kind: sgd`"),
        ({"kind": "gd", "momentum": 0.5}, "`momentum` belongs to momentum, not to gd"),
        ({"kind": "momentum", "beta2": 0.5}, "`beta2` belongs to adam, not to momentum"),
        ({"kind": "adam", "momentum": 0.5}, "`momentum` belongs to momentum, not to adam"),
        ({"learning_rate": 0}, "greater than 0"),
        ({"learning_rate": float("nan")}, "finite number"),
        ({"kind": "momentum", "momentum": 1.0}, "less than 1"),
        ({"weight_decay": -1}, "greater than or equal to 0"),
        ({"lr": 0.1}, "Extra inputs are not permitted"),
    ],
)
def test_impossible_optimizers_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Optimizer(**fields)


def test_fields_a_kind_ignores_may_be_given_their_neutral_value():
    for kind in ("gd", "momentum", "adam"):
        optimizer = Optimizer(kind=kind)
        assert Optimizer.model_validate(optimizer.model_dump()) == optimizer


def test_time_scale_is_the_flow_time_of_a_step():
    assert Optimizer(kind="momentum", learning_rate=0.02, momentum=0.75).time_scale == 0.08
    assert Optimizer(kind="gd", learning_rate=0.02).time_scale == 0.02
    assert Optimizer(kind="adam", learning_rate=0.02).time_scale == 0.02
