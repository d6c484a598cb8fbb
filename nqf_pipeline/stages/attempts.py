"""Jobs that do not end well: how often one was ended from outside, what it had finished, and when not to try again.

`attempts/<shard>` has a line for every start, taken away when the job ends by itself, even with an error; what is left was ended from
outside (memory, a power cut, SIGKILL). `stopped/<shard>` holds cells of a job that met a limit or was asked to end: the next attempt keeps
them and trains the others.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from nqf_pipeline.errors import InputError
from nqf_pipeline.stages.locks import claim_run, running_since
from nqf_pipeline.store.atomic import remove, unwritable, write_bytes
from nqf_pipeline.store.schema import ENTRIES, Status, empty
from nqf_pipeline.store.shards import SUFFIX, ShardError, Summary, read_record, read_shard, shard_records, summary_path
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.plan import Plan
from nqf_pipeline.study.shards import Shard

GIVEN_UP = "given up"
TRAINED = {status.name for status in Status if status.has_numbers}


# ---- how often


@contextmanager
def attempt(layout: Layout, shard: str) -> Iterator[None]:
    """One attempt; it stays on record only where the process is ended from outside."""
    path = layout.attempts(shard)
    before = _lines(path)
    _write(path, [*before, f"process {os.getpid()} on {platform.node()}"])
    try:
        yield
    finally:
        withdraw(layout, shard)


def withdraw(layout: Layout, shard: str) -> None:
    """Take the last attempt off the record: the job ends by itself."""
    _write(layout.attempts(shard), _lines(layout.attempts(shard))[:-1])


def ended_from_outside(layout: Layout, shard: str) -> int:
    """How many attempts ended without the job's doing. None may be at work now."""
    return len([line for line in _lines(layout.attempts(shard)) if line != GIVEN_UP])


def clear(layout: Layout, shard: str) -> None:
    """Take all attempts off the record: the shard is trained, or begun anew."""
    _write(layout.attempts(shard), [])


def hopeless(layout: Layout, shard: str, most: int) -> bool:
    """Whether a shard was given up, or has been ended from outside as often as the study allows."""
    return GIVEN_UP in _lines(layout.attempts(shard)) or ended_from_outside(layout, shard) >= most


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []


def _write(path: Path, lines: list[str]) -> None:
    try:
        if lines:
            write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
        else:
            remove(path)
    except OSError as error:
        raise unwritable(path, error) or error from error


# ---- what there is of it


@dataclass(frozen=True)
class Kept:
    """Trained cells of earlier attempts, and how they were trained."""

    cells: xr.Dataset
    summary: Summary


def kept(layout: Layout, shard: Shard) -> Kept | None:
    """The trained cells of an attempt that was stopped."""
    try:
        dataset, record = read_shard(layout.stopped(shard.id)), read_record(layout.stopped(shard.id))
    except ShardError:
        return None
    status = dataset["status"].to_numpy()
    own = dataset["cell"].isin([cell.id for cell in shard.cells]).to_numpy()
    rows = np.flatnonzero(own & [Status(int(value)).has_numbers for value in status])
    if not len(rows):
        return None
    summary = Summary(**record.model_dump(include=set(Summary.model_fields)))
    return Kept(dataset.isel(cell=rows).reset_coords(), summary)  # as the training stage spells it


def forget(layout: Layout, shard: str) -> None:
    """The shard is written: what was kept for its next attempt is of no use any more."""
    for path in (layout.stopped(shard), summary_path(layout.stopped(shard))):
        remove(path)


def settle(layout: Layout, shard: str) -> None:
    """The shard is written, maybe by an attempt that was killed right afterwards: attempts stay on record only where it was closed."""
    if set(read_record(layout.shard(shard)).cells.values()) <= TRAINED:
        clear(layout, shard)
    forget(layout, shard)


def closed(cells: Sequence[Cell], status: Status, modes: int, parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """All cells of a shard as rows: those of `parts` as they are, the others with a status and no numbers.

    `modes` is how many are watched. A loop of compiled steps hands nothing over before its end, so no record of such a cell is known.
    """
    known = {str(cell) for part in parts for cell in part["cell"].values}
    left = [cell for cell in cells if cell.id not in known]
    sizes = {"cell": len(left), "step": cells[0].records, "mode": modes}
    names = [str(name) for name in parts[0].data_vars] if parts else [e.name for e in ENTRIES.values() if "training" in e.required]
    arrays = {
        name: (ENTRIES[name].dims, empty(ENTRIES[name], tuple(sizes[dim] for dim in ENTRIES[name].dims)))
        for name in names
        if name != "cell"
    }
    arrays["step_number"] = (ENTRIES["step_number"].dims, np.array([cell.step_grid() for cell in left]).reshape(len(left), sizes["step"]))
    arrays["time"] = (ENTRIES["time"].dims, np.array([cell.optimizer.flow_time(cell.step_grid()) for cell in left]).reshape(len(left), -1))
    arrays["status"] = (("cell",), np.full(len(left), status, np.int8))
    rows = xr.Dataset(arrays, coords={"cell": [cell.id for cell in left]})
    return xr.concat([*parts, rows], dim="cell").sel(cell=[cell.id for cell in cells])


# ---- what a user does about it


def give_up(results: Path, wanted: Plan, shards: Sequence[str]) -> list[str]:
    """Let the next run close shards with status `killed` instead of training them; without names, those ended from outside before."""
    layout = wanted.layout
    open_shards = [shard.id for shard in wanted.training if not wanted.done(shard)]
    for shard in shards:
        if shard not in wanted.shard_by_id:
            raise InputError(f"{layout.manifest}: no shard {shard} in this study; `nqf status {results}` names those that were ended")
        if shard not in open_shards:
            raise InputError(f"{layout.shard(shard)}: this shard is finished, and nothing of it is given up")
        if running_since(layout, shard) is not None:
            raise InputError(f"{layout.root}: shard {shard} is being trained now; stop the run first")
    chosen = list(shards) or [shard for shard in open_shards if running_since(layout, shard) is None and ended_from_outside(layout, shard)]
    for shard in chosen:
        lines = _lines(layout.attempts(shard))
        if GIVEN_UP not in lines:
            _write(layout.attempts(shard), [*lines, GIVEN_UP])
    return chosen


def retry(layout: Layout) -> list[str]:
    """Let the next run train again what has status `timed_out` or `killed`; the trained cells of these shards are kept.

    Attempts that were merely counted stay on record.
    """
    claim_run(layout)
    chosen = [path for path, record in shard_records(layout.root / "shards") if set(record.cells.values()) - TRAINED]
    for path in chosen:
        target = layout.root / "stopped" / path.name
        read_shard(path)
        if set(read_record(path).cells.values()) & TRAINED:
            write_bytes(target, path.read_bytes())
            write_bytes(summary_path(target), summary_path(path).read_bytes())
        shard = path.name.removesuffix(SUFFIX)
        clear(layout, shard)  # first: without its summary the shard would not be found again
        summary_path(path).unlink()
        path.unlink()
        layout.train_benchmark(shard).unlink(missing_ok=True)  # else the shard would pass for one that is lost
    given_up = [file.name for file in (layout.root / "attempts").glob("[0-9a-f]*") if GIVEN_UP in _lines(file)]
    for shard in given_up:
        clear(layout, shard)
    return sorted({*(path.name.removesuffix(SUFFIX) for path in chosen), *given_up})
