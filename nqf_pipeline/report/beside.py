"""Figures drawn in two processes beside each other. Each takes the next one when it is free, so both end at about the same time.

Drawing is Python from end to end, so threads would wait for each other. The other process starts anew (it inherits no thread and no
lock) and ends by itself when no figure is left, also when the first one was killed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from nqf_pipeline.errors import InputError, WorkError

ENOUGH = 4
"""Figures from which on a second process pays: it takes as long to start as two of them to draw."""
Entries = dict[str, dict[str, str]]
"""By figure, what the page says about it."""
Work = Callable[[Iterator[str]], Entries]
"""Draws the figures that it is given one after another."""


def shared(work: Work, names: Sequence[str], processes: int) -> Entries:
    """Draw all figures, here and from two `processes` on also in another process (`work` must pickle); entries in the order of `names`.

    Errors of the other process that say what to do are raised here. Raises WorkError where it ends without a word.
    """
    if processes < 2 or len(names) < ENOUGH:
        return work(iter(names))
    spawn = get_context("spawn")
    taken, (answers, answer) = spawn.Value("i", 0), spawn.Pipe(duplex=False)
    other = spawn.Process(target=_other, args=(work, names, taken, answer), daemon=True)
    other.start()
    answer.close()
    try:
        drawn = work(_next(names, taken))
        found = _received(answers)
    finally:
        other.terminate()
        other.join()
    drawn |= found
    return {name: drawn[name] for name in names}


def _next(names: Sequence[str], taken: Any) -> Iterator[str]:
    """Names that no process has taken yet."""
    while True:
        with taken.get_lock():
            place = taken.value
            taken.value += 1
        if place >= len(names):
            return
        yield names[place]


def _other(work: Work, names: Sequence[str], taken: Any, answer: Connection) -> None:
    gc.freeze()
    try:
        answer.send(work(_next(names, taken)))
    except (InputError, WorkError) as error:
        answer.send(error)


def _received(answers: Connection) -> Entries:
    try:
        found = answers.recv()
    except EOFError:
        raise WorkError(
            "figures: the process that drew some of them did not come to its end; its error, if it wrote one, is above"
        ) from None
    if isinstance(found, (InputError, WorkError)):
        raise found
    return dict(found)
