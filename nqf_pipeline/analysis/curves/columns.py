"""Which columns are time and losses, and which tell runs apart: by name first, by what the numbers do where no name helps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from nqf_pipeline.analysis.curves.table import Column, CurveError, Note, Table
from nqf_pipeline.study.spelling import nearest

_STEPS = ("step", "steps", "step_number", "global_step", "_step", "iteration", "iterations", "iter", "it", "update", "updates", "batch")
TIMES = (*_STEPS, "tokens", "samples", "examples", "epoch", "epochs", "time", "t", "x", "runtime", "wall_time")
LOSSES = ("loss", "train_loss", "training_loss", "train/loss", "loss/train")
_LOSS_WORDS = re.compile(r"loss|error|\berr\b|nll|perplexity|\bppl\b|mse|cross.?entropy|objective|\bcost\b|\brisk\b|bits", re.IGNORECASE)
_RUN_NAMES = ("run", "run_id", "seed", "trial", "replicate", "fold", "experiment", "model", "split", "phase", "subset", "dataset")
_METRIC_NAMES = ("metric", "tag", "name", "series", "curve", "variable", "key", "group", "id")
_VALUES = ("value", "y", "metric_value")
RUNS = 64
"""Most runs of one file."""


@dataclass(frozen=True)
class Series:
    """One curve as it stands in the file, in the file's order."""

    name: str
    time_name: str
    time: Float[np.ndarray, "records"]
    loss: Float[np.ndarray, "records"]
    epoch: Float[np.ndarray, "records"] | None = None
    notes: list[Note] = field(default_factory=list)


def series(path: Path, table: Table, time: str | None, loss: str | None) -> list[Series]:
    """All curves of a table, the main one first."""
    if not table.columns:
        found = f"only words in {', '.join(table.words)}" if table.words else "nothing"
        raise CurveError(f"{path}: has no column of numbers ({found}), so there is no loss to describe")
    for wanted in (time, loss):
        if wanted is not None and wanted not in table.columns:
            why = "is no column of numbers" if wanted in table.words else "is not there"
            names = list(table.columns)
            raise CurveError(f"{path}: column `{wanted}` {why} (columns of numbers: {', '.join(names)}){nearest(wanted, names)}")
    runs = _run_column(table, (time, loss))
    clock = time or _time(table, loss, runs)
    losses = [loss] if loss else _losses(path, table, clock, runs)
    said = f"time is {f'`{clock}`' if clock else 'the number of the record'}, loss is {', '.join(f'`{name}`' for name in losses)}"
    notes = [*table.notes, Note("columns", said)]
    every = [curve for name in losses for curve in _runs(table, clock, name, runs, notes)]
    curves = [curve for curve in every if len(curve.time) > 1]
    if not curves:
        count = max((len(curve.time) for curve in every), default=0)
        raise CurveError(f"{path}: `{losses[0]}` has {count} record{'' if count == 1 else 's'}; a curve needs at least two")
    return curves[: RUNS * max(1, len(losses))]


def _time(table: Table, loss: str | None, runs: str | None) -> str | None:
    """By name; else the first column that only rises and is not the only one."""
    names = {name.lower(): name for name in table.columns if name not in (loss, runs)}
    for known in TIMES:
        if known in names:
            return names[known]
    if len(names) == 1 and loss is None:
        return None
    return next((name for name in names.values() if _rises(table.columns[name]) and not _LOSS_WORDS.search(name)), None)


def _rises(column: Column) -> bool:
    values = column.values[column.present]
    return len(values) > 1 and bool(np.all(np.diff(values) > 0))


def _losses(path: Path, table: Table, clock: str | None, runs: str | None) -> list[str]:
    """All columns named like a loss, the plain training loss first; else the only one that is left."""
    left = [name for name in table.columns if name not in (clock, runs)]
    named = [name for name in left if _LOSS_WORDS.search(name)] or [name for name in left if name.lower() in _VALUES]
    if named:
        return sorted(named, key=lambda name: LOSSES.index(name.lower()) if name.lower() in LOSSES else len(LOSSES))
    unknown = [name for name in left if name.lower() not in TIMES]
    if unknown and (len(unknown) == 1 or all(re.fullmatch(r".+\[\d+\]|column \d+", name) for name in unknown)):
        return unknown
    if len(left) == 1:
        return left
    if not left:
        raise CurveError(f"{path}: has only the column `{clock}`, which counts time; a column of losses is needed")
    raise CurveError(f"{path}: no column is named like a loss (columns of numbers: {', '.join(table.columns)}); name it with --loss COLUMN")


def _run_column(table: Table, taken: Sequence[str | None]) -> str | None:
    """The column whose few values tell runs (or metrics) apart."""
    for known in (*_RUN_NAMES, *_METRIC_NAMES):
        for name in (*table.words, *table.columns):
            if name.lower() == known and name not in taken and _tells_apart(_labels(table, name)):
                return name
    return None


def _tells_apart(labels: Sequence[str]) -> bool:
    """A few values, each on several rows."""
    return 1 < len(set(labels)) <= min(RUNS, len(labels) // 3)


def _labels(table: Table, name: str) -> list[str]:
    return table.words[name] if name in table.words else [f"{value:g}" for value in table.columns[name].values]


def _runs(table: Table, clock: str | None, loss: str, runs: str | None, notes: list[Note]) -> Iterator[Series]:
    column = table.columns[loss]
    if runs is None:
        yield _series(table, clock, loss, column.present, loss, notes)
        return
    labels = np.array(_labels(table, runs))
    several = Note("several_runs", f"column `{runs}` tells {len(set(labels))} runs apart; each is described on its own")
    for label in dict.fromkeys(labels):
        yield _series(table, clock, loss, column.present & (labels == label), f"{loss}, {runs} {label}", [*notes, several])


def _series(table: Table, clock: str | None, loss: str, rows: Bool[np.ndarray, "rows"], name: str, notes: list[Note]) -> Series:
    notes = list(notes)
    if clock is not None:
        absent = int((rows & ~table.columns[clock].present).sum())
        if absent:
            notes.append(Note("no_time", f"{absent} records of `{loss}` have no `{clock}`; left out"))
            rows = rows & table.columns[clock].present
    values = table.columns[loss].values[rows]
    times = np.arange(1.0, len(values) + 1) if clock is None else table.columns[clock].values[rows]
    epoch = next((table.columns[key] for key in table.columns if key.lower() == "epoch" and key != clock), None)
    inside = None if epoch is None or not epoch.present[rows].all() else epoch.values[rows]
    if loss in table.averaged and len(times) > 1 and (np.diff(times) > 0).all():
        times = times - np.diff(times, prepend=max(0.0, 2 * times[0] - times[1])) / 2
        notes.append(Note("averaged", f"a trainer logs the mean of `{loss}` since its last record; times are moved to the middle of each"))
    return Series(name, clock or "record", times, values, inside, notes)
