"""The machine that was measured, in words."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path


def machine() -> str:
    """Processor, cores and versions, in words."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = ", ".join(f"{name} {version(name)}" for name in ("jax", "numpy", "xarray", "zarr", "snakemake"))
    day = datetime.now(UTC).date().isoformat()
    return f"{_processor()}, {cores} cores; Python {platform.python_version()}, {versions}; {day}."


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if names:
            return names[0]
    return platform.processor() or platform.machine()
