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


class Steps:
    """Counts the calls below a folder and does something before the one whose number is asked for."""

    def __init__(self, folder: Path, at: int, action: Callable[[str], None]) -> None:
        self.folder, self.at, self.action, self.count = str(folder), at, action, 0

    def step(self, path: str) -> None:
        self.count += 1
        if self.count == self.at:
            self.action(path)

    def concerns(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and str(path).startswith(self.folder)

    def wrap(self, name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if name == "fsync":
                self.step(self.folder)
            elif self.concerns(arguments[0]):
                self.step(str(arguments[0]))
            return original(*arguments, **options)

        return call

    def wrap_open(self) -> Callable[..., Any]:
        original = io.open

        def call(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            writes = self.concerns(path) and mode.strip("bt") != "r"
            if writes:
                self.step(str(path))
            stream = original(path, mode, *arguments, **options)
            if writes:
                self.step(str(path))  # open, and nothing or a part of it written
            return stream

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
