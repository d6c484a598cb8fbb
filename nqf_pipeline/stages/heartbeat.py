"""Which shards are in training now: a lock that ends with its process, however that ends."""

from __future__ import annotations

import fcntl
import os

from nqf_pipeline.study.layout import Layout


def mark_running(layout: Layout, shard: str) -> int:
    """Hold a lock that says "in training" for as long as this process lives, however it ends; returns the file descriptor."""
    path = layout.running(shard)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    fcntl.flock(handle, fcntl.LOCK_SH)
    os.utime(handle)
    return handle


def running_since(layout: Layout, shard: str) -> float | None:
    """When the process that trains this shard began; None when none lives."""
    try:
        handle = os.open(layout.running(shard), os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return os.fstat(handle).st_mtime
    else:
        return None
    finally:
        os.close(handle)
