"""The store against cells and bytes: shards written, merged, merged again with a tenth more, opened, reduced.

`python -m benchmarks.growth.stores FOLDER CELLS` measures one size in a process of its own and prints JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.growth.commands import measured
from benchmarks.growth.scheduling import sizes
from benchmarks.growth.sweeps import Sweep
from benchmarks.memory import peak
from benchmarks.storage import timed, trajectories, write_shards
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP
from nqf_pipeline.store.merge import merge
from nqf_pipeline.store.open import open_study
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.tasks import Teacher

CELLS, PER_SHARD, RECORDS = (100, 300, 600, 1200, 2400), 100, 256
COSTS = {
    "shards": "shards written",
    "merge": "merged",
    "extend": "a tenth more cells merged in",
    "open": "opened",
    "reduce": "mean loss of all cells",
}


def store_sweeps(scratch: Path, scale: float) -> list[Sweep]:
    """Seconds of each operation, memory of the merge, bytes of the store."""
    found = {}
    for cells in sizes(CELLS, scale):
        cost = measured([sys.executable, "-m", "benchmarks.growth.stores", scratch / f"store{cells}", str(cells)], Path.cwd())
        found[cells] = json.loads(cost.output.splitlines()[-1])
    setting = f"one bucket, {RECORDS} records, 4 modes, shards of {PER_SHARD} cells, synced to disk"
    shared = {"size": "cells", "setting": setting}

    def sweep(name: str, panel: str, cost: str, unit: str) -> Sweep:
        return Sweep(f"store_{name}", panel, cost=cost, unit=unit, points=[[n, values[name]] for n, values in found.items()], **shared)

    times = [sweep(name, "store", cost, "s") for name, cost in COSTS.items()]
    return [*times, sweep("bytes", "bytes of the store", "store and shards", "MB"), sweep("memory", "memory of a stage", "nqf merge", "MB")]


def main() -> None:
    """Measures the size named on the command line."""
    root, count = Path(sys.argv[1]), int(sys.argv[2])
    more = max(count // 10, 1)
    cells = [_cell(seed) for seed in range(count + more)]
    parts = (cells[i : min(i + PER_SHARD, count)] for i in range(0, count, PER_SHARD))
    seconds = {"shards": timed(lambda: write_shards(root, ((part, trajectories(part)) for part in parts)))}
    seconds["merge"] = timed(lambda: merge(root, cells[:count], {}))
    memory, megabytes = peak(), sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) / 1e6
    write_shards(root, [(cells[count:], trajectories(cells[count:]))], first=count)
    seconds["extend"] = timed(lambda: merge(root, cells, {}))
    nodes = list(open_study(root).trajectories.children.values())
    seconds["open"] = _best(lambda: open_study(root).trajectories)
    seconds["reduce"] = _best(lambda: [node["network_loss"].mean().compute() for node in nodes])
    print(json.dumps({**seconds, "memory": memory, "bytes": megabytes}))


def _cell(seed: int) -> Cell:
    return Cell(architecture=MLP(), task=Teacher(), optimizer=Optimizer(), sigma=0.01, seed=seed, steps=10_000, records=RECORDS)


def _best(work: Callable[[], object]) -> float:
    """Of three, after one untimed."""
    work()
    return min(timed(work) for _ in range(3))


if __name__ == "__main__":
    main()
