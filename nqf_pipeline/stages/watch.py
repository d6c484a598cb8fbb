"""Work that ends by itself: at its time limit, or when it is asked to.

A compiled loop cannot be interrupted within its process, and a signal handler in Python waits for it. So a thread of its own waits for the
time and for the bytes that the interpreter writes when a signal comes; it saves what there is and ends the process, loop and all.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ASKED = (signal.SIGTERM, signal.SIGINT)
"""What schedulers and terminals send to end a process politely."""
Ending = Callable[[int | None], int]
"""Gets the signal, or None at the time limit; returns the exit code. Runs in a thread of its own while the work goes on."""


@contextmanager
def watched(seconds: float, ending: Ending) -> Iterator[None]:
    """Do the block within `seconds`. When they are over, or the process is asked to end, `ending` runs and the process exits.

    Of the end of the block and `ending`, whichever comes first shuts the other out: nothing is saved twice.
    """
    over = threading.Lock()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = {number: signal.signal(number, lambda *_: None) for number in ASKED}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(time.monotonic() + seconds, reader, over, ending), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.acquire()  # waits for ever where the ending is at work: it ends the process
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.write(writer, b"\0")
        watcher.join()
        os.close(reader)
        os.close(writer)


def _watch(end: float, reader: int, over: threading.Lock, ending: Ending) -> None:
    signals = _signals(end, reader)
    if not over.acquire(blocking=False):
        return
    code = 1
    try:
        code = ending(next(iter(signals), None))
    finally:  # whatever went wrong, the process must end, and say why
        if (error := sys.exception()) is not None:
            print(error, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _signals(end: float, reader: int) -> list[int]:
    """The signals that came before the time was over. Other signals, and zero for the end of the work, are passed on as nothing."""
    while (left := end - time.monotonic()) > 0:
        if select.select([reader], [], [], min(left, threading.TIMEOUT_MAX))[0]:
            came = os.read(reader, 64)
            if 0 in came or set(came) & set(ASKED):
                return [number for number in came if number in ASKED]
    return []
