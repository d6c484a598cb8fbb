"""Peak memory of this process, MB."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def forget_peak() -> None:
    """Start anew from the memory held now, where the system can (Linux)."""
    with suppress(OSError):
        _CLEAR.write_text("5")


def peak() -> float:
    """Largest resident memory. (What `getrusage` says on Linux is inherited from the process that started this one.)"""
    with suppress(OSError):
        fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
