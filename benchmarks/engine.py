"""One pinned worker of the training engine, used as a study's job uses it: a core of its own, a few lanes, network and twin together.

Talks to benchmarks/workers.py: one JSON request and one JSON reply a line.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ladder import climb
from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import CNN, MLP, MultiHead
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.stages.cores import prepare_worker
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.config import EngineSettings
from nqf_pipeline.study.draws import initial_weights, problem_of
from nqf_pipeline.tasks import Teacher

SIGMA, LEARNING_RATE, RECORDS = 0.01, 0.02, 256
ARCHITECTURES: dict[str, Architecture] = {"mlp": MLP(), "cnn": CNN(), "multi_head": MultiHead()}
"""The sizes of the paper's Figure 2: MLP 20-64-8; 64 kernels 4x5 on 5x7 images; 4 heads, D = 20, dk = 8, dv = 20, 16 tokens."""


def cell_of(kind: str, seed: int, steps: int) -> Cell:
    """A cell of the teacher task (600 samples) under full-batch gradient descent in float32."""
    optimizer = Optimizer(kind="gd", learning_rate=LEARNING_RATE)
    return Cell(architecture=ARCHITECTURES[kind], task=Teacher(), optimizer=optimizer, sigma=SIGMA, seed=seed, steps=steps, records=RECORDS)


class Trainer:
    """A compiled program with the lanes it trains, made as the training stage makes them."""

    def __init__(self, kind: str, seeds: list[int], steps: int, *, twin_only: bool) -> None:
        from nqf_pipeline.dynamics.train import Program, train
        from nqf_pipeline.stages.train import assemble, program_of

        class TwinOnly(Program):
            """Takes the engine's short way for exactly quadratic modules, so that only the twin is trained."""

            network_is_twin = True

        start = time.perf_counter()
        cells = [cell_of(kind, seed, steps) for seed in seeds]
        self.program = program_of(cells[0])
        if twin_only:
            self.program = TwinOnly(**{field.name: getattr(self.program, field.name) for field in fields(self.program)})
        self.group, _ = assemble(cells, len(cells))
        assembled = time.perf_counter()
        self.executable = self.program.compile(self.group)
        self.costs = {"data_seconds": assembled - start, "compile_seconds": time.perf_counter() - assembled}
        self.train = train
        self.run()

    def run(self) -> dict[str, Any]:
        start = time.perf_counter()
        record = self.train(self.program, self.executable, self.group)
        seconds = time.perf_counter() - start
        lanes, steps = len(self.group.weights), int(self.group.step_number[-1])
        assert record.network_loss is not None
        curve = {"recorded": self.group.step_number.tolist(), "losses": record.network_loss[0].tolist()}
        return {"seconds": seconds, "steps": lanes * steps, **curve}


def export(kind: str, steps: int, path: Path, seeds: list[int]) -> None:
    """Inputs, targets and initial weights in PyTorch's layout (rows are samples), with a leading axis of seeds."""
    lanes = [_exported(cell_of(kind, seed, steps)) for seed in seeds]
    stacked: dict[str, Any] = {name: np.ascontiguousarray([lane[name] for lane in lanes], dtype=np.float32) for name in lanes[0]}
    np.savez(path, **stacked)


def _exported(cell: Cell) -> dict[str, Any]:
    problem, weights = problem_of(cell), initial_weights(cell)
    factors = cell.architecture.factors(weights)
    first, second = factors[0], factors[-1]
    arrays: dict[str, Any] = {"inputs": np.moveaxis(problem.inputs, -1, 0), "targets": problem.targets.T}
    match cell.architecture:
        case MLP():
            arrays |= {"hidden": first, "readout": second.T}
        case CNN(kernel=kernel, width=width):
            arrays["inputs"] = arrays["inputs"][:, None]
            arrays |= {"kernels": first.T.reshape(width, 1, *kernel), "readout": second.T}
        case MultiHead(dimension=size, key_size=key_size, value_size=value_size, width=heads):
            arrays["inputs"] = arrays["inputs"].transpose(0, 2, 1)
            keys, queries = weights[-2 * size * key_size :].reshape(2, size, key_size, heads).transpose(0, 3, 1, 2)
            values, readout = first.reshape(size, value_size, heads), second.reshape(-1, value_size, heads)
            arrays |= {"queries": queries, "keys": keys, "values": values.transpose(2, 0, 1), "readout": readout.transpose(2, 1, 0)}
    return arrays


def matmul_rate(size: int, seconds: float) -> dict[str, float]:
    """FLOP/s of large float32 matrix products on this core: the better of XLA and NumPy."""
    import jax
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    on_device = jax.device_put(left), jax.device_put(right)
    product = jax.jit(jax.numpy.matmul)
    with threadpool_limits(1):
        rates = {"xla": _rate(lambda: product(*on_device).block_until_ready(), seconds), "numpy": _rate(lambda: left @ right, seconds)}
    return {name: 2 * size**3 * rate for name, rate in rates.items()}


def _rate(call: Any, seconds: float) -> float:
    """The fastest of the calls made within the given time, as calls per second (after one warm-up)."""
    call()
    best, deadline = np.inf, time.perf_counter() + seconds
    while (start := time.perf_counter()) < deadline:
        call()
        best = min(best, time.perf_counter() - start)
    return float(1.0 / best)


def main() -> None:
    """Answers requests until the standard input closes."""
    core = prepare_worker()
    trainers: dict[str, Trainer] = {}
    for line in sys.stdin:
        request = json.loads(line)
        action = request.pop("action")
        if action == "prepare":
            name = request.pop("name")
            trainers[name] = Trainer(**request)
            reply: dict[str, Any] = trainers[name].costs
        elif action == "train":
            reply = trainers[request["name"]].run()
        elif action == "export":
            export(request["kind"], request["steps"], Path(request["path"]), request["seeds"])
            reply = {}
        elif action == "ladder":
            reply = climb([cell_of(request["kind"], seed, RECORDS) for seed in request["seeds"]], request["seconds"])
        else:
            reply = matmul_rate(request["size"], request["seconds"]) if action == "matmul" else {}
        print(json.dumps(reply | {"core": core, "lane_width": EngineSettings().lane_width}), flush=True)


if __name__ == "__main__":
    main()
