"""Which device trains a cell, and how many cells it advances at once. Decided from the config alone: a login node has no accelerator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.config import EngineSettings

Device = Literal["cpu", "gpu"]


def device_of(cell: Cell, engine: EngineSettings) -> Device:
    """Accelerators take float32 only: most do float64 at a small fraction of its speed."""
    return "gpu" if engine.device == "gpu" and cell.precision == "float32" and cell.trained else "cpu"


def lane_widths(cells: Iterable[Cell], engine: EngineSettings) -> dict[str, int]:
    """Cells that advance together, by bucket: on an accelerator all that can, up to `gpu_lanes` (fewer where its memory turns out full)."""
    cells = list(cells)
    together = Counter((cell.bucket, cell.lane_key) for cell in cells)
    most: dict[str, int] = {}
    for (bucket, _), number in together.items():
        most[bucket] = max(most.get(bucket, 0), number)
    devices = {cell.bucket: device_of(cell, engine) for cell in cells}
    return {bucket: min(engine.gpu_lanes, most[bucket]) if device == "gpu" else engine.lane_width for bucket, device in devices.items()}
