"""What a cell costs, from its shapes and from rates measured once: enough to cut jobs of even length, not a promise.

Arithmetic of one step: twice a multiply-add, three times for forward and backward pass. The rates are what one core of the reference
machine sustains on each architecture with four lanes, nonlinearity, twin and update included.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapreplace

from nqf_pipeline.models import CNN, MLP, Diagonal, FourierMLP, MixtureOfExperts, MultiHead, PhaseRetrieval, QueryKey
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.shards import Shard

RATES = {
    "mlp": 57e9,
    "cnn": 65e9,
    "query_key": 30e9,
    "multi_head": 16e9,
    "mixture_of_experts": 40e9,
    "phase_retrieval": 40e9,
    "diagonal": 6e9,
    "fourier_mlp": 6e9,
}
"""Arithmetic per second of one core in float32."""
OTHER_RATE = 20e9
DOUBLE = 2.5
"""Float64 against float32."""
STEP_OVERHEAD = 1e-6
"""Seconds a lane-step costs however small it is."""
RECORD_STEPS = 1.5
"""A record (train and test losses, modes, divergence) in units of a step."""
START = 6.0
"""Seconds until the first step of a job: interpreter, imports, data, compilation."""
TIERS = 4
"""Tiers of theory stored beside a trajectory (an upper bound for the size)."""
FILES_PER_SHARD, FILES_PER_BUCKET, FILES_PER_STUDY = 4, 30, 40


@dataclass(frozen=True)
class Sizes:
    """Sizes of a problem that a cell's fields do not tell."""

    samples: int
    modes: int


def multiply_adds(architecture: Architecture) -> float:
    """Multiply-adds of the forward pass for one sample."""
    unit: float
    match architecture:
        case CNN(image=image, kernel=kernel):
            positions = (image[0] - kernel[0] + 1) * (image[1] - kernel[1] + 1)
            unit = positions * kernel[0] * kernel[1] + architecture.outputs
        case QueryKey(dimension=size, tokens=tokens, outputs=outputs):
            unit = size * size + size * tokens + outputs * tokens / architecture.width
        case MultiHead(dimension=size, tokens=tokens, outputs=outputs):
            unit = size * size + 2 * size * tokens + outputs * size
        case MixtureOfExperts(inputs=inputs, outputs=outputs):
            unit = inputs + outputs * inputs
        case MLP() | PhaseRetrieval() | Diagonal() | FourierMLP():
            unit = architecture.unit_size
        case _:
            unit = architecture.unit_size
    return float(unit * architecture.width)


def step_seconds(cell: Cell, sizes: Sizes) -> float:
    """Seconds that one lane adds to one step."""
    exact = cell.architecture.exactly_quadratic and cell.optimizer.batch_size is None
    samples = 1 if exact else cell.optimizer.batch_size or sizes.samples
    rate = RATES.get(cell.architecture.name, OTHER_RATE)
    double = DOUBLE if cell.precision == "float64" else 1.0
    return STEP_OVERHEAD + double * 6.0 * multiply_adds(cell.architecture) * samples / rate


def cell_seconds(cell: Cell, sizes: Sizes) -> float:
    """Seconds of one lane from first to last step."""
    return (cell.steps + RECORD_STEPS * cell.records) * step_seconds(cell, sizes)


def cell_bytes(cell: Cell, sizes: Sizes) -> float:
    """Bytes of one cell in its shard, its predictions and the merged store, before compression."""
    trained = 7 + 3 * sizes.modes
    predicted = TIERS * (1 + sizes.modes) + 2
    return 8.0 * cell.records * 2 * (trained + predicted)


def shard_seconds(shard: Shard, sizes: dict[str, Sizes]) -> float:
    """Seconds of one job; padded lanes cost like the others."""
    return START + sum(shard.lane_width * cell_seconds(lanes[0], sizes[lanes[0].id]) for lanes in shard.lanes)


def wall_seconds(durations: list[float], workers: int) -> float:
    """Time to the end of all jobs, longest first."""
    ends = [0.0] * workers
    for duration in sorted(durations, reverse=True):
        heapreplace(ends, min(ends) + duration)
    return max(ends)
