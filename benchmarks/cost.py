"""Rates of the static cost model (nqf_pipeline/study/cost.py), measured on one pinned core: `python -m benchmarks.cost`.

Run it on a quiet machine and copy the rates; jobs are then cut to about the length that `engine.minutes_per_job` asks for.
"""

from __future__ import annotations

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import CNN, MLP, Architecture, Diagonal, FourierMLP, MixtureOfExperts, MultiHead, PhaseRetrieval, QueryKey
from nqf_pipeline.stages.cores import enable_double_precision, prepare_worker
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.cost import DOUBLE, RATES, Sizes, step_seconds
from nqf_pipeline.tasks import FeaturePowerLaw, Fourier, Task, Teacher

LANES, RECORDS = 4, 16
CASES: tuple[tuple[Architecture, Task, str], ...] = (
    (MLP(), Teacher(), "float32"),
    (CNN(), Teacher(), "float32"),
    (QueryKey(), Teacher(), "float32"),
    (MultiHead(), Teacher(), "float32"),
    (MixtureOfExperts(), Teacher(), "float32"),
    (PhaseRetrieval(), Teacher(), "float32"),
    (Diagonal(), FeaturePowerLaw(), "float64"),
    (FourierMLP(), Fourier(), "float32"),
)
SECONDS = 1.0
"""Aimed-at duration of a measurement, by the model's present rates."""


def lane_step(architecture: Architecture, task: Task, precision: str) -> tuple[float, float]:
    """(seconds of a lane-step as measured, as the model has it): the difference of a long and a short run, so that records cancel."""
    from nqf_pipeline.stages.train import Stopwatch, run_cells

    def run(steps: int) -> tuple[float, float]:
        given = {"architecture": architecture, "task": task, "optimizer": Optimizer(learning_rate=1e-3), "precision": precision}
        cells = [Cell(**given, sigma=1e-3, seed=seed, steps=steps, records=RECORDS) for seed in range(LANES)]
        watch = Stopwatch()
        run_cells(cells, LANES, watch)
        samples = cells[0].problem().targets.shape[-1]
        return watch.seconds["run"], step_seconds(cells[0], Sizes(samples, 1))

    _, expected = run(2 * RECORDS)
    few = max(int(SECONDS / LANES / expected / 5), 2 * RECORDS)
    short, long = min(run(few)[0] for _ in range(3)), min(run(5 * few)[0] for _ in range(3))
    return (long - short) / (4 * few * LANES), expected


def main() -> None:
    """Print a line to copy for each architecture."""
    prepare_worker()
    enable_double_precision()
    for architecture, task, precision in CASES:
        measured, expected = lane_step(architecture, task, precision)
        rate = RATES[architecture.name] * expected / measured
        note = f" (through DOUBLE = {DOUBLE:g})" if precision == "float64" else ""
        print(
            f'"{architecture.name}": {rate / 1e9:.0f}e9,  # {measured * 1e6:.2f} us a lane-step, the model said {expected * 1e6:.2f}{note}'
        )


if __name__ == "__main__":
    main()
