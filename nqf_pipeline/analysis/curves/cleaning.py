"""From records as they stand to one loss per time, times rising: everything left out or put in order is said.

Times that go back are one of three things. Segments that all begin near the first time are several runs, one after another. A few segments
that begin later are restarts from a checkpoint: the resumed run replaces what it repeats. Anything else is a file out of order: sorted.
Times that repeat are several runs interleaved if the k-th record of every time continues a curve of its own, else repeated measurements,
whose geometric mean is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from nqf_pipeline.analysis.curves.columns import Series
from nqf_pipeline.analysis.curves.table import Note

FIRST = 0.02
"""Segments that begin within this share of the time range from the first time are runs of their own."""
RESTARTS = 0.1
"""Most restarts as a share of the records; more steps back than this, and the file is out of order."""
APART = 4.0
"""Interleaved runs: differences between them exceed the roughness of each by this factor (medians)."""
Values = Float[np.ndarray, "records"]
Rows = Bool[np.ndarray, "records"]


def cleaned(raw: Series) -> list[Series]:
    """The runs of a series, each with times rising and losses finite."""
    kept = _finite(raw)
    parts = _separate(kept)
    return [_ordered(part) for part in parts]


def positive(curve: Series) -> Series:
    """The records that a logarithm can show: time and loss above zero."""
    notes, time, loss = list(curve.notes), curve.time, curve.loss
    if (time <= 0).any():
        count = int((time <= 0).sum())
        what = f"the record at time 0 (loss {loss[time <= 0][0]:.4g})" if count == 1 and 0 in time else f"{count} records at times up to 0"
        notes.append(Note("time_zero", f"{what} cannot stand on a logarithmic axis; left out of fits and plateaus"))
    if (loss <= 0).any():
        zeros, below = int((loss == 0).sum()), int((loss < 0).sum())
        found = " and ".join([f"{zeros} zero"] * bool(zeros) + [f"{below} negative"] * bool(below))
        notes.append(Note("not_positive", f"{found} losses have no logarithm; left out, so what is said holds for the others only"))
    return _pick(replace(curve, notes=notes), (time > 0) & (loss > 0))


def _pick(curve: Series, rows: np.ndarray) -> Series:
    epoch = None if curve.epoch is None else curve.epoch[rows]
    return replace(curve, time=curve.time[rows], loss=curve.loss[rows], epoch=epoch)


def _with(curve: Series, code: str, message: str) -> Series:
    return replace(curve, notes=[*curve.notes, Note(code, message)])


def _finite(raw: Series) -> Series:
    good = np.isfinite(raw.time) & np.isfinite(raw.loss)
    if good.all():
        return raw
    first = int(np.argmax(~good))
    where = f"the first at {raw.time_name} {raw.time[first]:g}" if np.isfinite(raw.time[first]) else f"the first is record {first + 1}"
    text = f"{int((~good).sum())} of {len(good)} records are NaN or infinite ({where}); left out"
    return _pick(_with(raw, "not_finite", text), good)


def _separate(curve: Series) -> list[Series]:
    """Several runs in one column, or one run with its restarts resolved."""
    back = np.flatnonzero(np.diff(curve.time) < 0) + 1
    if not len(back):
        return _interleaved(curve)
    pieces = np.split(np.arange(len(curve.time)), back)
    span = np.ptp(curve.time)
    starts = np.array([curve.time[piece[0]] for piece in pieces])
    if (starts - curve.time.min() <= FIRST * span).all() and min(len(piece) for piece in pieces) > 2:
        text = f"time starts again {len(back)} times: {len(pieces)} runs one after another, each described on its own"
        marked = _with(curve, "several_runs", text)
        return [replace(_pick(marked, piece), name=f"{curve.name}, run {i + 1}") for i, piece in enumerate(pieces)]
    if len(back) <= max(1, RESTARTS * len(curve.time)) and min(len(piece) for piece in pieces) > 1:
        return [_resumed(curve, pieces)]
    order = np.argsort(curve.time, kind="stable")
    return _interleaved(_pick(_with(curve, "unordered", f"times are not in order ({len(back)} steps back); sorted"), order))


def _resumed(curve: Series, pieces: list[np.ndarray]) -> Series:
    """Each later piece replaces the records from its first time on."""
    keep = np.ones(len(curve.time), bool)
    for piece in pieces[1:]:
        keep[: piece[0]] &= curve.time[: piece[0]] < curve.time[piece[0]]
    places = ", ".join(f"{curve.time[piece[0]]:g}" for piece in pieces[1:6])
    lost = int((~keep).sum())
    text = f"time goes back {len(pieces) - 1} time(s), to {places}: restarts; {lost} records that a resumed run repeats were replaced by it"
    return _pick(_with(curve, "restart", text), keep)


def _interleaved(curve: Series) -> list[Series]:
    """Runs whose records alternate: every time stands there equally often, and each position continues smoothly."""
    _, counts = np.unique(curve.time, return_counts=True)
    runs = int(counts[0]) if len(counts) else 0
    if runs < 2 or len(counts) < 4 or (counts != runs).any():
        return [curve]
    grid = curve.loss.reshape(-1, runs)
    rough = np.median(np.abs(np.diff(grid, 2, axis=0)))
    if np.median(np.abs(np.diff(grid, axis=1))) <= APART * rough:
        return [curve]
    text = f"every time stands there {runs} times, and each position is a curve: {runs} interleaved runs, each described on its own"
    marked = _with(curve, "several_runs", text)
    return [replace(_pick(marked, np.arange(i, len(curve.time), runs)), name=f"{curve.name}, run {i + 1}") for i in range(runs)]


def _ordered(curve: Series) -> Series:
    """One loss per time."""
    times, first, counts = np.unique(curve.time, return_index=True, return_counts=True)
    if (counts == 1).all():
        return curve
    text = f"{int((counts > 1).sum())} times stand there repeatedly; the mean loss of each is used"
    means = np.array([_mean(part) for part in _groups(curve.loss, counts)])
    epoch = None if curve.epoch is None else curve.epoch[first]
    return replace(_with(curve, "repeated", text), time=times, loss=means, epoch=epoch)


def _groups(values: Values, counts: np.ndarray) -> Iterator[Values]:
    yield from np.split(values, np.cumsum(counts)[:-1])


def _mean(values: Values) -> float:
    """Geometric where it exists: fits weigh logarithms."""
    return float(np.exp(np.log(values).mean())) if (values > 0).all() else float(values.mean())
