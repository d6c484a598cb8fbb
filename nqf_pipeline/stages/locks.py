"""Locks that end with their process, however it ends: who runs a study, and which of its jobs are at work.

A killed run therefore leaves nothing to clean up, which is why the workflow's profile switches Snakemake's own lock files off.
"""

from __future__ import annotations

import fcntl
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nqf_pipeline.errors import InputError
from nqf_pipeline.store.atomic import unwritable
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.locking import lock

_runs: dict[Path, int] = {}
"""File descriptors of the studies that this process runs; kept open until it ends."""


def claim_run(layout: Layout) -> None:
    """Be the one run of a study, until this process ends. Raises InputError when another run goes on."""
    if layout.root in _runs:
        return
    path = layout.running("workflow")
    handle = _open(path)
    try:
        if not lock(handle, path, wait=False):
            owner = os.pread(handle, 200, 0).decode(errors="replace").strip() or "unknown"
            raise InputError(
                f"{layout.root}: another run of this study goes on ({owner}), and two would do the same jobs twice. "
                f"Wait until it ends, or stop it; `nqf status {layout.root}` shows what it does."
            )
        _sign(handle, path)
    except BaseException:
        os.close(handle)
        raise
    _runs[layout.root] = handle


@contextmanager
def only_one(layout: Layout, job: str) -> Iterator[None]:
    """Be the one process that does this job; waits for one that outlived its killed workflow."""
    path = layout.running(job)
    handle = _open(path)
    try:
        if not lock(handle, path, wait=False):
            print(f"Waiting for another process that does `{job}` of {layout.root}", file=sys.stderr)
            lock(handle, path)
        _sign(handle, path)
        yield
    finally:
        os.close(handle)


def running_since(layout: Layout, job: str) -> float | None:
    """When the process that does this job began; None when none lives."""
    try:
        handle = os.open(layout.running(job), os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.fstat(handle).st_mtime
    except OSError:  # a file system without locks
        return None
    else:
        return None
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise unwritable(path, error) or error from error


def _sign(handle: int, path: Path) -> None:
    """Say who holds the lock, and since when (the file's time stamp)."""
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {platform.node()}\n".encode(), 0)
        os.utime(handle)
    except OSError as error:
        raise unwritable(path, error) or error from error
