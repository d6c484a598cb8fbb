"""What a cell costs, from its shapes and from rates measured once (`rates.json`): enough to cut jobs of even length, not a promise.

A step of a lane group takes a time of its own, however small it is (one call of a kernel after another), and its lanes' arithmetic at the
rate of its family of programs. Lanes of small twins run one after another, and share no call. Arithmetic of one step: twice a multiply-add,
three times for forward and backward pass.
`python -m benchmarks.cost` measures the rates, with `--check CONFIG` how far estimates are off.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from heapq import heapreplace
from math import ceil

import numpy as np

from nqf_pipeline.models import CNN, DeepAttention, MatrixSensing, MixtureOfExperts, MultiHead, PSDSensing, QueryKey, SingleHead
from nqf_pipeline.models.base import Architecture
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.layout import TABLES
from nqf_pipeline.study.rates import family, lanes_in_turns, on_moments, rates
from nqf_pipeline.study.shards import Shard

START = 4.0
"""Seconds until the first step of a job that was not measured: interpreter, imports, data, compilation."""
PREDICTION, BYTES_PREDICTED, PREDICTED_BUCKET = 2e-3, 20e6, 1.0
"""Seconds that a cell's predictions take, bytes of them made and written a second, and seconds of compilation for every shard."""
MOST_THEORY_JOBS, MOST_TIERS = 32, 4
LONGEST_THEORY_JOB, MOST_SHARDS = 1800.0, 500
"""Seconds and shards that a job of predictions is cut to, however many jobs that makes: a scheduler's limits, and a shell's, which takes
no more than 128 KiB of names."""
JOBS, SHORTEST_JOB, LONGEST_JOB = 200, 30.0, 3600.0
"""How many jobs a long study is cut into (and at most one more for each bucket), and the bounds of their duration in seconds."""
TRAINED, PREDICTED, STORED = 1.6, 1.1, 2.1
"""Numbers of 8 bytes that stay after compression, for each record of a loss or a mode: of network and twin, of all tiers; and how often
they are stored (in shards, and merged). Measured in the default and the smoke study, where single buckets lie within a factor of two."""
TABLE_BYTES, SHARD_BYTES, BUCKET_BYTES, STUDY_BYTES = 2_500, 35_000, 80_000, 6_500_000
"""Rows of a cell in the tables for each mode and one more, in both formats; what a shard and a bucket take however few cells they hold;
figures and page."""
FILES_PER_SHARD, FILES_PER_BUCKET, FILES_PER_STUDY = 8, 99, 56 + 2 * len(TABLES)
"""Shard, predictions, summaries, log, benchmark, locks; two for each array of the store (72 to 98 in the studies of `config/`, by what
is trained); tables and their checksums, figures, page. An upper bound."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of a problem that a cell's fields do not tell."""

    samples: int
    modes: int
    pull: float = 0.0
    """Multiply-adds of K G, from which a twin on second moments has its gradient."""
    side: int = 0
    """Largest side of the matrices that its step multiplies (see `dynamics.turns`)."""


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
        case SingleHead(dimension=size, tokens=tokens, outputs=outputs):
            unit = size + (size * size + size * tokens + outputs * tokens) / architecture.width
        case MatrixSensing() | PSDSensing():
            unit = np.prod(architecture.input_shape) / architecture.width
        case DeepAttention(tokens=tokens, dimension=size):
            below, top = architecture.blocks[:-1], architecture.blocks[-1]
            inner = sum(size * size + 2 * size * tokens + block.outputs * size for block in below)
            unit = tokens * inner + multiply_adds(top) / architecture.width
        case _:
            unit = architecture.unit_size
    return float(unit * architecture.width)


def arithmetic(cell: Cell, sizes: Sizes) -> float:
    """Of one lane in one step, in units of float32."""
    architecture, batch = cell.architecture, cell.optimizer.batch_size
    work = twin_multiply_adds(cell) + sizes.pull if on_moments(cell) else multiply_adds(architecture) * (batch or sizes.samples)
    return 6.0 * work * (rates().double if cell.precision == "float64" else 1.0)


def twin_multiply_adds(cell: Cell) -> float:
    """Multiply-adds of G from the twin's factors."""
    architecture = cell.architecture
    factors = architecture.factors(np.zeros((architecture.unit_size, architecture.width)))
    entries = len(factors[0]) if architecture.pairing == "rowwise" else len(factors[0]) * len(factors[-1])
    return float(entries * cell.twin_width)


def prediction_seconds(cell: Cell, sizes: Sizes) -> float:
    """Seconds that all tiers of a cell take."""
    return PREDICTION + 8.0 * cell.records * (MOST_TIERS * (1 + sizes.modes) + 2) / BYTES_PREDICTED


def cell_bytes(cell: Cell, sizes: Sizes) -> float:
    """Bytes of one cell on disk: in its shard, its predictions, the merged store and the tables."""
    numbers = PREDICTED + (TRAINED if cell.trained else 0.0)
    return (1 + sizes.modes) * (STORED * numbers * 8.0 * cell.records + TABLE_BYTES)


@dataclass(frozen=True)
class Cost:
    """What the cells of one bucket cost, in seconds: estimated here, or measured by the pilot (`nqf_pipeline.stages.pilot`)."""

    step: float
    """What one lane adds to one step."""
    record: float
    """What one lane adds to one record."""
    start: float = START
    """A job until its first step."""
    cell: float = 0.0
    """What one cell adds whatever its steps are."""
    dispatch: float = 0.0
    """What a step costs a lane group, however many lanes it has."""
    prediction: float = PREDICTION
    """What the predictions of one cell take."""

    @classmethod
    def estimated(cls, cell: Cell, sizes: Sizes) -> Cost:
        """By the static model, from any cell of the bucket."""
        predicted = prediction_seconds(cell, sizes)
        if not cell.trained:
            return cls(0.0, 0.0, cell=predicted, prediction=predicted)
        known, measured = family(cell, sizes.side), rates()
        step = arithmetic(cell, sizes) / known.rate + (measured.batch if cell.optimizer.batch_size else 0.0)
        shared = known.dispatch
        if lanes_in_turns(cell, sizes.side):
            step, shared = step + shared, 0.0
        record = measured.record + measured.record_steps * step
        return cls(step, record, measured.imports + known.start, known.cell, shared, predicted)

    def lane_step(self, lanes: int) -> float:
        """Seconds of a step of one lane among as many, its share of the call included."""
        return self.step + self.dispatch / lanes

    def of_cell(self, cell: Cell, lanes: int) -> float:
        """Seconds of one lane among `lanes` from first to last step; of its prediction where nothing is trained."""
        return self.cell + self.lane_step(lanes) * cell.steps + self.record * cell.records

    def of_shard(self, shard: Shard) -> float:
        """Seconds of one training job, padded lanes like the others, or of the predictions where there is none."""
        if not shard.trained:
            return self.of_predictions(shard)
        together = Counter(cell.lane_key for cell in shard.cells)
        seconds = {cell.lane_key: self.of_cell(cell, shard.lane_width) for cell in shard.cells}
        return self.start + sum(ceil(number / shard.lane_width) * shard.lane_width * seconds[key] for key, number in together.items())

    def of_predictions(self, shard: Shard) -> float:
        """Seconds that a job of predictions spends on this shard."""
        return PREDICTED_BUCKET + self.prediction * len(shard.cells)


def wall_seconds(durations: list[float], workers: int) -> float:
    """Time to the end of all jobs, longest first."""
    ends = [0.0] * workers
    for duration in sorted(durations, reverse=True):
        heapreplace(ends, ends[0] + duration)
    return max(ends)


def seconds_per_job(work: float, workers: int) -> float:
    """Target duration of a job where the study names none: a few hundred jobs for long studies, jobs long enough to be worth their start
    for short ones, and every worker busy where the work is less than one such job each.

    `work` is the duration of all jobs together, without their starts, in seconds.
    """
    worthwhile = min(max(work / JOBS, SHORTEST_JOB), LONGEST_JOB)
    return min(worthwhile, max(work / workers, START))
