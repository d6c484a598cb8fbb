"""All figures of a study: what there is, and drawing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from nqf_pipeline.errors import InputError
from nqf_pipeline.report.beside import Entries, shared
from nqf_pipeline.report.canvas import Drawing, Omitted, save
from nqf_pipeline.report.collapse import collapse
from nqf_pipeline.report.data import Findings
from nqf_pipeline.report.departure import departure
from nqf_pipeline.report.digits import digits
from nqf_pipeline.report.exponents import exponents
from nqf_pipeline.report.extrapolation import extrapolation
from nqf_pipeline.report.ignition import ignition
from nqf_pipeline.report.kernel import kernel
from nqf_pipeline.report.laws import fourier, power_laws
from nqf_pipeline.report.layers import layers
from nqf_pipeline.report.learning import learning
from nqf_pipeline.report.modes import modes
from nqf_pipeline.report.paper.figure2 import figure2
from nqf_pipeline.report.paper.figure3 import figure3
from nqf_pipeline.report.paper.figure4 import figure4
from nqf_pipeline.report.paper.figure5 import figure5
from nqf_pipeline.report.regimes import regimes
from nqf_pipeline.report.run import run
from nqf_pipeline.report.spectra import spectra
from nqf_pipeline.report.style import theme
from nqf_pipeline.report.tradeoffs import tradeoffs
from nqf_pipeline.report.validity import validity
from nqf_pipeline.report.window_scan import window_scan
from nqf_pipeline.store.atomic import write_json
from nqf_pipeline.store.open import open_study
from nqf_pipeline.study.config import ReportSettings
from nqf_pipeline.study.layout import Layout
from nqf_pipeline.study.spelling import no_such

Draw = Callable[[Findings, ReportSettings], Drawing | Omitted]
PAPER: dict[str, Draw] = {"figure2": figure2, "figure3": figure3, "figure4": figure4, "figure5": figure5}
"""Figures of the paper with theory and experiment in one picture: drawn where a study names them, not part of `all`."""
GENERAL: dict[str, Draw] = {
    "learning": learning,
    "modes": modes,
    "ignition": ignition,
    "departure": departure,
    "validity": validity,
    "kernel": kernel,
    "exponents": exponents,
    "window_scan": window_scan,
    "power_laws": power_laws,
    "fourier": fourier,
    "digits": digits,
    "spectra": spectra,
    "run": run,
}
"""What `all` stands for: figures that any study may fill."""
LAWS: dict[str, Draw] = {
    "regimes": regimes,
    "extrapolation": extrapolation,
    "tradeoffs": tradeoffs,
    "collapse": collapse,
    "layers": layers,
}
"""Figures of one question each: drawn where a study names them, not part of `all`."""
FIGURES = PAPER | LAWS | GENERAL
"""By name, in the order of the page."""


class FigureError(InputError):
    """The settings name a figure, style or palette that does not exist."""


def chosen(settings: ReportSettings) -> list[str]:
    """Names of the figures asked for, in the order of the page."""
    if settings.figures == "all":
        return list(GENERAL)
    for name in settings.figures:
        if name not in FIGURES:
            raise FigureError(f"report.figures: {no_such('figure', name, list(FIGURES))}")
    return [name for name in FIGURES if name in settings.figures]


def draw(results: Path, settings: ReportSettings, processes: int = 1) -> list[Path]:
    """Draw the chosen figures of a results folder into its `figures/`; figures of earlier settings are removed.

    `figures.json`, written last, holds what the page says about each: its title and caption, or why it is left out.
    Two `processes` draw the same figures in about half the time.
    """
    layout = Layout(Path(results))
    listing = shared(partial(_draw, layout.root, settings), chosen(settings), processes)
    paths = [
        layout.figures / f"{name}.{suffix}" for name, entry in listing.items() if "omitted" not in entry for suffix in settings.formats
    ]
    _remove_stale(layout.figures, paths)
    write_json(layout.figure_list, listing)
    return paths


def _draw(results: Path, settings: ReportSettings, names: Iterator[str]) -> Entries:
    """Save some figures; what the page says about each."""
    findings, listing = Findings(open_study(results, allow_partial=True)), {}
    for name in names:
        with theme(settings.style):
            drawing = FIGURES[name](findings, settings)
            if isinstance(drawing, Omitted):
                listing[name] = {"omitted": drawing.reason}
                continue
            save(drawing, Layout(results).figures, name, settings.formats, settings.dpi)
            listing[name] = {"title": drawing.title, "caption": drawing.caption}
    return listing


def _remove_stale(folder: Path, kept: list[Path]) -> None:
    for path in folder.glob("*"):
        if path.stem in FIGURES and path not in kept and path.suffix in {".svg", ".png", ".pdf"}:
            path.unlink()
