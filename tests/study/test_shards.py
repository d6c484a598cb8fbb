from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP, Diagonal
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.cost import Cost, Sizes, cell_bytes, wall_seconds
from nqf_pipeline.study.shards import form_shards, lane_groups
from nqf_pipeline.tasks import Digits, FeaturePowerLaw, Teacher


def cell(seed=0, steps=1000, sigma=0.01, width=8, **changes):
    given = {"architecture": MLP(width=width), "task": Teacher(), "optimizer": Optimizer(), "records": 16}
    return Cell(**given | changes, seed=seed, steps=steps, sigma=sigma)


GRIDS = st.builds(
    lambda seeds, steps, widths: [cell(seed, step, width=width) for seed in range(seeds) for step in steps for width in widths],
    st.integers(1, 9),
    st.lists(st.integers(50, 5000), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from([4, 8]), min_size=1, max_size=2, unique=True),
)


def cell_seconds(one, sizes):
    """Of its steps and records."""
    cost = Cost.estimated(one, sizes)
    return cost.of_cell(one, 4) - cost.cell


def duration(cell):
    return cell.steps * 1e-3


@given(GRIDS, st.integers(1, 5), st.floats(0.5, 100), st.randoms())
def test_shards_hold_every_cell_once_whatever_the_order(cells, lane_width, target, shuffler):
    shards = form_shards(cells, lane_width, duration, target)
    assert sorted(c.id for shard in shards for c in shard.cells) == sorted(c.id for c in cells)
    assert all({c.bucket for c in shard.cells} == {shard.bucket} for shard in shards)
    shuffled = list(cells)
    shuffler.shuffle(shuffled)
    assert form_shards(shuffled, lane_width, duration, target) == shards
    assert [shard.id for shard in form_shards(shuffled, lane_width, duration, target)] == [shard.id for shard in shards]


@given(GRIDS, st.integers(1, 5), st.floats(0.5, 100))
def test_a_shard_is_filled_to_its_target_and_not_beyond(cells, lane_width, target):
    for shard in form_shards(cells, lane_width, duration, target):
        groups = [lane_width * duration(lanes[0]) for lanes in shard.lanes]
        assert sum(groups) < target + max(groups)


@given(GRIDS, st.integers(1, 5))
def test_lanes_of_a_group_share_the_step_grid(cells, lane_width):
    bucket = [c for c in cells if c.bucket == cells[0].bucket]
    groups = lane_groups(bucket, lane_width)
    assert all(len(lanes) <= lane_width and len({c.lane_key for c in lanes}) == 1 for lanes in groups)
    assert len(groups) == sum(-(-sum(c.steps == steps for c in bucket) // lane_width) for steps in {c.steps for c in bucket})
    assert [lanes[0].steps for lanes in groups] == sorted((lanes[0].steps for lanes in groups), reverse=True)


def test_lanes_share_a_data_set_only_where_the_network_reads_common_samples():
    digits = [cell(task=Digits(samples=samples), architecture=MLP(inputs=64, outputs=1)) for samples in (100, 200)]
    assert digits[0].lane_key != digits[1].lane_key
    law = [cell(task=FeaturePowerLaw(alpha1=alpha), architecture=Diagonal()) for alpha in (1.5, 2.0)]
    assert law[0].lane_key == law[1].lane_key, "an exactly quadratic module sees moments, which are traced"
    assert cell(seed=0).lane_key == cell(seed=1).lane_key


def test_a_shards_name_is_that_of_its_cells():
    one, other = (form_shards([cell(seed)], 4, duration, 1.0)[0] for seed in (0, 1))
    assert one.id != other.id
    assert one.id == form_shards([cell(0)], 2, duration, 9.0)[0].id


def test_costs_follow_shapes():
    sizes = Sizes(samples=600, modes=4)
    wide, long, double, batch = (
        cell(width=800),
        cell(steps=100_000),
        cell(precision="float64"),
        cell(optimizer=Optimizer(kind="sgd", batch_size=60), width=800),
    )
    small = cell_seconds(cell(width=80), sizes)
    assert cell_seconds(wide, sizes) == pytest.approx(10 * small, rel=0.2)
    assert cell_seconds(long, sizes) == pytest.approx(100 * cell_seconds(cell(), sizes), rel=0.1)
    assert cell_seconds(double, sizes) > cell_seconds(cell(), sizes), "by how much is measured"
    assert cell_seconds(batch, sizes) < 0.5 * cell_seconds(wide, sizes)
    assert cell_bytes(cell(), Sizes(600, 40)) > 5 * cell_bytes(cell(), sizes)
    assert cell_seconds(cell(task=FeaturePowerLaw(), architecture=Diagonal(), steps=10**5), Sizes(1000, 24)) < 1.0, "moments, not samples"


def test_padded_lanes_cost_like_full_ones():
    cost = Cost.estimated(cell(), Sizes(600, 4))
    alone, full = (form_shards([cell(seed) for seed in range(count)], 4, duration, 100.0)[0] for count in (1, 4))
    assert cost.of_shard(alone) == pytest.approx(cost.of_shard(full))
    assert cost.of_shard(full) == pytest.approx(cost.start + 4 * cost.of_cell(cell(), 4))


def test_wall_time_is_that_of_the_longest_first_schedule():
    assert wall_seconds([3, 3, 2, 2, 2], 2) == 7
    assert wall_seconds([5], 8) == 5
    assert wall_seconds([], 2) == 0
    durations = [random.Random(0).uniform(1, 10) for _ in range(40)]
    assert sum(durations) / 3 <= wall_seconds(durations, 3) <= sum(durations) / 3 + 10
