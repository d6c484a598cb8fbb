"""Locks on open files, which end with their process however it ends."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

from nqf_pipeline.errors import InputError

_ABSENT = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}


def lock(handle: int, path: Path, wait: bool = True) -> bool:
    """Lock an open file for this process alone. False where another one has it and `wait` is not set.

    `path` is the file's, for the message. Raises InputError on file systems without locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        raise InputError(
            f"{path}: this file system cannot lock files ({error.strerror}), by which jobs know of each other. Mount it with locks "
            "(Lustre: option `flock` or, for one node, `localflock`; NFS: version 4, or `local_lock=flock` for one node), or work in a "
            "folder on another file system and copy the results when all is done"
        ) from error
    return True
