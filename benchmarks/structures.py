"""Memory and time of the structure map A(M) and its adjoint against the dense matrices A(x): the attention of Figure 2.

Eight outputs, 880 parameters a head, 600 samples: dense matrices would be 30 GB. They are measured at a few samples, where they fit, and
extrapolated: a dense A(x) is one matrix per output and sample, so memory and time are linear in the samples. Each side runs in a process
of its own; memory is what its peak adds to the process before, compilation included, and for the dense form, in its favour, the matrices
alone.

`python -m benchmarks.structures map|closed|dense` measures one side and prints JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.memory import peak
from benchmarks.rows import Row, cost_row
from nqf_pipeline.forms.module_map import ModuleStructure
from nqf_pipeline.forms.structure import Structure
from nqf_pipeline.models import MultiHead

SAMPLES, DENSE_SAMPLES = 600, 3
"""Of the map, and of the dense matrices (8 x 3 matrices of 880 x 880: 142 MB)."""
MEGABYTE = 2**20


def structure_rows(repeats: int) -> list[Row]:
    """Rows `structure_memory` and `structure_time`."""
    sides = {side: [_measure(side) for _ in range(min(repeats, 2))] for side in ("map", "closed", "dense")}
    scale = SAMPLES / DENSE_SAMPLES
    memory, seconds = ({side: [run[key] for run in runs] for side, runs in sides.items()} for key in ("megabytes", "seconds"))
    peer = f"dense A(x) from {DENSE_SAMPLES} samples, times {scale:g} (linear in samples)"
    note = f"multi-head attention, p = 880, {SAMPLES} samples, 8 outputs; closed form {{:.3g}} {{}}"
    rows = []
    for name, values, unit in (("structure_memory", memory, "MB"), ("structure_time", seconds, "s")):
        dense = [scale * value for value in values["dense"]]
        rows.append(cost_row(name, values["map"], peer, dense, unit, note=note.format(min(values["closed"]), unit)))
    return rows


def _measure(side: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.structures", side]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]))


def main() -> None:
    """Measures the side named on the command line."""
    import jax

    jax.config.update("jax_enable_x64", True)
    side = sys.argv[1]
    layer, rng = MultiHead(), np.random.default_rng(0)
    inputs = layer.draw_inputs(rng, DENSE_SAMPLES if side == "dense" else SAMPLES)
    shape = (layer.unit_size, layer.width)
    weights = layer.initial(rng)
    residual = rng.standard_normal((layer.outputs, inputs.shape[-1]))
    jax.block_until_ready(jax.jit(jax.numpy.sin)(1.0))

    def module(at: Any, x: Any) -> Any:
        return layer.apply(at, x[..., None])[:, 0]

    work: dict[str, Callable[[], Any]] = {
        "map": lambda: _both(ModuleStructure.of(module, inputs, shape), weights @ weights.T, residual),
        "closed": lambda: _both(layer.structure(inputs), layer.order(weights), residual),
        "dense": lambda: _dense(ModuleStructure.of(module, inputs, shape).matrices(), weights @ weights.T, residual),
    }
    before = peak()
    held = work[side]()
    added = peak() - before if held is None else held
    start = time.perf_counter()
    work[side]()  # compiled by now
    print(json.dumps({"megabytes": added, "seconds": time.perf_counter() - start}))


def _both(structure: Structure, order: Any, residual: Any) -> None:
    structure.apply(order)
    structure.adjoint(residual)


def _dense(matrices: Any, order: Any, residual: Any) -> float:
    np.tensordot(order, matrices, 2)
    np.tensordot(matrices, residual, 2)
    return float(matrices.nbytes) / MEGABYTE


if __name__ == "__main__":
    main()
