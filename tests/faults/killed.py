"""`python -m tests.faults.killed FOLDER OPERATION`: the operation killed before its steps in turn, each time on a state of its own.

A process of its own, because the one of the tests has JAX's threads, which no child inherits. It does the operation once without a kill
(which loads everything that the operation needs, so that each child costs milliseconds), then forks a child for every kill. Prints the
folders of the states that are left, with the steps before which the operation was killed there.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tests.faults.operations import OPERATIONS
from tests.faults.steps import NEVER, at_step

LONG, EVERY = 100, 4
"""Of an operation with more steps than that, most are alike (the files of a store): only every fourth is tried."""
TWICE = 12
"""Pairs of kills, the second of what was to heal the first."""


def kill(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def steps_of(folder: Path, operation: str) -> int:
    results = shutil.copytree(folder / "base" / "small", folder / "whole" / "small")
    with at_step(results, NEVER, kill) as steps:
        OPERATIONS[operation](results)
    return steps.count


def killed_at(folder: Path, operation: str, numbers: Sequence[int]) -> tuple[str, list[int]]:
    """The state after a kill before each of these steps in turn, and the kills: what goes on after a kill may have fewer steps."""
    name = "-".join(map(str, numbers))
    results, killed = shutil.copytree(folder / "base" / "small", folder / name / "small"), []
    for number in numbers:
        child = os.fork()
        if child == 0:
            _to_its_end(results, operation, number)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code not in (0, -signal.SIGKILL):
            raise SystemExit(f"`{operation}`, to be killed before step {number} of {name}, failed by itself (exit code {code})")
        if code:
            killed.append(number)
    return name, killed


def _to_its_end(results: Path, operation: str, number: int) -> NoReturn:
    """The child: killed before its step, or done (exit code 0), or failed (1, and the traceback)."""
    code = 1
    try:
        with at_step(results, number, kill):
            OPERATIONS[operation](results)
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


def main(folder: Path, operation: str) -> None:
    count, draw = steps_of(folder, operation), random.Random(operation)
    pairs = [(draw.randint(1, count), draw.randint(1, count)) for _ in range(TWICE)]
    single = [(number,) for number in range(1, count + 1, EVERY if count > LONG else 1)]
    print(json.dumps(dict(killed_at(folder, operation, numbers) for numbers in [*single, *sorted({*pairs})])))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
