"""Plateaus and drops: where a curve in log time lies flat, then falls far more steeply.

A plateau is flat compared with the fall that ends it (and with the one before it), by a factor and by the noise; it lasts a twentieth of
a decade, and the loss changes by less than a factor of 1.5 on it. So a power law has none: it never steepens; nor has one that bends into
its floor. A drop is a fall from a plateau that is over within a decade: a longer one is a slope. Drops with no plateau between them that
lasts are one. The level after the last drop is a plateau that nothing has ended yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nqf_pipeline.analysis.curves.bins import Binned, ManyBinned
from nqf_pipeline.analysis.curves.segments import Piece, pieces_many
from nqf_pipeline.analysis.curves.timing import half_strength

FEWEST = 6
"""Bins without which nothing is looked for."""
FLAT = 1 / 3
"""Steepness of a plateau over that of the fall beside it, at most."""
SIGNIFICANT = 5.0
"""Deviations by which the two must differ."""
STANDING = 8.0
"""Deviations by which levels beside a drop must differ: correlated noise wanders, and its size is only estimated."""
BESIDE = 6
"""Bins on each side of a fall whose medians are compared."""
LASTING = 0.05 * float(np.log(10))
"""Shortest plateau, in ln time."""
DROP = float(np.log(10))
"""Longest drop, in ln time."""
LEVEL = float(np.log(1.5))
"""Largest change on a plateau, in ln loss."""
FALL = 0.02
"""Smallest fall, in ln loss."""


@dataclass(frozen=True)
class Plateau:
    """A flat stretch; times and loss in the file's units."""

    start: float
    end: float
    loss: float
    kind: str
    """`first`, `between` two drops, or `last` (nothing has ended it yet)."""


@dataclass(frozen=True)
class Drop:
    """A fall from one level to the next. `time` is where three quarters of it are made, with the uncertainty from noise and records."""

    start: float
    end: float
    time: float
    uncertainty: float
    factor: float
    """Loss before over loss after."""
    kind: str
    """`drop`, `unfinished` (no flat level follows), or `epoch_boundary`."""


def steps(curve: Binned) -> tuple[list[Plateau], list[Drop]]:
    """Plateaus and drops of a curve in bins, in order of time."""
    return steps_many(ManyBinned(curve.x, curve.y[None], curve.error[None]))[0]


def steps_many(curves: ManyBinned) -> list[tuple[list[Plateau], list[Drop]]]:
    """Plateaus and drops of each curve."""
    if len(curves.x) < FEWEST:
        return [([], [])] * len(curves.y)
    return [_steps(curves[number], line) for number, line in enumerate(pieces_many(curves))]


def _steps(curve: Binned, line: list[Piece]) -> tuple[list[Plateau], list[Drop]]:
    """From its pieces."""
    plateaus: list[Plateau] = []
    drops: list[Drop] = []
    for *where, last in _falls(line):
        flat, first = _flat_before(curve, line, *where)
        start, end = line[first].start, line[last - 1].end
        kind = "drop" if last < len(line) else "unfinished"
        if flat is None:
            _merge(curve, drops, end, kind)
        elif end - start > DROP:  # goes on: a slope; what lay before it is a plateau all the same
            plateaus.append(_plateau(curve, flat, "between" if drops else "first"))
        elif _deep(curve, start, end):
            plateaus.append(_plateau(curve, flat, "between" if drops else "first"))
            drops.append(_drop(curve, start, end, kind))
    if drops and drops[-1].kind == "drop":
        plateaus += _last(curve, line, drops[-1])
    return plateaus, [_between_levels(curve, drop, plateaus) for drop in drops]


def _lasting(curve: Binned, flat: tuple[float, float] | None) -> tuple[float, float] | None:
    """A flat stretch, if it is long enough and more than two records make it."""
    if flat is None or flat[1] - flat[0] < LASTING:
        return None
    return flat if np.sum((curve.x >= flat[0] - 1e-9) & (curve.x <= flat[1] + 1e-9)) > 2 else None


def _merge(curve: Binned, drops: list[Drop], end: float, kind: str) -> None:
    """A fall after no plateau that lasts belongs to the drop before it."""
    if drops and end - np.log(drops[-1].start) <= DROP:
        drops[-1] = _drop(curve, float(np.log(drops[-1].start)), end, kind)


def _falls(line: list[Piece]) -> list[tuple[int, int, int, int]]:
    """Every fall from a flat piece: first piece that may belong to the plateau, the flat one, first and one past the last of the fall."""
    found, begin, low, i = [], 0, 0, 1
    while i < len(line):
        if abs(line[low].steepness) > FLAT * line[i].steepness or not _contrast(line[low], line[i]):
            low = i if abs(line[i].steepness) < abs(line[low].steepness) else low
            i += 1
            continue
        peak, last = i, i + 1
        while last < len(line) and not _contrast(line[last], line[peak]):
            peak = last if line[last].steepness > line[peak].steepness else peak
            last += 1
        first = i
        while first - 1 > low and line[first - 1].steepness > FLAT * line[peak].steepness:
            first -= 1
        found.append((begin, low, first, last))
        begin, low, i = last, last, last + 1
    return found


def _contrast(flat: Piece, steep: Piece) -> bool:
    """Whether one piece is flat compared with the other."""
    apart = steep.steepness - flat.steepness > SIGNIFICANT * np.hypot(flat.error, steep.error)
    return bool(steep.steepness > 0 and flat.steepness <= FLAT * steep.steepness and apart)


def _flat_before(curve: Binned, line: list[Piece], begin: int, low: int, first: int) -> tuple[tuple[float, float] | None, int]:
    """The flat stretch before a fall, and the fall's first piece: bends between the two belong to the fall."""
    for start in range(first, low, -1):
        flat = _lasting(curve, _flat(line, begin, start))
        if flat is not None:
            return flat, start
    return None, first


def _flat(line: list[Piece], begin: int, first: int) -> tuple[float, float] | None:
    """The flat stretch that ends where a fall begins."""
    steep = line[first].steepness
    start, change = first, 0.0
    while start > begin and abs(line[start - 1].steepness) <= FLAT * steep:
        change = max(change, *(abs(level - line[first - 1].right) for level in (line[start - 1].left, line[start - 1].right)))
        if change > LEVEL:
            break
        start -= 1
    return None if start == first else (line[start].start, line[first - 1].end)


def _deep(curve: Binned, start: float, end: float) -> bool:
    """Whether the loss stays down: medians of a few bins on both sides, so that no single one makes a drop."""
    first, last = (int(i) for i in np.searchsorted(curve.x, (start - 1e-9, end - 1e-9)))
    before, after = slice(max(first - BESIDE + 1, 0), first + 1), slice(min(last, len(curve.x) - 3), last + BESIDE)
    error = 1.25 * np.hypot(*(np.sqrt(np.mean(curve.error[side] ** 2) / len(curve.error[side])) for side in (before, after)))
    return bool(np.median(curve.y[before]) - np.median(curve.y[after]) > max(FALL, STANDING * float(error)))


def _plateau(curve: Binned, stretch: tuple[float, float], kind: str) -> Plateau:
    inside = (curve.x >= stretch[0] - 1e-9) & (curve.x <= stretch[1] + 1e-9)
    level = float(np.exp(np.average(curve.y[inside], weights=curve.error[inside] ** -2.0)))
    return Plateau(float(np.exp(stretch[0])), float(np.exp(stretch[1])), level, kind)


def _drop(curve: Binned, start: float, end: float, kind: str, levels: tuple[float, float] | None = None) -> Drop:
    """The fall between two levels of ln loss; without them, between its ends."""
    first, last = (int(i) for i in np.searchsorted(curve.x, (start - 1e-9, end - 1e-9)))
    high, low = levels or (float(curve.y[first]), float(curve.y[last]))
    time, spread = half_strength(curve.part(first, last + 1), high, low)
    return Drop(float(np.exp(start)), float(np.exp(end)), time, spread, float(np.exp(high - low)), kind)


def _between_levels(curve: Binned, drop: Drop, plateaus: list[Plateau]) -> Drop:
    """A drop from the plateau before it to the one after it, where that is not long after."""
    before = max((plateau for plateau in plateaus if plateau.start < drop.start * (1 + 1e-9)), key=lambda plateau: plateau.start)
    after = min((plateau for plateau in plateaus if plateau.start >= drop.time), key=lambda plateau: plateau.start, default=None)
    if after is None or after.start > drop.end * np.exp(LASTING * 4):
        return drop
    return _drop(
        curve, float(np.log(drop.start)), float(np.log(drop.end)), drop.kind, (float(np.log(before.loss)), float(np.log(after.loss)))
    )


def _last(curve: Binned, line: list[Piece], drop: Drop) -> list[Plateau]:
    """The level after the last drop, as far as it is flat compared with it."""
    steep = np.log(drop.factor) / np.log(drop.end / drop.start)
    begin = end = line[-1].end
    change = 0.0
    for piece in reversed(line):
        change = max(change, *(abs(level - line[-1].right) for level in (piece.left, piece.right)))
        if piece.start < np.log(drop.end) - 1e-9 or abs(piece.steepness) > FLAT * steep or change > LEVEL:
            break
        begin = piece.start
    return [_plateau(curve, (begin, end), "last")] if end - begin >= LASTING else []
