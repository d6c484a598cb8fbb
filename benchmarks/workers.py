"""Long-lived worker processes that take one JSON request and give one JSON reply a line.

They stay alive between repetitions, so that both sides of a comparison can be timed in turns while everybody else waits.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import AbstractContextManager
from typing import Any

from benchmarks.rows import FOLDER


class Worker(AbstractContextManager["Worker"]):
    """A process running one of this folder's modules under the given interpreter."""

    def __init__(self, python: str, module: str) -> None:
        # An OpenBLAS kernel forced from outside would handicap NumPy.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
        command = [python, "-m", f"benchmarks.{module}"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=FOLDER.parent, env=environment
        )

    def send(self, **request: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a benchmark's worker ended with exit code {self.process.wait()}; its message is above")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def ask(self, **request: Any) -> dict[str, Any]:
        self.send(**request)
        return self.receive()

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


def ask_together(workers: list[Worker], **request: Any) -> list[dict[str, Any]]:
    """The same request to all at once; their replies."""
    for worker in workers:
        worker.send(**request)
    return [worker.receive() for worker in workers]
