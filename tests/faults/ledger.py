"""What was injected and what came of it: one line a fault, from which docs/faults.md is made."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nqf_pipeline.errors import InputError, WorkError
from nqf_pipeline.store.atomic import unwritable

VARIABLE = "NQF_FAULTS"
"""Environment variable that names the file to which lines are added; nothing is written without it."""
ACTIONS = r"\b(delete|start|restore|check|free|run|use|wait|choose|give|move|name|raise|remove|deleting|update)\b"


@dataclass(frozen=True)
class Fault:
    """One injected fault. `problem` is empty where it was survived."""

    part: str
    """`whole run` or `component`."""
    kind: str
    target: str
    seed: int | None
    outcome: str
    problem: str = ""


@dataclass
class Ledger:
    """The faults of one test."""

    part: str
    faults: list[Fault] = field(default_factory=list)

    def add(self, kind: str, target: str, outcome: str, problem: str = "", seed: int | None = None) -> None:
        self.faults.append(Fault(self.part, kind, target, seed, outcome, problem))

    def judge(self, kind: str, target: str, trial: Callable[[], str], seed: int | None = None) -> None:
        """Run a trial that says what happened; what it raises is a fault that was not survived."""
        try:
            self.add(kind, target, trial(), seed=seed)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is the finding)
            self.add(kind, target, "not survived", f"{type(error).__name__}: {str(error)[:1000]}", seed)

    def close(self) -> None:
        """Write the lines; fail where a fault was not survived."""
        if os.environ.get(VARIABLE):
            with Path(os.environ[VARIABLE]).open("a", encoding="utf-8") as stream:
                stream.writelines(json.dumps(asdict(fault)) + "\n" for fault in self.faults)
        lost = [fault for fault in self.faults if fault.problem]
        assert not lost, f"{len(lost)} of {len(self.faults)} faults not survived:\n" + "\n".join(map(str, lost))


@contextmanager
def ledger(part: str = "component") -> Iterator[Ledger]:
    """Faults are written down even where the test fails in between."""
    book = Ledger(part)
    try:
        yield book
    finally:
        book.close()


def message(text: str) -> str:
    """The last line of a log that names a file of the study and a way out, else its last line."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()] or ["nothing was said"]
    found = [line for line in lines if re.match(r"\S*\b(results|config)/\S+: ", line) and re.search(ACTIONS, line, re.IGNORECASE)]
    return (found or lines)[-1]


def way_out(text: str, *names: str) -> None:
    """A message for the user: it names the file (any of `names`), says what to do, and is no traceback."""
    assert "Traceback" not in text, text
    assert any(name in text for name in names), f"none of {names} in: {text}"
    assert re.search(ACTIONS, text, re.IGNORECASE), f"no way out in: {text}"


@contextmanager
def told(*names: str) -> Iterator[list[str]]:
    """Errors of the block must be meant for a user, as commands say them; the list holds the message where there was one."""
    said: list[str] = []
    try:
        yield said
    except (InputError, WorkError) as error:
        way_out(str(error), *names)
        said.append(str(error))
    except OSError as error:
        known = unwritable(Path(error.filename or "."), error)
        if known is None:
            raise
        way_out(str(known), *names)
        said.append(str(known))
