"""What a cell's random streams yield: its problem and its initial weights (NumPy, float64)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float

from nqf_pipeline.study.cells import Cell, contents_of
from nqf_pipeline.study.errors import ConfigError
from nqf_pipeline.tasks.base import Problem


@lru_cache(maxsize=8)
def _problem(data_id: str, draw: _Draw) -> Problem:
    return draw.cell.problem()


class _Draw:
    """Carries a cell past the cache, whose key is the data id alone (and the architecture, whose size the problem may hold)."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def __hash__(self) -> int:
        return hash(self.cell.architecture)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Draw) and self.cell.architecture == other.cell.architecture


def problem_of(cell: Cell) -> Problem:
    """The cell's problem; cells with equal data and architecture share one draw."""
    if cell.fingerprint and contents_of(cell.architecture, cell.task) != cell.fingerprint:
        parts = (("data file", cell.task), ("module's file", cell.architecture))
        files = " or its ".join(f"{what} {getattr(part, 'path', '')}" for what, part in parts if part.fingerprint)
        raise ConfigError(
            f"cell {cell.id}: its {files} has changed since the study was planned, so its results would "
            "be stored under a wrong name; start the workflow again, which plans new cells for the new data, or restore the file"
        )
    return _problem(cell.data_id, _Draw(cell))


def initial_weights(cell: Cell) -> Float[np.ndarray, "unit_size width"]:
    """W(0) = sigma * row profile * standard normal draw."""
    return cell.sigma * problem_of(cell).initial_scale * cell.architecture.initial(cell.stream("init"))


def batch_seed(cell: Cell) -> int:
    """Seed of the minibatches that network, twin and closure share."""
    return int(cell.stream("batches").integers(2**63))
