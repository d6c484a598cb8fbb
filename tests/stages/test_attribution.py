"""Attribution of a drop by order and block, on attention that learns to attend."""

from __future__ import annotations

import numpy as np
import pytest

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.errors import InputError
from nqf_pipeline.models import MLP, MultiHead
from nqf_pipeline.stages.attribution import attribute, blocks_of
from nqf_pipeline.stages.train import Stopwatch, run_cells
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.tasks import TASKS, Teacher

ATTENTION = MultiHead(dimension=8, tokens=8, outputs=1, width=2, key_size=2, value_size=2)


def cell_of(architecture, task, optimizer, steps) -> Cell:
    return Cell(architecture=architecture, task=task, optimizer=optimizer, sigma=0.01, steps=steps, records=6, precision="float64")


def test_blocks_are_what_the_quadratic_form_reads() -> None:
    read, other = blocks_of(ATTENTION)
    assert (len(read), len(other)) == (8 * 2 + 2, 2 * 8 * 2)
    np.testing.assert_array_equal(read, np.arange(18))
    assert not len(blocks_of(MLP())[1])


def test_shares_sum_to_one_and_losses_are_those_of_the_trained_cell() -> None:
    cell = cell_of(ATTENTION, TASKS["digits"](), Optimizer(kind="momentum", learning_rate=0.005), 1200)
    found = attribute(cell, cell.step_grid())
    trained = run_cells([cell], 1, Stopwatch())
    np.testing.assert_allclose(found["loss"], trained["network_loss"].values[0], rtol=1e-8)
    shares = found.filter(regex="order_|rest").sum(axis=1)
    np.testing.assert_allclose(shares, 1.0, rtol=1e-9)
    first, last = found.iloc[0], found.iloc[-1]
    assert first["order_2_read"] == pytest.approx(1, abs=0.01)
    assert first["loss_to_2"] == pytest.approx(first["loss"], rel=1e-6)
    assert abs(last["loss_to_4"] - last["loss"]) < abs(last["loss_to_2"] - last["loss"])


def test_minibatches_have_no_fall_to_split() -> None:
    cell = cell_of(MLP(inputs=3, width=4, outputs=1), Teacher(strengths=(1.0,)), Optimizer(kind="sgd", batch_size=4), 10)
    with pytest.raises(InputError, match="not sgd"):
        attribute(cell)
