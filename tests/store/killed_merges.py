"""A program that kills merges: `python -m tests.store.killed_merges FOLDER EVERY`.

For each step k a copy of FOLDER/results is merged by a child process that the kernel kills (SIGKILL) at its k-th change of the file
system: a file made, linked, renamed or removed. Killed are all steps of the swap and every n-th (EVERY) of the others; which, and what
an undisturbed merge changes, is printed as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from nqf_pipeline.store.merge import merge
from tests.store.studies import ROOT, extended

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link"}
SWAP = 10
"""Changes from the removal of the old listing to the first removal after the new one is written."""


def changes(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether an event of the interpreter changes files."""
    if event == "open":
        return isinstance(arguments[1], str) and "w" in arguments[1]
    return event in CHANGES


def child(results: Path, kill_at: int | None) -> list[str]:
    """Merge; the changes made, as `event path`."""
    seen: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not watching or not changes(event, arguments):
            return
        if len(seen) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        seen.append(f"{event} {arguments[0]}")

    watching = True
    sys.addaudithook(hook)
    merge(results, extended(), ROOT)
    watching = False
    return seen


def main(folder: Path, every: int) -> None:
    """Forks before zarr has started its thread."""
    reading, writing = os.pipe()
    if not os.fork():
        shutil.copytree(folder / "results", folder / "whole")
        os.write(writing, json.dumps(child(folder / "whole", None)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        seen = json.load(stream)
    os.wait()
    swap = next(k for k, event in enumerate(seen) if event.startswith("os.remove") and event.endswith("trajectories.json"))
    steps = sorted({*range(0, swap, every), *range(swap, min(swap + SWAP, len(seen))), *range(swap + SWAP, len(seen), every)})
    for step in steps:
        copy = folder / f"killed_{step:04d}"
        shutil.copytree(folder / "results", copy)
        if not os.fork():
            child(copy, step)
            os._exit(0)
        _, status = os.wait()
        if not os.WIFSIGNALED(status):
            raise SystemExit(f"step {step} of {len(seen)} was not reached")
    print(json.dumps({"seen": seen, "killed": steps, "swap": swap}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
