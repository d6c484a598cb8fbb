"""Figures drawn in two processes beside each other. Each takes the next one when it is free, so both end at about the same time.

Drawing is Python from end to end, so threads would wait for each other. The other process starts anew (it inherits no thread and no
lock) and ends by itself when no figure is left, also when the first one was killed.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection

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
    (waiting, enter), (answers, answer) = spawn.Pipe(duplex=False), spawn.Pipe(duplex=False)
    os.write(enter.fileno(), bytes(range(len(names))))
    enter.close()
    other = spawn.Process(target=_other, args=(work, names, waiting, answer), daemon=True)
    other.start()
    answer.close()
    try:
        drawn = work(_next(names, waiting))
        found = _received(answers)
    except BaseException:
        other.terminate()
        raise
    finally:
        other.join()  # its libraries put their own locks away
    drawn |= found
    return {name: drawn[name] for name in names}


def _next(names: Sequence[str], waiting: Connection) -> Iterator[str]:
    """Names that no process has taken yet: a byte of a pipe is read once, whoever reads it."""
    while place := os.read(waiting.fileno(), 1):
        yield names[place[0]]


def _other(work: Work, names: Sequence[str], waiting: Connection, answer: Connection) -> None:
    gc.freeze()
    try:
        answer.send(work(_next(names, waiting)))
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
