"""Stage: train the cells of one shard, networks and twins, and write the shard."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import jax
import numpy as np
import xarray as xr

from nqf_pipeline.dynamics import pytrees
from nqf_pipeline.dynamics.divergence import diverged_step
from nqf_pipeline.dynamics.lanes import Data, Record, data_of, hyper_of
from nqf_pipeline.dynamics.train import Executable, LaneGroup, Program, train
from nqf_pipeline.store.schema import CURVE, MODES, Status
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.draws import batch_seed, initial_weights, problem_of
from nqf_pipeline.study.shards import lane_groups

Progress = Callable[[int], None]


@dataclass
class Stopwatch:
    """Seconds by stage. `run` is time inside compiled kernels."""

    seconds: dict[str, float] = field(default_factory=lambda: {"prepare": 0.0, "compile": 0.0, "run": 0.0})

    def time(self, stage: str, work: Callable[[], Any]) -> Any:
        start = perf_counter()
        result = work()
        self.seconds[stage] += perf_counter() - start
        return result


def program_of(cell: Cell) -> Program:
    """The compiled program that a cell shares with its bucket."""
    return Program(
        architecture=cell.architecture,
        update=cell.optimizer.program,
        batch_size=cell.optimizer.batch_size,
        precision=cell.precision,
        shared_data=cell.shares_data,
        schedule=None if cell.optimizer.timetable is None else cell.optimizer.schedule,
        loss=cell.task.loss_name,
        labels=problem_of(cell).labels,
        network=cell.has_network,
        compressed=cell.twin == "compressed",
        lagging=cell.lags,
    )


def assemble(cells: Sequence[Cell], lane_width: int) -> tuple[LaneGroup, list[Data]]:
    """Lane-stacked arguments, padded to the lane width with copies of the last cell so that every call has one shape."""
    program = program_of(cells[0])
    problems = [problem_of(cell) for cell in cells]
    needed = program.reads_samples
    data = [data_of(c.architecture, p, samples_needed=needed, fresh=c.optimizer.fresh) for c, p in zip(cells, problems, strict=True)]
    pad = lane_width - len(cells)
    lanes, lane_data = [*cells, *[cells[-1]] * pad], [*data, *[data[-1]] * pad]
    weights = [initial_weights(cell) for cell in cells]
    lane_weights = [*weights, *[weights[-1]] * pad]
    seeds = [batch_seed(cell) for cell in lanes]
    group = LaneGroup(
        data=data[0] if program.shared_data else pytrees.stack(lane_data),
        weights=np.stack(lane_weights),
        hyper=pytrees.stack([hyper_of(cell.optimizer) for cell in lanes]),
        batch_key=jax.vmap(jax.random.key)(np.array(seeds)),
        step_number=cells[0].step_grid(),
        twin_weights=np.stack([program.twin.start(start) for start in lane_weights]) if program.compressed else None,
    )
    return group, data


def run_cells(
    cells: Sequence[Cell],
    lane_width: int,
    watch: Stopwatch,
    progress: Progress = lambda done: None,
    parts: list[xr.Dataset] | None = None,
    programs: dict[str, Executable] | None = None,
) -> xr.Dataset:
    """Trains cells of one bucket; returns their trajectories in the order given. `parts` grows by each lane group that ends.

    `programs` keeps what is compiled, by bucket, for the next call of the same lane width.
    """
    program, bucket = program_of(cells[0]), cells[0].bucket
    parts, programs = [] if parts is None else parts, {} if programs is None else programs
    for group_cells in reversed(lane_groups(cells, lane_width)):  # shortest first: a time limit then costs the fewest cells
        group, data = watch.time("prepare", partial(assemble, group_cells, lane_width))
        if bucket not in programs:
            programs[bucket] = watch.time("compile", partial(program.compile, group))
        record = watch.time("run", partial(train, program, programs[bucket], group))
        parts.append(trajectories(group_cells, data, record))
        progress(len(group_cells))
    return xr.concat(parts, dim="cell").sel(cell=[cell.id for cell in cells])


def trajectories(cells: Sequence[Cell], data: list[Data], record: Record) -> xr.Dataset:
    """The record of one lane group as a dataset (padding lanes dropped)."""
    steps = cells[0].step_grid()
    recorded = {name: array for name, array in record._asdict().items() if array is not None}
    arrays = {name: array[: len(cells)].astype(np.float64) for name, array in recorded.items()}
    diverged = diverged_step(arrays.get("network_loss", arrays["twin_loss"]), arrays["twin_loss"], steps)
    if not cells[0].has_network:
        arrays |= _no_network(arrays)
    variables = {name: (MODES if array.ndim == 3 else CURVE, array) for name, array in arrays.items()}
    return xr.Dataset(
        {
            **variables,
            "step_number": (CURVE, np.tile(steps, (len(cells), 1))),
            "time": (CURVE, np.array([cell.optimizer.flow_time(steps) for cell in cells])),
            "mode_number": (("cell", "mode"), np.stack([d.modes.number for d in data])),
            "mode_target": (("cell", "mode"), np.stack([d.modes.target for d in data])),
            "loss_floor": ("cell", np.array([_floor(d, cells[0]) for d in data])),
            "status": ("cell", np.where(diverged < 0, Status.done, Status.diverged).astype(np.int8)),
            "diverged_step": ("cell", diverged),
        },
        coords={"cell": [cell.id for cell in cells]},
    )


def _no_network(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What would be recorded of a network, without numbers."""
    of_network = {name.replace("twin", "network"): name for name in arrays if name.startswith("twin_") and "kernel" not in name}
    return {name: np.full_like(arrays[like], np.nan) for name, like in {**of_network, "divergence": "twin_loss"}.items()}


def _floor(data: Data, cell: Cell) -> float:
    """The least squared error of any quadratic form; nothing is known of other losses."""
    return float(data.train.moments.floor) if cell.task.loss_name == "squared_error" else float("nan")


def device_name() -> str:
    """Kind of device that the kernels run on."""
    device = jax.devices()[0]
    return f"{device.platform} ({device.device_kind}, {os.uname().machine})"
