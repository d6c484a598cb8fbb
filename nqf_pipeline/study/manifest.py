"""The manifest: every shard ever formed for a study, one JSON line each, only ever appended to.

A line is {schema, study, shard, bucket, lane_width, families: [full specifications without a seed], cells: [[family, seed], ...]}, family
counting from 0 within the line (in schema 1 `cells` are full specifications and there are no families). A last line without its newline
was cut off by a kill and is ignored on reading and removed by the next append; anything else that cannot be read is an error.
"""

from __future__ import annotations

import json
import os
import re
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
from nqf_pipeline.study.families import Family
from nqf_pipeline.study.identity import restore
from nqf_pipeline.study.locking import lock
from nqf_pipeline.study.shards import Shard
from nqf_pipeline.tasks import TASKS

READABLE = (1, SCHEMA)
"""Versions of manifest lines that can be read."""
_NAME = re.compile(rb'"shard": ?"([^"]*)"')


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
        raise _unreadable(path, error) from error
    reader = _Reader(path, study)
    return Manifest(tuple(reader.shard(number, line) for number, line in enumerate(_whole_lines(data), 1)))


def read_some(path: Path, study: str, names: Iterable[str]) -> dict[str, Shard]:
    """The shards of these names that the manifest has, without reading the cells of any other."""
    wanted, lines = {name.encode() for name in names}, []
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(filter(bytes.strip, stream), 1):
                name = _NAME.search(line)
                if name and name[1] in wanted and line.endswith(b"\n"):
                    lines.append((number, line))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unreadable(path, error) from error
    reader = _Reader(path, study)
    return {shard.id: shard for shard in (reader.shard(number, line) for number, line in lines)}


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
            _write(stream, lines)
            os.fsync(stream.fileno())
        except OSError as error:
            stream.truncate(len(whole))
            raise ConfigError(
                f"{path}: cannot write the manifest ({error.strerror}); nothing was added, no work is lost: "
                "free space or check the disk, then start the same command again"
            ) from error
    return True


def _write(stream: BinaryIO, data: bytes) -> None:
    """All of it: an unbuffered write may take a part and say nothing, which on a nearly full disk it does."""
    rest = memoryview(data)
    while rest:
        rest = rest[stream.write(rest) :]


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
        lock(stream.fileno(), path)
        yield stream


def _unreadable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{path}: cannot read the manifest ({error.strerror}): check the results folder and its permissions")


def _line(shard: Shard, study: str) -> bytes:
    families: dict[Any, int] = {}
    cells = [[families.setdefault(_but_seed(cell), len(families)), cell.seed] for cell in shard.cells]
    first = {family: cell for (family, _), cell in zip(reversed(cells), reversed(shard.cells), strict=True)}
    record = {
        "schema": SCHEMA,
        "study": study,
        "shard": shard.id,
        "bucket": shard.bucket,
        "lane_width": shard.lane_width,
        "families": [first[family].model_dump(mode="json", exclude={"seed"}) for family in range(len(families))],
        "cells": cells,
    }
    return json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _but_seed(cell: Cell) -> tuple[Any, ...]:
    return tuple(getattr(cell, name) for name in Cell.model_fields if name != "seed")


class _Reader:
    """Lines as shards. Families that were met before are not validated again."""

    def __init__(self, path: Path, study: str) -> None:
        self.path, self.study = path, study
        self._families: dict[str, Family] = {}

    def shard(self, number: int, line: bytes) -> Shard:
        place = f"{self.path}, line {number}"
        record = self._record(line, place)
        try:
            shard, named = Shard(tuple(self._cells(record)), int(record["lane_width"])), (record["shard"], record["bucket"])
        except (ValidationError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise ConfigError(
                f"{place}: a cell cannot be read by this version ({error}); use the version that wrote it, or choose another `name`"
            ) from error
        if not shard.cells:
            raise ConfigError(f"{place}: a shard without cells; remove the line")
        if (shard.id, shard.bucket) != named:
            raise ConfigError(
                f"{place}: the cells do not match the shard's name {named[0]}: the line was edited, or written by a version with "
                "other identities; use that version, or choose another `name` for the study"
            )
        return shard

    def _record(self, line: bytes, place: str) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(line)
            schema, owner = record["schema"], record["study"]
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{place}: not a manifest line ({error}); restore the file, or move the results folder away") from error
        if schema not in READABLE:
            raise ConfigError(
                f"{place}: written with manifest schema {schema}, and this version reads schema {' and '.join(map(str, READABLE))}; "
                "use the version that wrote these results, or choose another `name` for the study"
            )
        if owner != self.study:
            raise ConfigError(
                f"{place}: these results belong to study `{owner}`, not to `{self.study}`; choose another `name` or another results "
                "folder, because results of two studies are never mixed"
            )
        return record

    def _cells(self, record: dict[str, Any]) -> Iterator[Cell]:
        if record["schema"] == 1:
            for spec in record["cells"]:
                seed = spec.pop("seed")
                yield self._family(spec).member(seed)
        else:
            families = [self._family(spec) for spec in record["families"]]
            for family, seed in record["cells"]:
                yield families[family].member(seed)

    def _family(self, spec: dict[str, Any]) -> Family:
        text = json.dumps(spec)
        if text not in self._families:
            self._families[text] = Family(Cell.model_validate(_complete(spec)))
        return self._families[text]


def _complete(spec: dict[str, Any]) -> dict[str, Any]:
    """A stored specification with fields that its models gained since then."""
    architecture, task, optimizer = spec["architecture"], spec["task"], spec["optimizer"]
    parts = {
        "architecture": restore(ARCHITECTURES[architecture["kind"]], architecture),
        "task": restore(TASKS[task["kind"]], task),
        "optimizer": restore(Optimizer, optimizer),
    }
    return restore(Cell, {**spec, **parts})
