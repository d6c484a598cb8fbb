"""Steps of a write: each call that changes the disk can fail, or be the moment at which the process is killed."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

CALLS = ("fsync", "replace", "rename", "unlink", "mkdir", "link", "open", "rmdir", "utime")
"""Functions of `os` behind those of pathlib and shutil."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
NEVER = 0
"""No step has this number: the steps are only counted."""


def place_of(handle: int) -> str:
    """The path behind a file descriptor; empty where the system does not tell."""
    try:
        return str(Path(f"/proc/self/fd/{handle}").readlink())
    except OSError:
        return ""


class Halves:
    """A stream whose every write has a step in its middle: half of the bytes are in the file."""

    def __init__(self, stream: Any, step: Callable[[], None]) -> None:
        self._stream, self._step = stream, step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> Halves:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def write(self, data: Any) -> int:
        data = data if isinstance(data, str) else memoryview(data).cast("B")
        first = self._stream.write(data[: len(data) // 2])
        self._stream.flush()
        self._step()
        return int(first) + int(self._stream.write(data[first:]))


class Steps:
    """Counts the calls below a folder and does something before the one whose number is asked for."""

    def __init__(self, folder: Path, at: int, action: Callable[[str], None]) -> None:
        self.folder, self.at, self.action, self.count = str(folder), at, action, 0

    def step(self, path: str) -> None:
        self.count += 1
        if self.count == self.at:
            self.action(path)

    def below(self, path: Any, folder: int | None = None) -> str | None:
        """The path that a call is about, if it lies below the folder. `folder` is what a relative path starts from."""
        if isinstance(path, int):
            path = place_of(path)
        if not isinstance(path, str | os.PathLike):
            return None
        path = os.fspath(path) if folder is None else str(Path(place_of(folder), path))
        return path if path.startswith(self.folder) else None

    def wrap(self, name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            reads = name == "open" and not arguments[1] & WRITES
            if not reads and (path := self.below(arguments[0], options.get("dir_fd"))) is not None:
                self.step(path)
            return original(*arguments, **options)

        return call

    def wrap_open(self) -> Callable[..., Any]:
        original = io.open

        def call(place: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            path = None if mode.strip("bt") == "r" else self.below(place)
            if path is None:
                return original(place, mode, *arguments, **options)
            self.step(path)
            stream = original(place, mode, *arguments, **options)
            self.step(path)  # open, and nothing written
            return Halves(stream, lambda: self.step(path))

        return call

    def happened(self) -> bool:
        return self.count >= self.at


@contextmanager
def at_step(folder: Path, number: int, action: Callable[[str], None]) -> Iterator[Steps]:
    """Within the block, `action` is called before the step of that number (from 1)."""
    steps = Steps(folder, number, action)
    patches = [mock.patch.object(os, name, steps.wrap(name)) for name in CALLS]
    patches.append(mock.patch.object(io, "open", steps.wrap_open()))
    for patch in patches:
        patch.start()
    try:
        yield steps
    finally:
        for patch in patches:
            patch.stop()


def fails(code: int) -> Callable[[str], None]:
    """An action: the system call says no."""

    def act(path: str) -> None:
        raise OSError(code, os.strerror(code), path)

    return act
