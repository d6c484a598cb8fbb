"""Where a shard is trained: on one core, on several (where a site grants no single ones), or on an accelerator."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

import xarray as xr

from nqf_pipeline.stages.cores import enable_double_precision, prepare_worker, require_gpu
from nqf_pipeline.stages.watch import ASKED
from nqf_pipeline.store.shards import Summary
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.devices import Device
from nqf_pipeline.study.shards import Lanes, lane_groups

if TYPE_CHECKING:  # JAX is imported when a worker is ready for it
    from nqf_pipeline.stages.train import Stopwatch

Progress = Callable[[int], None]
FULL = "RESOURCE_EXHAUSTED"
"""What XLA says where memory is full."""


@dataclass(frozen=True)
class Place:
    """What a job may use."""

    device: Device = "cpu"
    cores: int = 1


@dataclass
class Work:
    """What a job has trained, and how. It grows while the job is at work, so that whatever ends the job finds what there is."""

    lane_width: int
    """Cells advanced together."""
    parts: list[xr.Dataset] = field(default_factory=list)
    """Trajectories of the lane groups that ended."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By stage, of the slowest process."""
    device: str = ""
    threads: int | None = None
    earlier: Summary | None = None
    """Of the attempts whose cells were kept."""


def train_cells(cells: Sequence[Cell], place: Place, work: Work, progress: Progress = lambda done: None) -> None:
    """Trains cells of one bucket into `work`. Raises WorkError where the accelerator is absent."""
    if place.device == "gpu":
        _on_gpu(cells, work, progress)
    elif place.cores > 1:
        _on_cores(cells, place.cores, work, progress)
    else:
        _on_core(cells, work, progress)


def _on_core(cells: Sequence[Cell], work: Work, progress: Progress) -> None:
    watch = ready(work)
    from nqf_pipeline.stages import train

    train.run_cells(cells, work.lane_width, watch, progress, work.parts)


def ready(work: Work, device: Device = "cpu") -> Stopwatch:
    """Set up this process for training, and let `work` see its clock."""
    begun = perf_counter()
    prepare_worker(device)
    enable_double_precision()
    if device == "gpu":
        require_gpu()
    from nqf_pipeline.stages import train

    watch = train.Stopwatch()
    work.seconds, work.device, work.threads = watch.seconds, train.device_name(), 1
    watch.seconds["start"] = perf_counter() - begun
    return watch


def _on_gpu(cells: Sequence[Cell], work: Work, progress: Progress) -> None:
    watch = ready(work, "gpu")
    from nqf_pipeline.stages import train

    def run(width: int) -> None:
        finished = {name for part in work.parts for name in part["cell"].values}
        train.run_cells([cell for cell in cells if cell.id not in finished], width, watch, progress, work.parts)

    work.lane_width = narrowed(run, work.lane_width)


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


def _on_cores(cells: Sequence[Cell], cores: int, work: Work, progress: Progress) -> None:
    """Lane groups in processes of their own, one a core: the same bits as on one core, and what ends is kept at once."""
    groups = lane_groups(cells, work.lane_width)[::-1]  # shortest first, as on one core
    work.threads = min(cores, len(groups))
    # Forking would copy locks that XLA's threads hold.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(work.threads, mp_context=context, initializer=_obey, initargs=(os.getpid(),)) as pool:
        for future in as_completed([pool.submit(_train_group, group, work.lane_width) for group in groups]):
            part, seconds, work.device = future.result()
            work.seconds = {stage: max(spent, work.seconds.get(stage, 0.0)) for stage, spent in seconds.items()}
            work.parts.append(part)
            progress(part.sizes["cell"])


def _obey(parent: int) -> None:
    """End with the job and not before: who is asked to end together with it would take its finished cells along."""
    for number in ASKED:
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


@cache
def _worker(lane_width: int) -> tuple[Work, Stopwatch, dict[str, Any]]:
    """What a process keeps from group to group: its clock, and the compiled program."""
    work = Work(lane_width)
    return work, ready(work), {}


def _train_group(cells: Lanes, lane_width: int) -> tuple[xr.Dataset, dict[str, float], str]:
    """One lane group; its trajectories, the seconds of this process so far, and the device."""
    work, watch, programs = _worker(lane_width)
    from nqf_pipeline.stages import train

    return train.run_cells(cells, lane_width, watch, programs=programs), watch.seconds, work.device


def _end_with(parent: int) -> None:
    """A killed job takes its processes along."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
