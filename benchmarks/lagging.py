"""What it saves to compute a network's gradient only where its quadratic form does not tell it, and how far training then goes astray.

Steps per second of one core (process time), both ways in turns in one process; twin and 48 records included.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rows import Row, rate_row
from nqf_pipeline.dynamics.lanes import Record
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import CNN, MLP, MultiHead, QueryKey
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.tasks import Teacher

LANES, ALLOWED = 4, 1e-3
Run = tuple[Callable[[], float], Record]
CASES: tuple[tuple[str, Architecture, float, float, int], ...] = (
    ("lagging_mlp_1e-2", MLP(), 0.02, 1e-2, 1000),
    ("lagging_mlp_1e-3", MLP(), 0.02, 1e-3, 1300),
    ("lagging_mlp_1e-4", MLP(), 0.02, 1e-4, 2000),
    ("lagging_cnn", CNN(), 0.003, 1e-2, 600),
    ("lagging_query_key", QueryKey(), 0.1, 1e-2, 600),
    ("lagging_multi_head", MultiHead(), 0.2, 1e-2, 600),
)
"""Name, architecture, learning rate, sigma, steps: learning rates and horizons of the default study (mlp), or about half of these."""


def lagging_rows(repeats: int, scale: float) -> list[Row]:
    """One row a case."""
    return [
        _row(name, architecture, rate, sigma, max(round(scale * steps), 60), repeats) for name, architecture, rate, sigma, steps in CASES
    ]


def _row(name: str, architecture: Architecture, rate: float, sigma: float, steps: int, repeats: int) -> Row:
    (lagging, astray), (every, exact) = (_runner(architecture, rate, sigma, steps, allowed) for allowed in (ALLOWED, 0.0))
    rates: tuple[list[float], list[float]] = [], []
    for _ in range(repeats):
        rates[0].append(lagging())
        rates[1].append(every())
    loss, mode = (np.abs(np.asarray(getattr(astray, of)) - getattr(exact, of)) for of in ("network_loss", "network_mode"))
    share = np.asarray(astray.network_gradients)[:, -1].mean() / steps
    note = (
        f"{architecture.name}, sigma {sigma:g}, {steps} steps, gradient_error {ALLOWED:g}: {share:.0%} of the gradients; off by at most "
        f"{(loss / np.asarray(exact.network_loss)[:, :1]).max():.1e} of the first loss, {mode.max():.1e} in mode strengths"
    )
    return rate_row(name, rates[0], "the network's gradient at every step", rates[1], "steps/s", note=note)


def _runner(architecture: Architecture, rate: float, sigma: float, steps: int, allowed: float) -> Run:
    from nqf_pipeline.dynamics.train import train
    from nqf_pipeline.stages.train import assemble, program_of

    task = Teacher(inputs="white" if architecture.whitenable else "gaussian")
    optimizer = Optimizer(learning_rate=rate, gradient_error=allowed)
    shared: dict[str, Any] = {
        "architecture": architecture,
        "task": task,
        "optimizer": optimizer,
        "sigma": sigma,
        "steps": steps,
        "records": 48,
    }
    cells = [Cell(seed=seed, **shared) for seed in range(LANES)]
    group, _ = assemble(cells, LANES)
    program = program_of(cells[0])
    executable = program.compile(group)
    record = train(program, executable, group)

    def run() -> float:
        start = time.process_time()
        train(program, executable, group)
        return LANES * steps / (time.process_time() - start)

    return run, record
