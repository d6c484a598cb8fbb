"""Training on an accelerator against one CPU core, on the bucket that the other rows train; skipped, with the reason, where there is none.

`python -m benchmarks.gpu mlp gpu 256 2000` prints lane-steps per second (architecture, device, lanes, steps), in a process as a job has it.
"""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.engine import ARCHITECTURES, cell_of
from benchmarks.rows import FOLDER, Row, rate_row
from nqf_pipeline.stages.placing import Place, Work, train_cells
from nqf_pipeline.study.config import EngineSettings

STEPS = 2000


def gpu_rows(repeats: int, scale: float) -> list[Row]:
    """Lane-steps per second of each architecture, `gpu_lanes` at once, beside one core with its own lane width."""
    found = _python("-c", "import jax; print(jax.default_backend())")
    if found != "gpu":
        print(f"gpu_vs_cpu: skipped, JAX finds no accelerator here (it found: {found})")
        return []
    engine, steps = EngineSettings(), max(int(STEPS * scale), 300)
    rows = []
    for kind in ARCHITECTURES:
        ours = [_rate(kind, "gpu", engine.gpu_lanes, steps) for _ in range(repeats)]
        theirs = [_rate(kind, "cpu", engine.lane_width, steps) for _ in range(repeats)]
        note = f"{engine.gpu_lanes} lanes at once against {engine.lane_width}; network, twin and records; compilation left out"
        rows.append(rate_row(f"gpu_vs_cpu_{kind}", ours, "one CPU core", theirs, "lane-steps/s", note=note))
    return rows


def _rate(kind: str, device: str, lanes: int, steps: int) -> float:
    return float(_python("-m", "benchmarks.gpu", kind, device, str(lanes), str(steps)))


def _python(*arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    done = subprocess.run([sys.executable, *arguments], env=environment, cwd=FOLDER.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout.strip().splitlines()[-1]


def measure(kind: str, device: str, lanes: int, steps: int) -> float:
    """Lane-steps per second of one lane group, its compilation left out."""
    cells = [cell_of(kind, seed, steps) for seed in range(lanes)]
    work = Work(lanes)
    train_cells(cells, Place(device="gpu" if device == "gpu" else "cpu"), work)
    return lanes * steps / work.seconds["run"]


if __name__ == "__main__":
    print(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
