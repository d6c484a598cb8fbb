"""Where a shard is trained: on one core, on several (where a site grants no single ones), or on an accelerator."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from time import perf_counter

import xarray as xr

from nqf_pipeline.stages.cores import enable_double_precision, prepare_worker, require_gpu
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.devices import Device
from nqf_pipeline.study.shards import lane_groups

Part = tuple[Cell, ...]
Progress = Callable[[int], None]
FULL = "RESOURCE_EXHAUSTED"
"""What XLA says where memory is full."""


@dataclass(frozen=True)
class Place:
    """What a job may use."""

    device: Device = "cpu"
    cores: int = 1


@dataclass(frozen=True)
class Spent:
    """How cells were trained: seconds by stage (of the slowest process), the device's name, threads, and cells advanced together."""

    seconds: dict[str, float]
    device: str
    threads: int
    lane_width: int


def train_cells(cells: Sequence[Cell], lane_width: int, place: Place, progress: Progress, parts: list[xr.Dataset]) -> Spent:
    """Trains cells of one bucket; `parts` grows by the trajectories of what ends. Raises WorkError where the accelerator is absent."""
    if place.device == "gpu":
        return _on_gpu(cells, lane_width, progress, parts)
    if place.cores > 1:
        return _on_cores(cells, lane_width, place.cores, progress, parts)
    return _on_core(cells, lane_width, progress, parts)


def _on_core(cells: Sequence[Cell], lane_width: int, progress: Progress, parts: list[xr.Dataset]) -> Spent:
    begun = perf_counter()
    prepare_worker()
    enable_double_precision()
    from nqf_pipeline.stages import train

    watch = train.Stopwatch()
    watch.seconds["start"] = perf_counter() - begun
    train.run_cells(cells, lane_width, watch, progress, parts)
    return Spent(watch.seconds, train.device_name(), 1, lane_width)


def _on_gpu(cells: Sequence[Cell], lane_width: int, progress: Progress, parts: list[xr.Dataset]) -> Spent:
    begun = perf_counter()
    prepare_worker("gpu")
    enable_double_precision()
    require_gpu()
    from nqf_pipeline.stages import train

    watch = train.Stopwatch()
    watch.seconds["start"] = perf_counter() - begun

    def run(width: int) -> None:
        finished = {name for part in parts for name in part["cell"].values}
        train.run_cells([cell for cell in cells if cell.id not in finished], width, watch, progress, parts)

    return Spent(watch.seconds, train.device_name(), 1, narrowed(run, lane_width))


def narrowed(run: Callable[[int], None], lane_width: int) -> int:
    """Calls `run(lane_width)`, with half as many lanes for as long as the device's memory is full. Returns the width that fitted."""
    while True:
        try:
            run(lane_width)
        except RuntimeError as error:  # JAX's errors of the runtime are such
            if FULL not in str(error) or lane_width == 1:
                raise
        else:
            return lane_width
        lane_width = -(-lane_width // 2)
        print(f"The device's memory is full: trying {lane_width} cells at once", file=sys.stderr)


def _on_cores(cells: Sequence[Cell], lane_width: int, cores: int, progress: Progress, parts: list[xr.Dataset]) -> Spent:
    """Each core trains its share in a process of its own: the same bits as on one core."""
    shares = share_out(cells, lane_width, cores)
    # Forking would copy locks that XLA's threads hold.
    with ProcessPoolExecutor(len(shares), mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(_share, share, lane_width, os.getpid()): share for share in shares}
        for future in as_completed(futures):
            parts += future.result()[0]
            progress(len(futures[future]))
        spent = [future.result()[1] for future in futures]
    slowest = {stage: max(one.seconds[stage] for one in spent) for stage in spent[0].seconds}
    return Spent(slowest, spent[0].device, len(shares), lane_width)


def share_out(cells: Sequence[Cell], lane_width: int, cores: int) -> list[Part]:
    """Whole lane groups for each core, the next one always to who has least: groups stay what one core would make of them."""
    shares: list[list[Cell]] = [[] for _ in range(cores)]
    steps = [0] * cores
    for group in lane_groups(cells, lane_width):
        least = steps.index(min(steps))
        shares[least] += group
        steps[least] += group[0].steps
    return [tuple(share) for share in shares if share]


def _share(cells: Part, lane_width: int, parent: int) -> tuple[list[xr.Dataset], Spent]:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    parts: list[xr.Dataset] = []
    spent = _on_core(cells, lane_width, lambda done: None, parts)
    return parts, spent


def _end_with(parent: int) -> None:
    """A killed job takes its processes along."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
