"""Files that are either whole or absent: write beside, flush to disk, rename."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from nqf_pipeline.errors import InputError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG}

_FAILING = {errno.EIO, errno.ENXIO, errno.ENODEV, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EREMOTEIO}
SEAL = "seal"
"""Key of a document's own checksum."""


class DiskFullError(InputError):
    """No space left: nothing half-written was kept."""


def unwritable(path: Path, error: OSError) -> InputError | None:
    """The readable form of an error that the user can end: no space, no permission, a file in the way. None for any other error."""
    if error.errno in _FULL:
        return DiskFullError(
            f"{path}: no space left on the disk (or quota met) while writing. The half-written file was removed and finished work is "
            "untouched: free some space and start the same command again."
        )
    if error.errno in _REFUSED:
        return InputError(
            f"{error.filename or path}: cannot be written ({error.strerror}), so nothing was saved there; finished work is untouched. "
            "Check permissions and what stands at this path, then start the same command again."
        )
    if error.errno in _FAILING:
        return InputError(
            f"{error.filename or path}: the disk or network file system failed ({error.strerror}), so nothing was saved there; finished "
            "work is untouched. Check the device (`dmesg`, mounts), then start the same command again."
        )
    return None


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that a kill at any moment leaves the old file or the new one, never a part."""
    write_with(path, lambda temporary: _write(temporary, data))


def write_with(path: Path, write: Callable[[Path], None]) -> None:
    """The same by a function that writes a file of a given name, for what should not be in memory as a whole.

    One writer at a time, which the caller's lock sees to: what a killed one left is overwritten by the next.
    """
    temporary = _temporary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise unwritable(path, error) or error from error


def remove(path: Path) -> None:
    """A file gone, if it was there, with what a killed writer of it left."""
    for file in (path, _temporary(path)):
        file.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def to_json(values: Any) -> str:
    """Strict JSON (no NaN, no NumPy numbers), keys in order: the same values give the same bytes."""
    return json.dumps(values, allow_nan=False, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def sealed(values: dict[str, Any]) -> dict[str, Any]:
    """A document with its own checksum: a flipped bit can make another valid document, such as another number."""
    return {**values, SEAL: _checksum(values)}


def unsealed(values: dict[str, Any]) -> dict[str, Any]:
    """The document without its checksum. Raises ValueError where it was changed since; documents of older versions have none."""
    found = {key: value for key, value in values.items() if key != SEAL}
    if SEAL in values and values[SEAL] != _checksum(found):
        raise ValueError("its contents are not those that were written: its checksum differs")
    return found


def _checksum(values: dict[str, Any]) -> str:
    return hashlib.sha256(to_json(values).encode()).hexdigest()


def write_json(path: Path, values: Any) -> None:
    """Write strict JSON atomically."""
    write_bytes(path, to_json(values).encode())
