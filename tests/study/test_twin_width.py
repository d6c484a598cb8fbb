"""Which cells have compressed twins, and that nothing changes for the others."""

from __future__ import annotations

from typing import Any

import pytest

from nqf_pipeline.stages.train import Stopwatch, program_of, run_cells
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.errors import ConfigError
from nqf_pipeline.study.manifest import Manifest
from nqf_pipeline.study.plan import plan
from nqf_pipeline.study.reading import study_from

WIDE = {"kind": "phase_retrieval", "inputs": 4, "width": 32}


def cells_of(**changes: Any) -> list[Cell]:
    experiment: dict[str, Any] = {
        "architectures": [WIDE],
        "tasks": [{"kind": "teacher", "strengths": [1.0], "samples": 24, "test_samples": 12}],
        "optimizers": [{"kind": "gd", "learning_rate": 0.05}],
        "sigma": [0.1],
        "seeds": 1,
        "steps": 50,
        "records": 8,
    }
    return plan(study_from({"name": "trial", "experiments": {"wide": experiment | changes}}), Manifest()).cells


def test_full_is_the_default_and_leaves_identities_alone() -> None:
    (default,), (full,), (small,) = cells_of(), cells_of(twin="full"), cells_of(twin="compressed")
    assert default.id == full.id != small.id
    assert default.bucket == full.bucket != small.bucket
    assert default.stream("init").integers(2**63) == small.stream("init").integers(2**63)


@pytest.mark.parametrize(
    ("changes", "width"),
    [
        ({}, 5),
        ({"architectures": [WIDE | {"width": 5}]}, 5),
        ({"architectures": [{"kind": "mlp", "inputs": 4, "outputs": 2, "width": 50}]}, 50),
        ({"train": "twin", "architectures": [{"kind": "mlp", "inputs": 4, "outputs": 2, "width": 50}]}, 7),
        ({"train": "nothing"}, 32),
        ({"optimizers": [{"kind": "adam", "learning_rate": 0.01}]}, 32),
        ({"optimizers": [{"kind": "sgd", "learning_rate": 0.01, "batch_size": 4}]}, 32),
    ],
    ids=["wide", "not wide enough", "beside a network", "twin alone", "no twin", "adam", "minibatches"],
)
def test_auto_compresses_where_the_twin_is_the_only_run(changes: dict[str, Any], width: int) -> None:
    (cell,) = cells_of(twin="auto", **changes)
    assert cell.coordinates()["twin_width"] == cell.twin_width == width
    assert program_of(cell).compressed == (cell.twin == "compressed")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"optimizers": [{"kind": "adam", "learning_rate": 0.01}]}, "adam steps by the size of every single weight"),
        ({"architectures": [WIDE | {"width": 4}]}, "has 4 columns and needs 5"),
    ],
)
def test_what_cannot_be_compressed_says_why(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s)wide.*{reason}.*`auto`"):
        cells_of(twin="compressed", **changes)


def test_compressed_cells_store_the_trajectories_of_full_ones() -> None:
    small, full = (run_cells(cells_of(twin=twin, precision="float64"), 2, Stopwatch()) for twin in ("compressed", "full"))
    for name in ("network_loss", "twin_test_loss", "network_mode", "order_parameter", "twin_kernel_change"):
        assert abs(small[name].values - full[name].values).max() < 1e-11
