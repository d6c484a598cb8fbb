"""How far ignition times stray when the condition of a regime holds nearly: the calibration of `theory.candidates.GROWTH`.

`python -m benchmarks.defects [--seeds 6]` disturbs each sensing ensemble by growing amounts, predicts every mode by the regime of the
undisturbed ensemble whatever its defect is, and compares with the quadratic form integrated in weight space at the same steps. Printed
as JSON, for each regime: the largest defect at which 9 of 10 times are within 5 %, and quantiles below it of error over defect and over
the spread of the targets.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import MLP, Architecture, MatrixSensing, PSDSensing
from nqf_pipeline.tasks import SensingEnsemble, Task, Teacher
from nqf_pipeline.theory.candidates import Name, candidates
from nqf_pipeline.theory.ignition import crossing
from nqf_pipeline.theory.predict import CellInputs, system
from nqf_pipeline.theory.regime import Regime
from nqf_pipeline.theory.stepping import coupled_modes, discrete_modes
from nqf_pipeline.theory.systems import CoupledSystem

Array = Any
SIGMA, STEPS = 1e-3, 4000
WITHIN = 0.05
DISTURBANCES = (0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.2)
ONE, PAIR, ALIGNED = (
    PSDSensing(width=8, rows=6),
    MatrixSensing(width=8, rows=6, columns=6),
    PSDSensing(width=8, rows=6, start="orthonormal"),
)
SPLIT = {"orthogonal_samples": (1.0, 0.5), "proportional": (1.0,)}
ENSEMBLES: list[tuple[Name, str, tuple[Architecture, ...]]] = [
    ("proportional_samples", "proportional", (ONE, PAIR)),
    ("orthogonal_samples", "orthogonal_samples", (ONE, PAIR)),
    ("orthogonal_features", "orthogonal_features", (ONE, PAIR)),
    ("lotka_volterra", "commuting", (ONE, PAIR)),
    ("isotropic", "isotropic", (ONE,)),
    ("general", "projected", (ALIGNED,)),
]


def cases(kind: str, architectures: tuple[Architecture, ...]) -> list[tuple[Architecture, Task]]:
    """Disturbed ensembles."""
    strengths = SPLIT.get(kind, (1.0, 0.5, 0.25, 0.125))
    tasks = [SensingEnsemble(matrices=kind, strengths=strengths, disturbance=size) for size in DISTURBANCES]
    return [(architecture, task) for architecture in architectures for task in tasks]


def measured(name: Name, architecture: Architecture, task: Task, seed: int) -> list[tuple[float, float, float]]:
    """(defect, relative error of an ignition time, spread of the targets) of every mode that ignites in time."""
    rng = np.random.default_rng([seed, 11])
    problem = task.problem(architecture, rng)
    weights = SIGMA * architecture.initial(rng)
    fastest = 8 * float(np.linalg.norm(problem.moments.linear, 2))
    cell = CellInputs(architecture, problem, Optimizer(learning_rate=0.1 / fastest), weights, np.arange(STEPS + 1), SIGMA)
    found = [c for c in candidates(architecture, problem, weights) if c.name == name]
    if not found:
        return []
    modes = system(cell, Regime(name, "conditional", "", {}))
    if isinstance(modes, CoupledSystem):
        (z,) = coupled_modes([modes], [cell.optimizer], [cell.step_number])
    else:
        (z,) = discrete_modes([modes], [cell.optimizer], [cell.step_number])
    predicted, truth = crossing(cell.step_number, modes.strength(z)), crossing(cell.step_number, trained(cell))
    with np.errstate(invalid="ignore"):
        error = np.where(np.isnan(predicted), 1.0, np.abs(predicted / truth - 1))
    return [(found[0].defect, float(e), found[0].spread) for e in error[np.isfinite(truth)]]


def trained(cell: CellInputs) -> Array:
    """Strengths at every step of gradient descent in W."""
    architecture, problem = cell.architecture, cell.problem
    factors, strengths = architecture.factors(cell.weights), []
    for _ in range(STEPS + 1):
        order = factors[0] @ factors[-1].T
        strengths.append(problem.modes.strength(order))
        slope = problem.moments.gradient(order)
        if len(factors) == 1:
            factors = (factors[0] - cell.optimizer.learning_rate * (slope + slope.T) @ factors[0],)
        else:
            moves = slope @ factors[1], slope.T @ factors[0]
            factors = tuple(f - cell.optimizer.learning_rate * move for f, move in zip(factors, moves, strict=True))
    return np.array(strengths)


def summary(name: str, pairs: list[tuple[float, float, float]]) -> dict[str, Any]:
    """Tolerance and growth of one regime."""
    defect, error, spread = np.array(sorted(pairs)).T
    late = np.array([np.quantile(error[(defect > d / 2) & (defect <= d * 1.01)], 0.9) for d in defect])
    good = defect[late <= WITHIN]
    tolerance = float(good.max()) if len(good) else 0.0
    ratio = (error / defect / spread)[(defect <= tolerance) & (defect > 1e-6)]
    median, most = np.quantile(ratio, [0.5, 0.9]).round(3).tolist() if len(ratio) else (None, None)
    return {
        "regime": name,
        "times": len(defect),
        "tolerance": round(tolerance, 4),
        "median_growth": median,
        "growth_90": most,
    }


def table(seeds: int) -> list[dict[str, Any]]:
    """One row a regime."""
    rows = []
    for name, kind, architectures in ENSEMBLES:
        pairs = [p for case in cases(kind, architectures) for seed in range(seeds) for p in measured(name, *case, seed)]
        rows.append(summary(name, pairs))
    layer = MLP(inputs=8, outputs=4, width=32, activation="linear")
    tasks = [Teacher(samples=n, strengths=(1.0, 0.5, 0.25)) for n in (50, 100, 200, 500, 2000)]
    pairs = [p for task in tasks for seed in range(seeds) for p in measured("whitened_feedforward", layer, task, seed)]
    rows.append(summary("whitened_feedforward", pairs))
    return rows


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6, help="draws of each disturbed ensemble")
    for row in table(parser.parse_args().seeds):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
