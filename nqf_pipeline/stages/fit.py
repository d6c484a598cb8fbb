"""`nqf fit`: what any loss curve shows, in a table, a JSON document and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nqf_pipeline.analysis.curves import Description, Note, describe, read
from nqf_pipeline.analysis.curves.models import DECISIVE, decided
from nqf_pipeline.errors import InputError

FORMATS = (".png", ".svg")
DPI = 150


def fit_file(path: Path, time: str | None = None, loss: str | None = None) -> list[Description]:
    """Every curve of a file, the main one first."""
    found = [described for curve in read(path, time, loss) for described in describe(curve)]
    if not any(len(described.time) for described in found):
        raise InputError(
            f"{path}: every loss is NaN or infinite, so there is no curve; give a file with finite losses, or name another --loss"
        )
    return found


def document(path: Path, found: Sequence[Description]) -> dict[str, Any]:
    """What `nqf fit --json` prints: the main curve's findings, and those of the others in `others`."""
    return {"file": str(path), **found[0].document(), "others": [described.document() for described in found[1:]]}


def default_figure(path: Path) -> Path:
    """Where the figure goes if nothing is said: into the folder the command runs in."""
    return Path(f"{path.name.partition('.')[0] or 'curve'}.fit.png")


def check_figure(path: Path) -> None:
    """Refuse a figure of a format that is not written, before any work."""
    if path.suffix not in FORMATS:
        raise InputError(f"--figure {path}: the ending says the format; written are {' and '.join(FORMATS)}")


def draw(path: Path, found: Sequence[Description], figure: Path) -> Path:
    """Save the figure."""
    from nqf_pipeline.report.canvas import save
    from nqf_pipeline.report.curve import curve
    from nqf_pipeline.report.style import theme

    with theme():
        return save(curve(path.name, found), figure.parent, figure.stem, [figure.suffix[1:]], DPI)[0]


def rows(found: Sequence[Description]) -> list[dict[str, str]]:
    """The table: one row a curve."""
    return [_row(described) for described in found]


def events(found: Sequence[Description]) -> list[str]:
    """Plateaus and drops in words, in order of time."""
    lines = []
    for described in found:
        prefix = f"{described.curve}: " if len(found) > 1 else ""
        times = [
            (p.start, f"{prefix}plateau ({p.kind}) from {p.start:.6g} to {p.end:.6g} at loss {p.loss:.4g}") for p in described.plateaus
        ]
        times += [
            (d.time, f"{prefix}{_DROPS[d.kind]} at {d.time:.6g} +- {d.uncertainty:.2g}, loss falls by a factor of {d.factor:.3g}")
            for d in described.drops
        ]
        lines += [text for _, text in sorted(times)]
    return lines


def reasons(found: Sequence[Description]) -> list[str]:
    """Why there is no exponent, curve by curve."""
    return [f"{described.curve} is not resolved: {described.reason}" for described in found if described.reason]


def evidence(found: Sequence[Description]) -> list[str]:
    """The models compared, curve by curve: how far each lies above the best."""
    lines = []
    for described in found:
        models = described.models
        if not models:
            continue
        prefix = f"{described.curve}: " if len(found) > 1 else ""
        others = ", ".join(f"{model.model} +{model.bic:.1f}" for model in models[1:] if np.isfinite(model.bic))
        verdict = "" if decided(models) else f" (differences below {DECISIVE:g} decide nothing)"
        lines.append(f"{prefix}best model by BIC: {models[0].model}; {others}{verdict}")
    return lines


def remarks(found: Sequence[Description]) -> list[tuple[str, Note]]:
    """(curve, note); what holds for every curve is said once, for no curve in particular."""
    shared = [note for note in found[0].notes if all(note in described.notes for described in found)]
    own = [(described.curve, note) for described in found for note in described.notes if note not in shared]
    return [("", note) for note in shared] + (own if len(found) > 1 else [("", note) for _, note in own])


_DROPS = {"drop": "drop", "unfinished": "drop (unfinished)", "epoch_boundary": "drop at an epoch boundary"}


def _row(described: Description) -> dict[str, str]:
    law = described.law
    return {
        "curve": described.curve,
        "records": f"{len(described.time):,}",
        "exponent": f"{law.exponent:.3g} ({law.low:.3g} to {law.high:.3g})" if law else "-",
        "window": f"{law.window.start:.4g} to {law.window.end:.4g}" if law else "-",
        "floor": f"{law.floor:.3g}" if law else "-",
        "status": described.status,
        "plateaus": str(len(described.plateaus)),
        "drops": str(len(described.drops)),
    }
