"""What compressed twins save: steps per second of the training engine with twins at their networks' width and at that of Theorem 3.

Seconds of one core (process time), so that neighbours on the machine weigh less; both widths in turn, in one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

from benchmarks.rows import Row, rate_row
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP, PhaseRetrieval
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.tasks import Teacher

LANES = 4
CASES: tuple[tuple[str, Architecture, int, str], ...] = (
    ("compressed_alone", PhaseRetrieval(inputs=20, width=1024), 1000, "quadratic network 20-1024, its own twin: the only run"),
    ("compressed_beside", MLP(width=256), 300, "MLP 20-256-8, 600 samples: the network beside it takes the time"),
)
Twin = Literal["full", "compressed"]


def compression_rows(repeats: int, scale: float) -> list[Row]:
    """Rows `compressed_alone` and `compressed_beside`."""
    return [_row(name, architecture, max(round(scale * steps), 10), note, repeats) for name, architecture, steps, note in CASES]


def _row(name: str, architecture: Architecture, steps: int, note: str, repeats: int) -> Row:
    runs = {twin: _runner(architecture, steps, twin) for twin in ("compressed", "full")}
    rates: dict[str, list[float]] = {twin: [] for twin in runs}
    for _ in range(repeats):
        for twin, run in runs.items():
            rates[twin].append(run())
    wide, narrow = architecture.degrees, architecture.compressed_width
    return rate_row(name, rates["compressed"], f"twin of {wide} columns, not {narrow}", rates["full"], "steps/s", note=note)


def _runner(architecture: Architecture, steps: int, twin: Twin) -> Callable[[], float]:
    from nqf_pipeline.dynamics.train import train
    from nqf_pipeline.stages.train import assemble, program_of

    shared: dict[str, Any] = {"task": Teacher(strengths=(1.0, 0.5)), "optimizer": Optimizer(learning_rate=0.001), "sigma": 0.01}
    cells = [Cell(architecture=architecture, seed=seed, steps=steps, records=2, twin=twin, **shared) for seed in range(LANES)]
    group, _ = assemble(cells, LANES)
    program = program_of(cells[0])
    executable = program.compile(group)
    train(program, executable, group)

    def run() -> float:
        start = time.process_time()
        train(program, executable, group)
        return LANES * steps / (time.process_time() - start)

    return run
