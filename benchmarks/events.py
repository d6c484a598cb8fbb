"""Accuracy of the event clocks against integration: `python -m benchmarks.events [--draws N] [--out FILE]`, one JSON document.

Lotka-Volterra with random interactions (six modes, rates uniform in 0.3 to 1, seeds 1e-6 chi^2_4 / 4) against LSODA in ln z; feedforward
layers with correlated inputs against their twins, stepped by gradient descent at a twentieth of the fastest growth time, sigma = 1e-3.
Errors are of the step at which a mode passes half of its height (its target). "Trusted" are those that the clock's own estimate lets pass.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import CNN, MLP
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.tasks import Problem, Task, Teacher
from nqf_pipeline.theory import events, invasion
from nqf_pipeline.theory.ignition import crossing

Array = Any
MODES, EPSILON, SIGMA = 6, 1e-6, 1e-3
FLOW = Optimizer(learning_rate=1e-5)
"""Steps that are flow time, a hundred thousandth of a unit each."""
MOST_STEPS = 60_000


def summary(error: Array, trusted: Array) -> dict[str, float]:
    """Quantiles of all errors and of the trusted ones."""
    kept = error[trusted]
    return {
        "events": len(error),
        "median": float(np.median(error)),
        "p90": float(np.quantile(error, 0.9)),
        "worst": float(error.max()),
        "trusted_share": float(trusted.mean()),
        "trusted_median": float(np.median(kept)) if len(kept) else float("nan"),
        "trusted_worst": float(kept.max()) if len(kept) else float("nan"),
    }


def competition(off_diagonal: float, signed: bool, draws: int) -> dict[str, float]:
    """Errors over random positive definite systems; a mode that never passes counts as an error of 1."""
    systems = []
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        rate, noise = np.sort(rng.uniform(0.3, 1, MODES))[::-1], rng.uniform(-1.0 if signed else 0.0, 1, (MODES, MODES))
        interaction = np.eye(MODES) + off_diagonal * (noise + noise.T) / 2 * (1 - np.eye(MODES))
        if np.linalg.eigvalsh(interaction).min() > 0.05:
            systems.append((rate, interaction, EPSILON * rng.chisquare(4, MODES) / 4))
    rates, interactions, seeds = (np.array(part) for part in zip(*systems, strict=True))
    found = invasion.walk(rates, interactions, np.log(seeds), FLOW)
    errors, trusted = [], []
    for i, system in enumerate(systems):
        modes = np.flatnonzero(np.isfinite(found.step[i]))
        steps = found.step[i, modes] * FLOW.learning_rate
        truth = passing_times(*system, modes, found.height[i, modes] / 2, 1.3 * steps.max())
        errors.append(np.where(np.isfinite(truth), np.abs(steps / truth - 1), 1.0))
        trusted.append(found.trusted[i, modes])
    return summary(np.concatenate(errors), np.concatenate(trusted))


def passing_times(rate: Array, interaction: Array, seed: Array, modes: Array, goals: Array, end: float) -> Array:
    """First times at which these modes pass these values, by integrating ln z; inf where they do not."""
    time = np.linspace(0, end, 10_000)
    solution = solve_ivp(
        lambda _, x: rate - interaction @ np.exp(np.minimum(x, 50)), (0, end), np.log(seed), "LSODA", time, rtol=1e-9, atol=1e-9
    )
    passed = np.exp(solution.y[modes]) >= goals[:, None]
    return np.where(passed.any(1), time[passed.argmax(1)], np.inf)


def layers() -> Iterator[tuple[str, Architecture, Task, float]]:
    """(name, architecture, task, weight decay as a share of half the fastest growth rate)."""
    mlp = MLP(width=32, inputs=12, outputs=6)
    for condition in (1.0, 4.0, 20.0, 100.0):
        yield f"condition_{condition:g}", mlp, Teacher(inputs="correlated", condition=condition, samples=300), 0.0
    yield "condition_4_decay", mlp, Teacher(inputs="correlated", condition=4.0, samples=300), 0.02
    yield "cnn", CNN(width=64), Teacher(samples=600), 0.0


def layer(architecture: Architecture, task: Task, decay: float, draws: int) -> dict[str, float]:
    """Errors of the watched modes' ignition against stepped twins; a mode that only one of the two ignites counts as an error of 1."""
    errors, trusted = [], []
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        problem = task.problem(architecture, rng)
        factors = architecture.factors(SIGMA * problem.initial_scale * architecture.initial(rng))
        rate = 4 * np.linalg.norm(problem.moments.linear, 2)
        optimizer = Optimizer(learning_rate=0.05 / rate, weight_decay=decay * rate / 2)
        clock = events.event_clock(problem.moments, factors, optimizer, len(problem.modes.target))
        steps = clock.ignition(problem.modes)
        end = min(int(1.3 * steps[np.isfinite(steps)].max()), MOST_STEPS)
        truth = stepped_ignition(problem, factors, optimizer, end)
        due = (steps < end) | np.isfinite(truth)
        errors.append(np.where(np.isfinite(truth) & np.isfinite(steps), np.abs(steps / truth - 1), 1.0)[due])
        trusted.append(np.full(due.sum(), clock.error() <= events.TRUSTED))
    return summary(np.concatenate(errors), np.concatenate(trusted))


def stepped_ignition(problem: Problem, factors: tuple[Array, Array], optimizer: Optimizer, steps: int) -> Array:
    """The twin's own steps; only the Gram matrix of the rows matters, so no more degrees are kept than there are rows."""
    rows, split = np.concatenate(factors), len(factors[0])
    if rows.shape[1] > rows.shape[0]:
        rows = np.asarray(np.linalg.qr(rows.T, mode="r")).T
    strength = np.empty((steps + 1, len(problem.modes.target)))
    for step in range(steps + 1):
        order = rows[:split] @ rows[split:].T
        strength[step] = problem.modes.strength(order)
        slope = problem.moments.gradient(order)
        pull = np.concatenate([slope @ rows[split:], slope.T @ rows[:split]]) + optimizer.weight_decay * rows
        rows = rows - optimizer.learning_rate * pull
    return crossing(np.arange(steps + 1), strength)


def main() -> None:
    """Print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--draws", type=int, default=10, help="systems and data sets per row")
    parser.add_argument("--out", type=Path, help="file to write instead of standard output")
    given = parser.parse_args()
    interactions = {
        f"{'signed' if signed else 'positive'}_{off:g}": competition(off, signed, 4 * given.draws)
        for signed in (False, True)
        for off in (0.1, 0.3, 0.6)
    }
    document = {
        "lotka_volterra": interactions,
        "layers": {name: layer(architecture, task, decay, given.draws) for name, architecture, task, decay in layers()},
    }
    text = json.dumps(document, indent=1)
    given.out.write_text(text + "\n") if given.out else print(text)


if __name__ == "__main__":
    main()
