"""Closed clocks of many cells, against integrating each cell's modes with SciPy."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from threadpoolctl import threadpool_limits

from benchmarks.rows import Row, rate_row
from nqf_pipeline.theory.many import clock_steps_of, shared_unit_seeds

Array = Any
CELLS, PEER_CELLS, BATCH = 200_000, 60, 10_000
MODES, DEGREES = 4, 64
RATE = 4 * np.array([1.0, 0.5, 0.25, 0.125])


def clock_rows(repeats: int) -> list[Row]:
    """Cells a minute on one thread: seeds from drawn weights, effective seeds, clocks of four modes in steps."""
    ours, theirs = [], []
    for _ in range(repeats):
        with threadpool_limits(1):
            ours.append(_per_minute(_ours, CELLS))
            theirs.append(_per_minute(_each, PEER_CELLS))
    note = f"{CELLS} cells of a whitened layer, {MODES} modes, {DEGREES} units, each with its own draw, sigma and learning rate"
    return [rate_row("clocks_per_minute", ours, "scipy solve_ivp (LSODA, 1e-8) a cell", theirs, "cells/min", note=note)]


def _per_minute(method: Any, cells: int) -> float:
    start = time.perf_counter()
    method(cells)
    return 60 * cells / (time.perf_counter() - start)


def _cells(rng: np.random.Generator, count: int) -> tuple[Array, Array, Array]:
    """(mode vectors, rates, learning rates) of some cells."""
    sigma = 10 ** rng.uniform(-4, -2, (count, 1, 1))
    return sigma * rng.standard_normal((count, MODES, DEGREES)), np.tile(RATE, (count, 1)), rng.uniform(0.005, 0.05, count)


def _ours(cells: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(cells // BATCH):
        vectors, rate, learning_rate = _cells(rng, BATCH)
        seeds = shared_unit_seeds(vectors, rate, rate / 2)
        steps = clock_steps_of(rate, np.full_like(rate, 2.0), seeds, learning_rate)
        assert np.isfinite(steps).all()


def _each(cells: int) -> None:
    """The usual way: integrate until the last mode is learnt, and read off when each passed half."""
    vectors, rate, _ = _cells(np.random.default_rng(0), cells)
    for start, own in zip((vectors**2).sum(-1), rate, strict=True):
        grid = np.linspace(0, 60, 600)
        solved = solve_ivp(lambda _, x, r=own: r - 2 * np.exp(x), (0, 60), np.log(start), "LSODA", grid, rtol=1e-8, atol=1e-8)
        (np.exp(solved.y) > own[:, None] / 4).argmax(1)
