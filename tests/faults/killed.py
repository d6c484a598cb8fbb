"""`python -m tests.faults.killed FOLDER OPERATION`: the operation killed before each of its steps in turn, each time on a state of its own.

A process of its own, so that its children may be forked before any thread is started. Prints how many were killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

from tests.faults.operations import OPERATIONS
from tests.faults.steps import at_step


def kill(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_at(folder: Path, operation: str, number: int) -> bool:
    """Whether the operation had a step of that number: it was killed before it."""
    results = folder / str(number) / "small"
    shutil.copytree(folder / "base" / "small", results, symlinks=True)
    child = os.fork()
    if child == 0:
        try:
            with at_step(results, number, kill):
                OPERATIONS[operation](results)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    place, name = Path(sys.argv[1]), sys.argv[2]
    count = 0
    while killed_at(place, name, count + 1):
        count += 1
    print(count)
