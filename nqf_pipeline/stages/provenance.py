"""Where numbers come from: versions, commit, device."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("nqf-pipeline", "jax", "jaxlib", "numpy", "optax")
"""Packages whose version can change a result."""
UNKNOWN = "unknown"


def package_version(name: str = "nqf-pipeline") -> str:
    """Installed version of a package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return UNKNOWN


@cache
def git_commit() -> str:
    """Commit of the source tree the package runs from, `-dirty` with local changes; unknown outside a checkout."""
    folder = Path(__file__).parent
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    return described.stdout.strip() or UNKNOWN


def versions() -> dict[str, str]:
    """Versions of everything that can change a result, and the commit."""
    return {**{name: package_version(name) for name in PACKAGES}, "commit": git_commit()}
