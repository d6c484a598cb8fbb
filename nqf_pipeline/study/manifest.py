"""The manifest: every shard ever formed for a study, one JSON line each, only ever appended to.

A line is {schema, study, shard, bucket, lane_width, cells: [full specifications]}. A last line without its newline was cut off by a kill
and is ignored on reading and removed by the next append; anything else that cannot be read is an error.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from nqf_pipeline.dynamics.optimizers import Optimizer
from nqf_pipeline.models import ARCHITECTURES
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.config import SCHEMA
from nqf_pipeline.study.errors import ConfigError
from nqf_pipeline.study.identity import restore
from nqf_pipeline.study.shards import Shard
from nqf_pipeline.tasks import TASKS


@dataclass(frozen=True)
class Manifest:
    """The shards of a results folder, in the order in which they were formed."""

    shards: tuple[Shard, ...] = ()

    @cached_property
    def shard_of(self) -> dict[str, Shard]:
        """The shard of every cell placed so far, by cell id."""
        return {cell.id: shard for shard in self.shards for cell in shard.cells}


def read_manifest(path: Path, study: str) -> Manifest:
    """The manifest of a study; an empty one where there is no file. Raises ConfigError when it is not this study's or not readable."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Manifest()
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the manifest ({error.strerror}): check the results folder and its permissions") from error
    return Manifest(tuple(_shard(line, f"{path}, line {number}", study) for number, line in enumerate(_whole_lines(data), 1)))


def append(path: Path, study: str, known: Manifest, shards: Iterable[Shard]) -> bool:
    """Add shards under a lock. False, with nothing written, when another process has added shards that `known` lacks."""
    with _locked(path) as stream:
        data = stream.read()
        whole = data[: data.rfind(b"\n") + 1]
        if sum(1 for _ in _whole_lines(whole)) != len(known.shards):
            return False
        lines = b"".join(_line(shard, study) for shard in shards)
        try:
            stream.truncate(len(whole))
            stream.seek(len(whole))
            stream.write(lines)
            stream.flush()
            os.fsync(stream.fileno())
        except OSError as error:
            stream.truncate(len(whole))
            raise ConfigError(f"{path}: cannot write the manifest ({error.strerror}); nothing was added, no work is lost") from error
    return True


def _whole_lines(data: bytes) -> Iterator[bytes]:
    return (line for line in data[: data.rfind(b"\n") + 1].split(b"\n") if line.strip())


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise ConfigError(f"{path}: cannot open the manifest for writing ({error.strerror}): check the results folder") from error
    with os.fdopen(descriptor, "r+b", buffering=0) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield stream


def _line(shard: Shard, study: str) -> bytes:
    cells = [cell.model_dump(mode="json") for cell in shard.cells]
    record = {"schema": SCHEMA, "study": study, "shard": shard.id, "bucket": shard.bucket, "lane_width": shard.lane_width, "cells": cells}
    return json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _shard(line: bytes, place: str, study: str) -> Shard:
    try:
        record = json.loads(line)
        schema, owner = record["schema"], record["study"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{place}: not a manifest line ({error}); restore the file, or move the results folder away") from error
    if schema != SCHEMA:
        raise ConfigError(
            f"{place}: written with manifest schema {schema}, and this version reads schema {SCHEMA}; "
            "use the version that wrote these results, or choose another `name` for the study"
        )
    if owner != study:
        raise ConfigError(
            f"{place}: these results belong to study `{owner}`, not to `{study}`; choose another `name` or another results folder, "
            "because results of two studies are never mixed"
        )
    shard = _decode(record, place)
    if shard.id != record["shard"] or shard.bucket != record["bucket"]:
        raise ConfigError(
            f"{place}: the cells do not match the shard's name {record['shard']}: the line was edited, or written by a version with other "
            "identities; use that version, or choose another `name` for the study"
        )
    return shard


def _decode(record: dict[str, Any], place: str) -> Shard:
    try:
        cells = tuple(Cell.model_validate(_complete(spec)) for spec in record["cells"])
        return Shard(cells, int(record["lane_width"])) if cells else _empty(place)
    except (ValidationError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{place}: a cell cannot be read by this version ({error}); use the version that wrote it, or choose another `name`"
        ) from error


def _empty(place: str) -> Shard:
    raise ConfigError(f"{place}: a shard without cells; remove the line")


def _complete(spec: dict[str, Any]) -> dict[str, Any]:
    """A stored specification with fields that its models gained since then."""
    architecture, task, optimizer = spec["architecture"], spec["task"], spec["optimizer"]
    parts = {
        "architecture": restore(ARCHITECTURES[architecture["kind"]], architecture),
        "task": restore(TASKS[task["kind"]], task),
        "optimizer": restore(Optimizer, optimizer),
    }
    return restore(Cell, {**spec, **parts})
