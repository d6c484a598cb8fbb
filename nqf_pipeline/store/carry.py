"""Buckets of the last store that a merge need not write again.

Beside the store a record says from what each bucket was made, and the checksums of its files. A bucket whose cells, coordinates and
shards are the same, made by the same code, is carried over: its files are linked into the new store, after their checksums were
compared. So the record may be absent, stale or wrong, and the store damaged: then buckets are written anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from nqf_pipeline.store import encoding
from nqf_pipeline.store.atomic import write_bytes
from nqf_pipeline.store.members import Members

RECORD = ".trajectories.inputs.json"
Files = dict[str, tuple[int, str]]
"""Size and SHA-256 of each file, by its path below a folder."""


class Made(BaseModel):
    """One bucket of a store."""

    model_config = ConfigDict(extra="forbid")
    inputs: str
    files: Files


class Record(BaseModel):
    """All buckets of a store."""

    model_config = ConfigDict(extra="forbid")
    buckets: dict[str, Made] = {}

    def write(self, results: Path) -> None:
        write_bytes(results / RECORD, self.model_dump_json().encode())


def read_record_of_merge(results: Path) -> Record:
    """What the last merge made; nothing where that is not known."""
    try:
        return Record.model_validate_json((results / RECORD).read_bytes())
    except (OSError, ValidationError):
        return Record()


def inputs_of(members: Members, shards: Iterable[str]) -> str:
    """Everything that a bucket's bytes depend on; `shards`: checksums of the shards that hold its cells."""
    state = hashlib.sha256(_maker().encode())
    for part in (members.bucket, [cell.id for cell in members.cells], members.columns, sorted(shards)):
        state.update(repr(part).encode())
    for cell in members.cells:
        state.update(cell.step_grid().tobytes())
    return state.hexdigest()


def _maker() -> str:
    """Another program, library or layout may write other bytes."""
    return repr((_code(), encoding.CHUNK_BYTES, encoding.SHARD_BYTES))


@cache
def _code() -> tuple[str, ...]:
    sources = [file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py"))]
    return hashlib.sha256(b"".join(sources)).hexdigest(), *(version(name) for name in ("zarr", "numcodecs", "xarray", "numpy"))


def carry_over(made: Made, old: Path, new: Path) -> bool:
    """Give a new bucket the files of the old one. False, with nothing there, unless all are what the record says."""
    if list_files(old) != made.files:
        return False
    for name in made.files:
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        _link(old / name, new / name)
    return True


def _link(old: Path, new: Path) -> None:
    """No file of a store is ever changed, so that two may share one."""
    try:
        os.link(old, new)
    except OSError:  # not every file system can
        shutil.copyfile(old, new)


def save(folder: Path, data: Mapping[str, bytes]) -> Files:
    """Write files; their sizes and checksums."""
    files = {}
    for name, content in data.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        files[name] = _entry(content)
    return files


def list_files(folder: Path) -> Files:
    """Size and SHA-256 of every file below a folder."""
    files: Files = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            file = Path(parent, name)
            files[file.relative_to(folder).as_posix()] = _entry(file.read_bytes())
    return dict(sorted(files.items()))


def _entry(data: bytes) -> tuple[int, str]:
    return len(data), hashlib.sha256(data).hexdigest()
