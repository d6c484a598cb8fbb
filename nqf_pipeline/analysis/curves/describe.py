"""What a curve shows: its law or why there is none, plateaus and drops, and everything that is not a law (rises, spikes, epochs)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from nqf_pipeline.analysis.curves.bins import Binned, ManyBinned, binned, binned_many
from nqf_pipeline.analysis.curves.breaks import falling, first_apart, jumps, rise, spikes
from nqf_pipeline.analysis.curves.cleaning import cleaned, positive
from nqf_pipeline.analysis.curves.columns import Series
from nqf_pipeline.analysis.curves.epochs import Staircase, per_epoch, staircase
from nqf_pipeline.analysis.curves.law import CONFIDENCE, Law, law
from nqf_pipeline.analysis.curves.models import Model, compare
from nqf_pipeline.analysis.curves.noise import Noise, noise, noise_many
from nqf_pipeline.analysis.curves.segments import smooth_many
from nqf_pipeline.analysis.curves.steps import Drop, Plateau, steps
from nqf_pipeline.analysis.curves.table import Note
from nqf_pipeline.analysis.windows import POINTS, Unresolved

FIT_BINS = 60
"""Bins over the range of a curve, for laws."""
FEWEST_BINS = 8
CORRELATED = 4.0
"""Least inflation of the noise by correlation, for plateaus: a few dozen records do not show theirs."""
LOOKS = 2
TAKEN_OUT = 2.0
"""Noise that straight pieces take out together with the steps."""
STEP_BINS, FEWEST, MOST = 40, 64, 256
"""Bins in a decade for plateaus and drops (which are narrow), and limits to their number."""


@dataclass(frozen=True)
class Description:
    """One curve, described. Times and losses are in the units of the file."""

    curve: str
    time_name: str
    spacing: str
    """`log`, `linear` or `irregular`: how the records lie in time."""
    time: Float[np.ndarray, "records"]
    loss: Float[np.ndarray, "records"]
    law: Law | None
    reason: str
    """Why there is no exponent; empty: there is one."""
    plateaus: list[Plateau]
    drops: list[Drop]
    notes: list[Note] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    """Laws compared in the window (where there is none, on the longest stretch that falls), best first."""

    @property
    def status(self) -> str:
        """`ok` or `not_resolved`."""
        return "ok" if self.law else "not_resolved"

    def document(self) -> dict[str, Any]:
        """What `nqf fit --json` prints for one curve."""
        found = self.law
        return {
            "curve": self.curve,
            "time": self.time_name,
            "records": len(self.time),
            "spacing": self.spacing,
            "exponent": found.exponent if found else None,
            "ci_low": found.low if found else None,
            "ci_high": found.high if found else None,
            "confidence": CONFIDENCE,
            "window": [found.window.start, found.window.end] if found else None,
            "floor": found.floor if found else None,
            "status": self.status,
            "reason": self.reason,
            "plateaus": [asdict(plateau) for plateau in self.plateaus],
            "drops": [asdict(drop) for drop in self.drops],
            "models": [asdict(model) for model in self.models],
            "notes": [asdict(note) for note in self.notes],
        }


def describe(raw: Series) -> list[Description]:
    """Each run of a curve."""
    return [_described(curve) for curve in cleaned(raw)]


def _described(curve: Series) -> Description:
    usable = positive(curve)
    spacing = _spacing(usable.time)
    notes = list(usable.notes)
    models: list[Model] = []

    def result(reason: str, found: Law | None = None, plateaus: Any = (), drops: Any = ()) -> Description:
        shown = (curve.name, curve.time_name, spacing, curve.time, curve.loss)
        return Description(*shown, found, reason, list(plateaus), list(drops), notes, models)

    if len(usable.time) < 2:
        return result(f"too few points: {len(usable.time)} records with positive time and loss")
    rough = noise(np.log(usable.loss))
    usable = _without_first(_without_spikes(usable, rough, notes), rough, notes)
    pieces = _unbroken(usable, rough, notes)
    main = max(pieces, key=lambda piece: np.log(piece.time[-1]) - np.log(piece.time[0]))
    rough = noise(np.log(main.loss))
    fine, coarse = fine_bins(main.time, main.loss, rough), binned(main.time, main.loss, rough, FIT_BINS)
    _say_rise(coarse, curve.time_name, notes)
    periodic = staircase(main.time, main.loss, rough, main.epoch)
    plateaus, drops = steps(fine)
    if periodic:
        plateaus, drops = _at_epochs(periodic, plateaus, drops)
        notes.append(_epoch_note(periodic, curve.time_name))
    elif per_epoch(main.time, main.epoch):
        text = "there is one record an epoch: drops at epoch boundaries could not be told from a smooth fall"
        notes.append(Note("one_record_per_epoch", text))
    try:
        if periodic:
            raise Unresolved("no power law: the loss falls in steps at epoch boundaries, which is memorised data and not a law")
        found = _law(coarse, _rises(notes))
    except Unresolved as finding:
        models += _models(coarse.part(*falling(coarse)[0]), fine, drops)
        return result(str(finding), None, plateaus, drops)
    inside = np.flatnonzero(found.window.of(coarse.time))
    models += _models(coarse.part(inside[0], inside[-1] + 1), fine, drops)
    return result("", found, plateaus, drops)


def _models(stretch: Binned, fine: Binned, drops: Sequence[Drop]) -> list[Model]:
    """Compared in fine bins where there are drops, which coarse ones blur."""
    own = [drop for drop in drops if drop.kind != "epoch_boundary"]
    if own:
        inside = np.flatnonzero((fine.x >= stretch.x[0] - 1e-9) & (fine.x <= stretch.x[-1] + 1e-9))
        stretch = fine.part(inside[0], inside[-1] + 1)
    return compare(stretch, own) if len(stretch.x) >= POINTS else []


def fine_bins(time: Float[np.ndarray, "records"], loss: Float[np.ndarray, "records"], rough: Noise) -> Binned:
    """Bins for plateaus and drops."""
    one = Noise(np.array([rough.deviation]), np.array([rough.inflation]))
    return fine_many(time, np.log(loss)[None], one)[0]


def fine_many(time: Float[np.ndarray, "records"], log_loss: Float[np.ndarray, "curves records"], rough: Noise) -> ManyBinned:
    """Of each curve. Steps look like correlated noise: what each look finds of them is taken out of the noise for the next."""
    curves = binned_many(time, log_loss, rough, step_bins(time))
    if len(curves.x) < FEWEST_BINS:
        return curves
    x, inflation = np.log(time), rough.inflation
    for _ in range(LOOKS):
        line = smooth_many(curves)
        rest = noise_many(log_loss - np.stack([np.interp(x, curves.x, values) for values in line]))
        inflation = np.maximum(CORRELATED, np.minimum(inflation, TAKEN_OUT * rest.inflation))
        curves = binned_many(time, log_loss, Noise(rough.deviation, inflation), step_bins(time))
    return curves


def step_bins(time: Float[np.ndarray, "records"]) -> int:
    """Bins over the range of a curve, for plateaus and drops."""
    return int(np.clip(STEP_BINS * (np.log10(time[-1]) - np.log10(time[0])), FEWEST, MOST))


def _law(curve: Binned, rises: bool) -> Law:
    """Of the longest stretch without a rise."""
    first, last = falling(curve)[0]
    try:
        return law(curve.part(first, last))
    except Unresolved as finding:
        if rises:
            raise Unresolved(f"the loss rises, and is not fitted through; where it falls longest: {finding}") from None
        raise


def _rises(notes: list[Note]) -> bool:
    return any(note.code in ("rise", "jump") for note in notes)


def _spacing(time: Float[np.ndarray, "records"]) -> str:
    """By which the distances between records vary less: in time or in its logarithm."""
    if len(time) < 4:
        return "irregular"
    spreads = {}
    for name, scale in (("linear", time), ("log", np.log(time))):
        distance = np.diff(scale)
        spreads[name] = float(np.subtract(*np.percentile(distance, (90, 10))) / np.median(distance))
    best = min(spreads, key=lambda name: spreads[name])
    return best if spreads[best] < 1.5 else "irregular"


def _without_spikes(curve: Series, rough: Noise, notes: list[Note]) -> Series:
    marked = spikes(np.log(curve.loss), rough)
    if not marked.any() or marked.all():
        return curve
    top = int(np.argmax(np.where(marked, curve.loss, -np.inf)))
    notes.append(
        Note("spikes", f"{int(marked.sum())} records are spikes (the highest {curve.loss[top]:.4g} at {curve.time[top]:g}); not fitted")
    )
    keep = ~marked
    return replace(curve, time=curve.time[keep], loss=curve.loss[keep], epoch=None if curve.epoch is None else curve.epoch[keep])


def _without_first(curve: Series, rough: Noise, notes: list[Note]) -> Series:
    """A first record far above a curve that then hardly falls: training or averaging began there."""
    if not first_apart(np.log(curve.loss), rough):
        return curve
    share = curve.loss[0] / curve.loss[1] - 1
    notes.append(Note("first_record", f"the first record stands {share:.1%} above the next, unlike all that follow; not fitted"))
    return replace(curve, time=curve.time[1:], loss=curve.loss[1:], epoch=None if curve.epoch is None else curve.epoch[1:])


def _unbroken(curve: Series, rough: Noise, notes: list[Note]) -> list[Series]:
    """The pieces between jumps; those with fewer than two records are left out."""
    places = jumps(np.log(curve.loss), rough)
    if not places:
        return [curve]
    where = ", ".join(f"{curve.time[i]:g}" for i in places[:6]) + (", ..." if len(places) > 6 else "")
    largest = max(curve.loss[i] / curve.loss[i - 1] for i in places)
    text = (
        f"the loss jumps up {len(places)} time(s), at {curve.time_name} {where}, by up to a factor of {largest:.3g}, and stays up at first "
        "(instabilities or restarts): the longest piece between jumps is described, none is fitted through"
    )
    notes.append(Note("jump", text))
    rows = [part for part in np.split(np.arange(len(curve.time)), places) if len(part) > 1]
    epoch = curve.epoch
    return [replace(curve, time=curve.time[r], loss=curve.loss[r], epoch=None if epoch is None else epoch[r]) for r in rows]


def _say_rise(curve: Binned, clock: str, notes: list[Note]) -> None:
    found = rise(curve)
    if found is None:
        return
    falls = curve.loss[-1] < found.low
    text = f"the loss rises from {found.low:.4g} at {clock} {found.start:g} to {found.high:.4g} at {found.end:g}"
    text += ", before it falls below where it was" if falls else " and does not come back below where it was"
    notes.append(Note("rise", text))


def _at_epochs(periodic: Staircase, plateaus: list[Plateau], drops: list[Drop]) -> tuple[list[Plateau], list[Drop]]:
    """Drops of the staircase by their name, instead of what log time made of them."""
    near = periodic.spread
    found = zip(periodic.times, periodic.factors, strict=True)
    named = [Drop(float(t - near), float(t + near), float(t), near, float(factor), "epoch_boundary") for t, factor in found]
    others = [drop for drop in drops if not periodic.holds(drop.time)]
    between = [replace(plateau, kind="epoch") if periodic.holds(plateau.end) else plateau for plateau in plateaus]
    return between, sorted([*named, *others], key=lambda drop: drop.time)


def _epoch_note(periodic: Staircase, clock: str) -> Note:
    length = "the length of an epoch" if periodic.of_epochs else "presumably an epoch"
    text = (
        f"{len(periodic.times)} drops stand {periodic.period:.6g} {clock} apart ({length}): the loss falls when data are seen again. "
        "These are epoch boundaries, not ignitions"
    )
    return Note("epoch_staircase", text)
